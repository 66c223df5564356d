package scheduler_test

import (
	"slices"
	"testing"
	"time"

	"chronos/scheduler/dispatch"
	"chronos/scheduler/store"
	"chronos/scheduler/storetest"
	"chronos/scheduler/timer"
)

// Rule "tell every copy the outcome": after a failed attempt all copies wait for the retry, every
// copy for its own skew longer, the copy that failed included. So two nodes that differ about the
// better copy while a shard joins don't call back at the same instant.
func TestRetriesOfTwoCopiesAreASkewApart(t *testing.T) {
	one, both := []string{"s0"}, []string{"s0", "s1"}
	announced := storetest.Layout{Shards: both, Active: one, Others: [][]string{both}, Announced: true}
	after := storetest.Layout{Shards: both, Others: [][]string{one}, Epoch: 2}
	inCluster(t, 2, 3, func(c *cluster) {
		// A second node makes the second attempt. The third attempt is again for the node that
		// polls the copy, and has the copy in its wheel beforehand.
		c.respond = func(a attempt) (time.Duration, dispatch.Delivered) {
			if a.Attempt < 3 {
				return 100 * time.Millisecond, dispatch.Delivered{Reason: "status 503", RetryAfter: time.Second}
			}
			return 100 * time.Millisecond, dispatch.Delivered{Verdict: dispatch.VerdictDelivered}
		}
		c.Lay(announced)
		pass(time.Second)
		var ids []timer.ID
		for range 120 {
			asked := oneShot(time.Second)
			asked.ReplicationFactor = 2
			ids = append(ids, c.create(asked).ID)
		}
		c.Lay(after, nodeName(0), nodeName(1))
		pass(5 * time.Second)
		c.Lay(after)
		pass(15 * time.Second)
		for _, id := range ids {
			seen := c.callbacks(id.Key)
			for i, a := range seen {
				if a.Attempt != i+1 {
					c.Errorf("callback %d of %s is attempt %d", i+1, id, a.Attempt)
				}
			}
			if len(seen) != 3 {
				c.Errorf("%d callbacks of %s, want two that fail and one more: %+v", len(seen), id, seen)
			}
		}
		c.wantEmpty()
	})
}

// Rule "sweep copies to their owners": retries are a skew apart, too, where the sweep has made
// copies, or changed their ranks, while their timers waited for a retry.
func TestRetriesAreASkewApartAfterTheSweep(t *testing.T) {
	inCluster(t, 3, 2, func(c *cluster) {
		c.respond = func(a attempt) (time.Duration, dispatch.Delivered) {
			if a.Attempt == 1 {
				return 0, dispatch.Delivered{Reason: "status 503", RetryAfter: time.Minute}
			}
			return 0, dispatch.Delivered{Verdict: dispatch.VerdictDelivered}
		}
		var ids []timer.ID
		for range 60 {
			asked := oneShot(time.Second)
			asked.ReplicationFactor = 2
			ids = append(ids, c.create(asked).ID)
		}
		pass(5 * time.Second)
		_, announced, after := layouts()
		for _, l := range []storetest.Layout{announced, after} {
			c.Lay(l)
			pass(15 * time.Second)
		}
		const skew, rounding = 500 * time.Millisecond, 10 * time.Millisecond
		moved, probe := 0, c.Open("probe")
		for _, id := range ids {
			homes := probe.Rank(id.Key)[:2]
			if slices.Contains(homes, "s3") {
				moved++
			}
			read := probe.Read(c.Context(), []store.Spot{{Shard: homes[0], Key: id.Key}, {Shard: homes[1], Key: id.Key}})
			first, second := read[0], read[1]
			if apart := second.Look.Sub(first.Look); first.Record.State.Attempt != 1 || second.Record.State != first.Record.State || (apart-skew).Abs() > rounding {
				c.Errorf("%s: %+v on %s and %+v on %s, %v later; want %v", id, first.Record.State, homes[0], second.Record.State, homes[1], apart, skew)
			}
		}
		if moved == 0 {
			c.Error("no timer belongs on the shard that has come")
		}
		pass(time.Minute)
		for _, id := range ids {
			if seen := c.callbacks(id.Key); len(seen) != 2 {
				c.Errorf("%d callbacks of %s, want one that fails and its retry: %+v", len(seen), id, seen)
			}
		}
		c.wantEmpty()
	})
}

// Rule "sweep copies to their owners": a node that is a step behind writes to the copy of a coming
// owner as to a leftover, so that the copy comes due half a skew late. The sweep gives the copy its turn.
func TestACopyThatBecomesAnOwnersComesDueInItsTurn(t *testing.T) {
	inCluster(t, 3, 2, func(c *cluster) {
		shards := []string{"s0", "s1", "s2"}
		announced := storetest.Layout{Shards: shards, Active: []string{"s0", "s1"}, Others: [][]string{shards}, Announced: true}
		after := storetest.Layout{Shards: shards, Others: [][]string{{"s0", "s1"}}, Epoch: 2}
		c.Lay(announced)
		pass(time.Second)
		var ids []timer.ID
		for range 60 {
			ids = append(ids, c.create(oneShot(time.Minute)).ID)
		}
		c.lay([2]storetest.Layout{after, announced})
		for _, id := range ids {
			for _, n := range c.nodes {
				if _, err := n.Replace(c.Context(), id, oneShot(time.Minute)); err != nil {
					c.Fatal(err)
				}
			}
		}
		c.Lay(after)
		pass(2 * time.Minute)
		for _, id := range ids {
			c.wantOnce(id.Key, 1, maxLate)
		}
		c.wantEmpty()
	})
}
