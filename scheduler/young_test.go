package scheduler_test

import (
	"testing"
	"time"

	"chronos/scheduler/store"
)

// A timer is replaced, and the new version is called and over at once. The earlier version, which a
// sweep, a repair or a late write still has on its way, comes to every owner afterwards: the
// earlier version is refused, and never called.
func TestAnEarlierVersionThatArrivesAfterTheEndIsRefused(t *testing.T) {
	inCluster(t, 2, 2, func(c *cluster) {
		before := oneShot(10 * time.Second)
		before.ReplicationFactor, before.Callback.Opaque = 2, "before"
		id := c.create(before).ID
		probe := c.Open("probe")
		late := c.writesOf(id.Key)
		at := before
		at.Interval, at.Callback.Opaque = 0, "after"
		if _, err := c.nodes[1].Replace(c.Context(), id, at); err != nil {
			c.Fatal(err)
		}
		pass(time.Second)
		c.wantOnce(id.Key, 1, time.Second)
		for _, w := range late {
			if got := probe.Tell(c.Context(), w.Shard, []store.Write{w})[0]; got.Status != store.WriteNewer {
				c.Errorf("%s took the earlier version: %+v", w.Shard, got)
			}
		}
		pass(30 * time.Second)
		if calls := c.callbacks(id.Key); len(calls) != 1 || calls[0].Callback.Opaque != "after" {
			c.Errorf("called back: %+v, want the new version, once", calls)
		}
		c.wantEmpty()
	})
}

// The outcome of an earlier pop restores a copy late, when the last pop was called and settled: the
// copy is refused, however old the version is.
func TestACopyRestoredAfterTheEndOfARecurringTimerIsRefused(t *testing.T) {
	inCluster(t, 2, 1, func(c *cluster) {
		asked := recurring(4*time.Second, 2)
		asked.ReplicationFactor = 2
		id := c.create(asked).ID
		pass(5 * time.Second)
		probe := c.Open("probe")
		late := c.writesOf(id.Key)
		pass(4 * time.Second)
		for _, w := range late {
			if got := probe.Tell(c.Context(), w.Shard, []store.Write{w})[0]; w.State.Seq != 2 || got.Status != store.WriteNewer {
				c.Errorf("%s took pop %d after the end: %+v", w.Shard, w.State.Seq, got)
			}
		}
		pass(30 * time.Second)
		if calls := c.callbacks(id.Key); len(calls) != 2 {
			c.Errorf("called back: %+v, want two pops", calls)
		}
		c.wantEmpty()
	})
}

// A timer that has waited for longer than an earlier version can be under way leaves nothing.
func TestTheEndOfAnOldVersionLeavesNothing(t *testing.T) {
	inCluster(t, 2, 1, func(c *cluster) {
		timer := oneShot(6 * time.Second)
		timer.ReplicationFactor = 2
		c.create(timer)
		pass(7 * time.Second)
		for _, name := range c.Open("probe").Shards() {
			if all := c.Copies(name); len(all) != 0 {
				c.Errorf("left on %s: %v", name, all)
			}
		}
	})
}

// writesOf are writes that make the two copies of a timer as the copies are now.
func (c *cluster) writesOf(key string) (writes []store.Write) {
	probe := c.Open("probe")
	for rank, shard := range c.homes(key, 2) {
		read := probe.Read(c.Context(), []store.Spot{{Shard: shard, Key: key}})[0]
		writes = append(writes, store.Write{
			Kind: store.WriteLive, Shard: shard, Key: key, State: read.Record.State, RF: 2, Rank: rank,
			Timer: &read.Record.Timer, DueIn: read.DueIn,
		})
	}
	return writes
}
