package main

import (
	"flag"
	"log/slog"
	"testing"

	"chronos/cmd/internal/environment"
	"chronos/cmd/internal/metricsdoc"
	"chronos/scheduler/kafka"
)

var update = flag.Bool("update", false, "write the bridge's part of docs/metrics.md")

// TestMetricsDocument: docs/metrics.md has every metric that a bridge alone has, as the registry describes the metric.
func TestMetricsDocument(t *testing.T) {
	t.Parallel()
	cfg, err := environment.LoadBridge(newSetup(t).environ())
	if err != nil {
		t.Fatal(err)
	}
	recorder, log := metricsdoc.NewRecorder(), slog.New(slog.DiscardHandler)
	bridge, err := kafka.Open(t.Context(), bridgeConfig(&cfg, log, recorder))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(bridge.Close)
	recorder.Check(t, "../../docs/metrics.md", "metrics of a bridge", *update)
}
