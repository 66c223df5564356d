package scheduler_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"chronos/scheduler/dispatch"
	"chronos/scheduler/settings"
	"chronos/scheduler/storetest"
	"chronos/scheduler/timing"
)

// Rule "do without silent shards": every node lacks a different shard. The node that reaches both
// copies of a timer calls the timer, once.
func TestAPopIsLeftToANodeThatReachesBothCopies(t *testing.T) {
	inCluster(t, 3, 3, func(c *cluster) {
		var keys []string
		for range 60 {
			keys = append(keys, c.create(recurring(5*time.Second, 3)).ID.Key)
		}
		pass(3 * time.Second)
		for i, shard := range c.Open("probe").Shards() {
			c.Connect(nodeName(i), shard, storetest.LinkMute)
		}
		pass(20 * time.Second)
		for _, key := range keys {
			c.wantOnce(key, 3, 3*time.Second) // a skew and 1 s
		}
	})
}

// A pop is left to other nodes for 5 s only: a node may fail although the node reaches the shard.
func TestAPopIsNotLeftForEver(t *testing.T) {
	inCluster(t, 2, 1, func(c *cluster) {
		key := c.create(oneShot(5 * time.Second)).ID.Key
		ctx, end := context.WithCancel(c.Context())
		defer end()
		go announce(ctx, c.Model, c.homes(key, 2)[0], 1)
		c.Connect(nodeName(0), c.homes(key, 2)[1], storetest.LinkMute)
		pass(20 * time.Second)
		seen := c.callbacks(key)
		if len(seen) != 1 {
			t.Fatalf("%d callbacks, want one", len(seen))
		}
		wantOnTime(t, seen, timing.LeftToOthers+time.Second)
		if late := seen[0].Late; late < timing.LeftToOthers {
			t.Errorf("it came %v after it was due, want %v", late, timing.LeftToOthers)
		}
	})
}

// Timers without a copy on a shard are on time while one node, or every node, loses the shard.
func TestTimersElsewhereAreOnTime(t *testing.T) {
	for name, when := range map[string][]time.Duration{
		"one node": {0}, "two nodes": {0, 0}, "all nodes": {0, 0, 0}, "one after another": {0, 400 * time.Millisecond, 800 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			inCluster(t, 3, 4, func(c *cluster) {
				gone := c.Open("probe").Shards()[0]
				var keys []string
				for len(keys) < 400 {
					asked := oneShot(3*time.Second + time.Duration(len(keys))*20*time.Millisecond)
					asked.ReplicationFactor = 1
					key := c.create(asked).ID.Key
					if !slices.Contains(c.Open("probe").Rank(key)[:2], gone) { // and no node asks the shard
						keys = append(keys, key)
					}
				}
				pass(3 * time.Second)
				cut := time.Now()
				for i, at := range when {
					pass(at - time.Since(cut))
					c.Connect(nodeName(i), gone, storetest.LinkMute)
				}
				pass(20 * time.Second)
				for _, key := range keys {
					c.wantOnce(key, 1, 250*time.Millisecond)
				}
			})
		})
	}
}

// backedUpOnOneShard creates timers whose second copy is on the shard, and which come due one after another
// from 3 s on.
func (c *cluster) backedUpOnOneShard() (shard string, keys []string) {
	c.Helper()
	probe := c.Open("probe")
	shard = probe.Shards()[0]
	for len(keys) < 200 {
		key := c.create(oneShot(3*time.Second + time.Duration(len(keys))*20*time.Millisecond)).ID.Key
		if probe.Rank(key)[1] == shard {
			keys = append(keys, key)
		}
	}
	return shard, keys
}

// Timers whose second copy is on a shard that a node ceases to reach are called by the node that reaches
// the shard, as soon as the first node has noticed.
func TestTimersLeftToOthersAreCalledSoon(t *testing.T) {
	inCluster(t, 3, 2, func(c *cluster) {
		gone, keys := c.backedUpOnOneShard()
		pass(3 * time.Second)
		c.Connect(nodeName(0), gone, storetest.LinkMute)
		pass(20 * time.Second)
		for _, key := range keys {
			c.wantOnce(key, 1, timing.SilentAfter+timing.LookInterval+timing.OverduePatience+150*time.Millisecond)
		}
	}, func(config *settings.Config) { config.PollInterval = 100 * time.Millisecond })
}

// A retry waits 1 s for other nodes than the node whose attempt failed. A node that leaves the retry to that node
// does not begin the second anew.
func TestARetryLeftToOthersIsCalledSoon(t *testing.T) {
	inCluster(t, 3, 2, func(c *cluster) {
		c.respond = func(a attempt) (time.Duration, dispatch.Delivered) {
			if a.Attempt == 1 {
				return 0, dispatch.Delivered{Reason: "status 500"}
			}
			return 0, dispatch.Delivered{Verdict: dispatch.VerdictDelivered}
		}
		gone, keys := c.backedUpOnOneShard()
		c.Connect(nodeName(0), gone, storetest.LinkMute)
		pass(20 * time.Second)
		const backoff, otherNode = time.Second, time.Second
		for _, key := range keys {
			seen := c.callbacks(key)
			if len(seen) != 2 {
				t.Errorf("%d callbacks of %s, want 2", len(seen), key)
				continue
			}
			if wait := seen[1].at.Sub(seen[0].at); wait > backoff+otherNode+timing.LookInterval+timing.OverduePatience {
				t.Errorf("%s was called again %v after its first callback", key, wait)
			}
		}
	}, func(config *settings.Config) { config.PollInterval = 100 * time.Millisecond })
}

// Timers whose second copy is on a shard that falls silent wait for the silence only, and not for
// nodes that will notice the silence, too.
func TestTimersOfASilentShardWaitForTheSilenceAlone(t *testing.T) {
	for name, apart := range map[string]time.Duration{"at once": 0, "one after another": 300 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			inCluster(t, 3, 2, func(c *cluster) {
				gone, keys := c.backedUpOnOneShard()
				pass(3 * time.Second)
				for i := range c.nodes {
					c.Connect(nodeName(i), gone, storetest.LinkMute)
					pass(apart)
				}
				pass(20 * time.Second)
				for _, key := range keys {
					c.wantOnce(key, 1, timing.SilentAfter+time.Duration(len(c.nodes)-1)*apart+500*time.Millisecond)
				}
			})
		})
	}
}
