package settings_test

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"chronos/scheduler/settings"
	"chronos/scheduler/timing"
)

// TestRenewedCallbacksBeginWhileALossIsQuiet: a bridge may have a limit and a skew of a minute.
// A shard that has lost firing marks is quiet for a shorter time.
func TestRenewedCallbacksBeginWhileALossIsQuiet(t *testing.T) {
	t.Parallel()
	for _, limit := range []time.Duration{time.Second, 4 * time.Second, time.Minute} {
		config := settings.Default("a", nil)
		config.Renew, config.Limit, config.Skew.Max = true, limit, time.Minute
		if got, want := config.Sending(true), min(limit/2, timing.QuietTime); got != want {
			t.Errorf("with a limit of %v a callback begins within %v, want %v", limit, got, want)
		}
	}
}

// TestEveryTimeIsChecked: an error names the time that breaks a relation, and the change needed.
// The defaults keep all relations, and so do the constants.
func TestEveryTimeIsChecked(t *testing.T) {
	t.Parallel()
	config := func() settings.Config { return settings.Default("a", slog.New(slog.DiscardHandler)) }
	if err := config().Validate(); err != nil {
		t.Fatalf("the defaults: %v", err)
	}
	for want, change := range map[string]func(c *settings.Config){
		"tombstone life 2s: want more than 2s":                                                 func(c *settings.Config) { c.TombLife = 2 * time.Second },
		"callback limit 2.5s: want at most 2s":                                                 func(c *settings.Config) { c.Limit = 2500 * time.Millisecond },
		"callback limit 3s: want less than 3s":                                                 func(c *settings.Config) { c.Limit, c.Hold = 3*time.Second, time.Minute },
		"poll interval 9ms: want at least 10ms":                                                func(c *settings.Config) { c.PollInterval = 9 * time.Millisecond },
		"poll interval 201ms: want at most a fifth of the lease grace 1s":                      func(c *settings.Config) { c.PollInterval = 201 * time.Millisecond },
		"poll interval 180ms: polls claim 250ms ahead; want less than the shortest skew 250ms": func(c *settings.Config) { c.PollInterval = 180 * time.Millisecond },
		"lease grace 500ms: want more than 500ms":                                              func(c *settings.Config) { c.Grace = 500 * time.Millisecond },
		"hold 2.9s: want at least the callback limit 2s and 1s to settle":                      func(c *settings.Config) { c.Hold = 2900 * time.Millisecond },
		"skew from 3s to 2s: want a positive range":                                            func(c *settings.Config) { c.Skew.Min = 3 * time.Second },
		"idempotency life 900ms: want at least 1s":                                             func(c *settings.Config) { c.IdempotencyLife = 900 * time.Millisecond },
		"away limit 9s: want at least 10s":                                                     func(c *settings.Config) { c.AwayLimit = 9 * time.Second },
	} {
		c := config()
		change(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q", err, want)
		}
	}
}
