package scheduler_test

import (
	"testing"
	"time"

	"chronos/scheduler/dispatch"
	"chronos/scheduler/settings"
	"chronos/scheduler/store"
	"chronos/scheduler/storetest"
	"chronos/scheduler/timer"
)

// Tombstones that remember an idempotency key go when the key's time is over.

const rememberedFor = 30 * time.Second

func remembersBriefly(config *settings.Config) { config.IdempotencyLife = rememberedFor }

// createOnce makes n timers of two copies, with an idempotency key, due in a minute.
func (c *cluster) createOnce(n int) (ids []timer.ID) {
	c.Helper()
	asked := oneShot(time.Minute)
	asked.ReplicationFactor = 2
	for i := range n {
		receipt, err := c.nodes[0].CreateOnce(c.Context(), string(rune('a'+i)), []byte("body"), asked)
		if err != nil {
			c.Fatal(err)
		}
		ids = append(ids, receipt.ID)
	}
	return ids
}

// Rule "tombstones outlive what was missed": a tombstone that has told all named copies is over,
// and does not begin another life.
func TestATombstoneWithAnIdempotencyKeyGoesWhenAllHaveHeard(t *testing.T) {
	inCluster(t, 2, 2, func(c *cluster) {
		ids := c.createOnce(10)
		c.connect("s1", storetest.LinkCut)
		pass(3 * time.Second)
		for _, id := range ids {
			if r, err := c.nodes[0].Delete(c.Context(), id); err != nil || r.Unreached != 1 {
				c.Fatalf("deleted: %+v, %v; want one copy unreached", r, err)
			}
		}
		c.connect("s1", storetest.LinkUp)
		pass(rememberedFor + 15*time.Second)
		c.wantEmpty()
		if seen := c.seen(); len(seen) > 0 {
			c.Errorf("called back although they were deleted: %+v", seen)
		}
	}, remembersBriefly)
}

// Rule "a repeated create finds the first": a callback began before its shard was drained. The end
// of the timer doesn't hold up the shard's removal for an hour.
func TestAnEndOnADrainedShardIsKeptBriefly(t *testing.T) {
	inCluster(t, 2, 2, func(c *cluster) {
		const takes = 1500 * time.Millisecond
		c.respond = func(attempt) (time.Duration, dispatch.Delivered) {
			return takes, dispatch.Delivered{Verdict: dispatch.VerdictDelivered}
		}
		ids := c.createOnce(10)
		pass(time.Minute + takes/2)
		c.Lay(oneLess("s1", "s0"))
		pass(takes)
		if seen := c.seen(); len(seen) != len(ids) {
			c.Fatalf("%d callbacks, want %d", len(seen), len(ids))
		}
		probe := c.Open("probe")
		for _, id := range ids {
			read := probe.Read(c.Context(), []store.Spot{{Shard: "s0", Key: id.Key}, {Shard: "s1", Key: id.Key}})
			for i, most := range []time.Duration{10 * time.Second, time.Hour} {
				if left := read[i].LookIn; !read[i].Record.State.Ended || left > most || left < most-3*time.Second {
					c.Errorf("s%d: %+v, kept for another %v; want an end, and %v", i, read[i].Record.State, left, most)
				}
			}
		}
	})
}
