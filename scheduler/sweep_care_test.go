package scheduler_test

import (
	"testing"
	"time"

	"chronos/scheduler/store"
	"chronos/scheduler/storetest"
	"chronos/scheduler/timer"
)

// watch looks at the copy of a timer on a shard every 20 ms, and returns after how long the copy
// was there; 0 if the copy never was.
func (c *cluster) watch(key, shard string, most time.Duration) (after time.Duration) {
	const step = 20 * time.Millisecond
	for after = step; after < most; after += step {
		pass(step)
		if _, there := c.Copies(shard)[key]; there {
			return after
		}
	}
	return 0
}

// wiped is a cluster with a timer of two copies, whose second copy was just lost.
func wiped(t *testing.T, in time.Duration, test func(c *cluster, key, lost string)) {
	t.Helper()
	inCluster(t, 2, 1, func(c *cluster) {
		pass(10 * time.Second) // the sweep of the start is over
		asked := oneShot(in)
		asked.ReplicationFactor = 2
		key := c.create(asked).ID.Key
		lost := c.homes(key, 2)[1]
		c.Wipe(lost)
		test(c, key, lost)
	})
}

// TestTheSweepWaitsAfterALoss: the lost copy may have had the mark of a callback that may still
// start. Only the missing copy tells of the callback then.
func TestTheSweepWaitsAfterALoss(t *testing.T) {
	wiped(t, time.Hour, func(c *cluster, key, lost string) {
		if after := c.watch(key, lost, 20*time.Second); after < 3*time.Second {
			c.Errorf("the lost copy was back after %v (0 for never), want 3s or more", after)
		}
	})
}

// TestTheSweepLeavesAloneWhatIsAboutToFire: a new copy may miss the outcome. The sweep begins 3 s
// to 5 s after the loss, and the timer is due after 5 s.
func TestTheSweepLeavesAloneWhatIsAboutToFire(t *testing.T) {
	wiped(t, 5*time.Second, func(c *cluster, key, lost string) {
		if after := c.watch(key, lost, 5*time.Second); after != 0 {
			c.Errorf("a copy was made after %v, want none", after)
		}
		pass(5 * time.Second)
		c.wantOnce(key, 1, maxLate)
	})
}

// TestTheSweepRemovesNoCopyThatTheOwnerLacks: while the new owner takes no copy, only the drained
// shard has a copy.
func TestTheSweepRemovesNoCopyThatTheOwnerLacks(t *testing.T) {
	inCluster(t, 2, 1, func(c *cluster) {
		key := c.keysOn("s0", 1)[0]
		if _, err := c.nodes[0].Replace(c.Context(), timer.ID{Key: key, RF: 1}, single(time.Hour)); err != nil {
			c.Fatal(err)
		}
		c.Inject(func(op, shard string) error {
			if op == "tell" && shard == "s1" {
				return timer.ErrUnavailable
			}
			return nil
		}, nil)
		c.Lay(storetest.Layout{Shards: []string{"s0", "s1"}, Active: []string{"s1"}, Others: [][]string{{"s0", "s1"}}, Epoch: 2})
		pass(20 * time.Second)
		if _, there := c.Copies("s0")[key]; !there {
			c.Error("the only copy was removed")
		}
		c.Inject(nil, nil)
		pass(20 * time.Second)
		if holders := c.holders(key); len(holders) != 1 || holders[0] != "s1" {
			c.Errorf("once the new owner takes copies, the copies are on %v, want s1", holders)
		}
	})
}

// TestADeleteIsToldWhereTheTimerBelongedBefore: until the sweep has come, a copy is on the former owner.
func TestADeleteIsToldWhereTheTimerBelongedBefore(t *testing.T) {
	inCluster(t, 2, 1, func(c *cluster) {
		id := timer.ID{Key: c.keysOn("s0", 1)[0], RF: 1}
		if _, err := c.nodes[0].Replace(c.Context(), id, single(time.Hour)); err != nil {
			c.Fatal(err)
		}
		c.Lay(storetest.Layout{Shards: []string{"s0", "s1"}, Active: []string{"s1"}, Others: [][]string{{"s0", "s1"}}, Epoch: 2})
		pass(time.Second)
		if _, err := c.nodes[0].Delete(c.Context(), id); err != nil {
			c.Fatal(err)
		}
		if state := c.Copies("s0")[id.Key]; !state.Ended {
			c.Errorf("after the delete the former owner has %+v, want a tombstone", state)
		}
	})
}

// TestASweepCountsForItsTopology: a partition that was swept for an earlier topology, or before
// somebody wanted the partition swept, is swept again.
func TestASweepCountsForItsTopology(t *testing.T) {
	t.Parallel()
	state := store.SweepState{WantedMs: 1000}
	state.Marks[3] = store.SweepMark{Epoch: 7, AtMs: 1000}
	state.Marks[4] = store.SweepMark{Epoch: 7, AtMs: 999}
	for _, c := range []struct {
		partition int
		epoch     int64
		want      bool
	}{{3, 7, true}, {3, 6, true}, {3, 8, false}, {4, 7, false}, {5, 1, false}} {
		if got := state.Done(c.partition, c.epoch); got != c.want {
			t.Errorf("partition %d is swept for epoch %d: %v, want %v", c.partition, c.epoch, got, c.want)
		}
	}
}
