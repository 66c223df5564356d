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
		{"CHRONOS_POLL_INTERVAL=10ms", "CHRONOS_HOLD=3s", "CHRONOS_REPLICA_SKEW=250ms", "CHRONOS_IDEMPOTENCY_LIFE=1s", "CHRONOS_AWAY_LIMIT=10s"},
		{"CHRONOS_POLL_INTERVAL=175ms", "CHRONOS_HOLD=1m", "CHRONOS_REPLICA_SKEW=1m", "CHRONOS_IDEMPOTENCY_LIFE=168h", "CHRONOS_AWAY_LIMIT=168h"},
	} {
		cfg, err := environment.LoadNode(environ)
		if err != nil {
			t.Fatal(err)
		}
		if err := engineConfig(cfg, "a", slog.New(slog.DiscardHandler), nil).Validate(); err != nil {
			t.Errorf("%q: %v", environ, err)
		}
	}
}
