package main

import (
	"log/slog"
	"testing"

	"chronos/cmd/internal/environment"
)

// TestAllowedTimesAgree: the shortest and the longest times that the environment allows agree
// with the times of the protocol.
func TestAllowedTimesAgree(t *testing.T) {
	t.Parallel()
	for _, environ := range [][]string{
		{"CHRONOS_KAFKA_POLL_INTERVAL=10ms", "CHRONOS_KAFKA_HOLD=3s", "CHRONOS_REPLICA_SKEW=250ms", "CHRONOS_KAFKA_REMEMBER=1s", "CHRONOS_AWAY_LIMIT=10s"},
		{"CHRONOS_KAFKA_POLL_INTERVAL=175ms", "CHRONOS_KAFKA_HOLD=1m", "CHRONOS_REPLICA_SKEW=1m", "CHRONOS_KAFKA_REMEMBER=168h", "CHRONOS_AWAY_LIMIT=168h"},
	} {
		cfg, err := environment.LoadBridge(append(environ,
			"CHRONOS_KAFKA_BROKERS=127.0.0.1:9092", "CHRONOS_KAFKA_INPUT=in", "CHRONOS_KAFKA_OUTPUT=out", "CHRONOS_REDIS=redis://127.0.0.1:6379/0"))
		if err != nil {
			t.Fatal(err)
		}
		if err := engineConfig(&cfg, "a", slog.New(slog.DiscardHandler), nil).Validate(); err != nil {
			t.Errorf("%q: %v", environ, err)
		}
	}
}
