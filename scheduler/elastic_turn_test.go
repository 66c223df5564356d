package scheduler_test

import (
	"testing"
	"time"

	"chronos/scheduler/dispatch"
	"chronos/scheduler/settings"
	"chronos/scheduler/storetest"
	"chronos/scheduler/timer"
)

// Rule "yield to the better copy": a node that has leased a backup before a shard is drained, and then leases the former
// primary, judges both copies by the shards of now. Otherwise each copy waits for the end of the other copy's lease.
func TestALeasedBackupKnowsThatItsPrimaryIsDrained(t *testing.T) {
	rarely := func(config *settings.Config) {
		config.PollInterval, config.Skew.Min, config.Grace = time.Second, 1500*time.Millisecond, 6*time.Second
	}
	for wait := 9 * time.Second; wait < 11*time.Second; wait += 100 * time.Millisecond {
		inCluster(t, 2, 2, func(c *cluster) { c.drainBetweenRetries(wait) }, rarely)
	}
}

// drainBetweenRetries drains s0 after a wait, while timers with several attempts come due one after another.
func (c *cluster) drainBetweenRetries(wait time.Duration) {
	const attempts = 4
	c.respond = func(a attempt) (time.Duration, dispatch.Delivered) {
		if a.Attempt < attempts {
			return 0, dispatch.Delivered{Reason: "status 503"}
		}
		return 0, dispatch.Delivered{Verdict: dispatch.VerdictDelivered}
	}
	var ids []timer.ID
	for range 300 {
		asked := oneShot(10 * time.Second)
		asked.Callback.Retry = timer.Retry{First: 300 * time.Millisecond, Factor: 1}
		ids = append(ids, c.create(asked).ID)
		pass(10 * time.Millisecond)
	}
	pass(wait)
	both := []string{"s0", "s1"}
	c.Lay(storetest.Layout{Shards: both, Active: both[1:], Others: [][]string{both}, Epoch: 2})
	pass(30 * time.Second)
	for _, id := range ids {
		seen := c.callbacks(id.Key)
		if len(seen) != attempts {
			c.Errorf("%d callbacks of %s, want %d", len(seen), id, attempts)
		}
		for i := range len(seen) - 1 {
			if pause := seen[i+1].at.Sub(seen[i].at); pause > 4*time.Second {
				c.Errorf("attempt %d of %s came %v after the failure before", i+2, id, pause)
			}
		}
	}
}
