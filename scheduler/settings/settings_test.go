package settings_test

import (
	"testing"
	"time"

	"chronos/scheduler/settings"
	"chronos/scheduler/timing"
)

// TestRenewedCallbacksBeginWhileALossIsQuiet: a bridge may have a limit and a skew of a minute.
// A shard that has lost firing marks is quiet for less.
func TestRenewedCallbacksBeginWhileALossIsQuiet(t *testing.T) {
	t.Parallel()
	for _, limit := range []time.Duration{time.Second, 4 * time.Second, time.Minute} {
		config := settings.Default("a", nil)
		config.Renew, config.Limit, config.Skew.Max = true, limit, time.Minute
		if got, want := config.Sending(), min(limit, timing.QuietTime); got != want {
			t.Errorf("with a limit of %v a callback begins within %v, want %v", limit, got, want)
		}
	}
}
