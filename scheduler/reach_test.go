package scheduler_test

import (
	"context"
	"testing"
	"time"

	"chronos/scheduler/storetest"
	"chronos/scheduler/timing"
)

// Rule "do without silent shards": where each node lacks another shard, each timer is called by
// the node that reaches both copies, and once.
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
			c.wantOnce(key, 3, 2*time.Second)
		}
	})
}

// A pop is left to others for 5 s only: a node that says it reaches a shard may come to nothing.
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
