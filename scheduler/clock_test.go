package scheduler_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"chronos/scheduler/settings"
	"chronos/scheduler/store"
	"chronos/scheduler/storetest"
	"chronos/scheduler/timer"
)

// Rule "versions rise": a write is newer than all writes that its node has heard of, however slow
// the node's clock is. When no copy took both of two writes, the write counts whose node knew of
// the earlier write.
func TestAWriteIsNewerThanWhatItsNodeHasHeardOf(t *testing.T) {
	inCluster(t, 2, 1, func(c *cluster) {
		c.Inject(func(op, _ string) error {
			if op == "beat" {
				return timer.ErrUnavailable // so no node hears of another node's clock
			}
			return nil
		}, nil)
		behind := c.startBehind("behind")
		for range 20 {
			id, other := c.create(oneShot(time.Minute)).ID, c.create(oneShot(time.Minute)).ID
			c.endUnheard(c.nodes[0], nodeName(0), id)
			if _, err := behind.Lookup(c.Context(), other); err != nil {
				c.Fatal(err)
			}
			c.wantReplaced(behind, "behind", id)
		}
	})
}

// Rule "versions rise": the same holds for a node that has just started and heard of no write.
// Nodes tell each other their clocks, and the clocks of stopped nodes.
func TestAWriteFollowsTheFastestClock(t *testing.T) {
	for name, gone := range map[string]bool{"a node that runs": false, "a node that is gone": true} {
		t.Run(name, func(t *testing.T) {
			for range 20 {
				inCluster(t, 2, 1, func(c *cluster) {
					id := c.create(oneShot(time.Minute)).ID
					c.endUnheard(c.nodes[0], nodeName(0), id)
					pass(1500 * time.Millisecond)
					if gone {
						c.nodes[0].stop()
						pass(4 * time.Second)
					}
					behind := c.startBehind("behind")
					pass(1500 * time.Millisecond)
					c.wantReplaced(behind, "behind", id)
				})
			}
		})
	}
}

// startBehind starts a node whose clock is behind.
func (c *cluster) startBehind(name string) *node {
	return startNode(c.T, c.Open(name), name, c.recorder, func(config *settings.Config) {
		briefly(config)
		config.Wall = func() time.Time { return time.Now().Add(-2 * time.Minute) }
	})
}

// endUnheard deletes a timer on its second shard, and the first shard forgets the timer.
func (c *cluster) endUnheard(by *node, name string, id timer.ID) {
	c.Helper()
	first := c.homes(id.Key, 2)[0]
	c.Connect(name, first, storetest.LinkCut)
	if _, err := by.Delete(c.Context(), id); err != nil {
		c.Fatal(err)
	}
	c.Connect(name, first, storetest.LinkUp)
	c.Wipe(first) // so no copy hears of the next write either
}

// wantReplaced replaces a timer on its first shard, and checks that the new timer counts.
func (c *cluster) wantReplaced(by *node, name string, id timer.ID) {
	c.Helper()
	second := c.homes(id.Key, 2)[1]
	c.Connect(name, second, storetest.LinkCut)
	changed, err := by.Replace(c.Context(), id, oneShot(10*time.Second))
	if err != nil || changed.Unreached != 1 {
		c.Fatalf("replaced: %+v, %v; want one unreached", changed, err)
	}
	c.Connect(name, second, storetest.LinkUp)
	pass(30 * time.Second)
	c.wantOnce(id.Key, 1, 2*time.Second+maxLate)
}

// slowStore delays heartbeats before they are executed.
type slowStore struct{ store.Store }

func (s slowStore) Beat(ctx context.Context, shard string, own store.Announcement) (store.Announced, error) {
	select {
	case <-time.After(450 * time.Millisecond):
	case <-ctx.Done():
		return store.Announced{}, errCut
	}
	return s.Store.Beat(ctx, shard, own)
}

// Rule "versions rise": where clocks agree, a slow heartbeat puts no node's clock ahead.
func TestASlowHeartbeatPutsNoClockAhead(t *testing.T) {
	for range 20 {
		inCluster(t, 2, 1, func(c *cluster) {
			slow := startNode(c.T, slowStore{c.Open("slow")}, "slow", c.recorder, briefly)
			id := c.create(oneShot(time.Minute)).ID
			pass(5 * time.Second)
			c.endUnheard(slow, "slow", id)
			pass(200 * time.Millisecond)
			c.wantReplaced(c.nodes[0], nodeName(0), id)
		})
	}
}

// Rule "versions rise": a wrong clock that was set right is forgotten, also by nodes that heard of
// the wrong clock on a shard that has been silent since.
func TestAClockThatWasSetRightIsFollowedNoMore(t *testing.T) {
	inCluster(t, 3, 1, func(c *cluster) {
		var ahead atomic.Int64
		ahead.Store(int64(10 * time.Minute))
		startNode(c.T, c.Open("fast"), "fast", c.recorder, func(config *settings.Config) {
			config.Wall = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
		})
		pass(3 * time.Second)
		version := func() time.Duration {
			key := c.create(oneShot(time.Hour)).ID.Key
			for _, name := range c.holders(key) {
				return time.Until(c.Copies(name)[key].Version.Time())
			}
			c.Fatal("it has no copy")
			return 0
		}
		if by := version(); by < 9*time.Minute {
			c.Errorf("%v ahead, want what the fast clock is", by)
		}
		shard := c.Open("probe").Shards()[2]
		c.connect(shard, storetest.LinkCut)
		c.Connect("fast", shard, storetest.LinkCut)
		pass(time.Second)
		ahead.Store(0)
		pass(12 * time.Minute) // by then versions that were written meanwhile are past
		if by := version(); by > 0 {
			c.Errorf("%v ahead, want what the clocks show", by)
		}
	})
}
