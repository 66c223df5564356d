package scheduler_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"chronos/scheduler/replica"
	"chronos/scheduler/store"
	"chronos/scheduler/storetest"
	"chronos/scheduler/timer"
)

// Rule "look wherever a copy may be": once the sweep has passed over a drained shard, nothing is
// written there, though records and IDs name the shard. Otherwise the shard could not be removed
// while timers end.
func TestADrainedShardStaysEmpty(t *testing.T) {
	inCluster(t, 3, 2, func(c *cluster) {
		all, stay := []string{"s0", "s1", "s2"}, []string{"s0", "s1"}
		var pops, deleted []timer.ID
		for range 30 {
			asked := recurring(5*time.Second, 20)
			asked.ReplicationFactor = 2
			pops, deleted = append(pops, c.create(asked).ID), append(deleted, c.create(asked).ID)
		}
		c.Lay(storetest.Layout{Shards: all, Active: stay, Others: [][]string{all}, Epoch: 2})
		for i := range pops { // from now on the records say that s2 may have a copy
			for _, id := range []*timer.ID{&pops[i], &deleted[i]} {
				asked := recurring(3*time.Second, 12)
				asked.ReplicationFactor = 2
				if _, err := c.nodes[i%2].Replace(c.Context(), *id, asked); err != nil {
					c.Fatal(err)
				}
			}
		}
		pass(25 * time.Second)
		if others := c.Open("probe").Others(pops[0].Key, 2); len(others) > 0 {
			c.Fatalf("%v is still remembered", others)
		}
		for i := range 100 {
			if i < len(deleted) {
				id := deleted[i]
				id.Hint = ^timer.Hint(0)
				if r, err := c.nodes[i%2].Delete(c.Context(), id); err != nil || r.Unreached > 0 || r.Copies != 2 {
					c.Errorf("deleted: %+v, %v; want two copies told", r, err)
				}
			}
			if left := c.Copies("s2"); len(left) > 0 {
				c.Fatalf("on the shard that takes no timers: %v", left)
			}
			pass(200 * time.Millisecond)
		}
		for _, id := range pops {
			c.wantOnce(id.Key, 12, time.Second+maxLate)
		}
		c.wantEmpty()
	})
}

// drainedButNotForgotten drains s2, one of three shards, and has s2 swept, while former places of
// timers still count.
func (c *cluster) drainedButNotForgotten() (forget func()) {
	all, stay := []string{"s0", "s1", "s2"}, []string{"s0", "s1"}
	c.Inject(func(op, shard string) error {
		if op == "markswept" && shard == "s0" {
			return errors.New("not now")
		}
		return nil
	}, nil)
	c.Lay(storetest.Layout{Shards: all, Active: stay, Others: [][]string{all}, Epoch: 2})
	pass(20 * time.Second)
	return func() {
		c.Inject(nil, nil)
		pass(5 * time.Second)
		if others := c.Open("probe").Others("k", 2); len(others) > 0 {
			c.Fatalf("%v is still remembered", others)
		}
	}
}

// Rule "look wherever a copy may be": a drained shard that has been swept has a tombstone. The next
// timer of the key makes no copy of the tombstone: no sweep would come for the copy.
func TestAnEndOnADrainedShardBecomesNoTimer(t *testing.T) {
	inCluster(t, 3, 2, func(c *cluster) {
		forget := c.drainedButNotForgotten()
		asked := oneShot(10 * time.Second)
		asked.ReplicationFactor = 2
		var replaced, read, once []timer.ID
		for i := range 60 {
			node := c.nodes[i%2]
			id := c.create(asked).ID
			if _, err := node.Delete(c.Context(), id); err != nil {
				c.Fatal(err)
			}
			if _, err := node.Replace(c.Context(), id, asked); err != nil {
				c.Fatal(err)
			}
			replaced = append(replaced, id)
			if id.Hint = ^timer.Hint(0); i%2 == 0 {
				if _, err := node.Lookup(c.Context(), id); err != nil {
					c.Fatal(err)
				}
				read = append(read, id)
			}
		}
		for i := range 60 {
			first := message(fmt.Sprint("k", i), "one", time.Second)
			c.wantStanding("first", c.standing(admit, c.nodes[i%2], first), replica.StandingNew)
			once = append(once, timer.ID{Key: first.Key})
		}
		pass(2 * time.Second)
		for i, id := range once {
			c.wantStanding("another", c.standing(admit, c.nodes[i%2], message(id.Key, "other", 8*time.Second)), replica.StandingNew)
		}
		pass(time.Second)
		ends := 0
		for key, state := range c.Copies("s2") {
			if ends++; !state.Ended {
				c.Errorf("%s lives on the shard that takes no timers: %+v", key, state)
			}
		}
		if ends == 0 || len(read) == 0 {
			c.Fatal("no end was told there")
		}
		forget()
		pass(time.Minute)
		for _, id := range replaced {
			c.wantOnce(id.Key, 1, maxLate)
		}
		for _, id := range once {
			c.wantOrigins(id.Key, "one", "other")
		}
	})
}

// Rule "a repeated create finds the first": a timer ended while a change of the shards was
// announced. The coming owners remember its idempotency key.
func TestAnIdempotencyKeyIsRememberedByComingOwners(t *testing.T) {
	inCluster(t, 4, 2, func(c *cluster) {
		_, announced, after := layouts()
		c.Lay(announced)
		asked := oneShot(time.Second)
		asked.ReplicationFactor = 1
		keys := make([]string, 60)
		for i := range keys {
			keys[i] = fmt.Sprint("once-", i)
			if _, err := c.nodes[i%2].CreateOnce(c.Context(), keys[i], []byte("body"), asked); err != nil {
				c.Fatal(err)
			}
		}
		pass(3 * time.Second)
		c.Lay(after)
		pass(time.Minute)
		for i, key := range keys {
			if r, err := c.nodes[i%2].CreateOnce(c.Context(), key, []byte("body"), asked); err != nil || !r.Replayed {
				c.Errorf("again: %+v, %v; want the answer of the first", r, err)
			}
		}
		pass(5 * time.Second)
		if seen := c.seen(); len(seen) != len(keys) {
			c.Errorf("%d callbacks, want %d", len(seen), len(keys))
		}
	})
}

// Rule "look wherever a copy may be": a copy on a drained shard, against the rules, hears of its
// timer's end from nodes that a record or an ID leads to the shard.
func TestACopyOnADrainedShardHearsOfItsEnd(t *testing.T) {
	inCluster(t, 3, 2, func(c *cluster) {
		all, stay := []string{"s0", "s1", "s2"}, []string{"s0", "s1"}
		c.Lay(storetest.Layout{Shards: all, Active: stay, Others: [][]string{all}, Epoch: 2})
		pass(25 * time.Second)
		asked, probe := oneShot(10*time.Second), c.Open("probe")
		asked.ReplicationFactor = 1
		for i := range 40 {
			id := c.create(asked).ID
			id.Hint = ^timer.Hint(0)
			read, err := c.nodes[0].Lookup(c.Context(), id)
			if err != nil {
				c.Fatal(err)
			}
			probe.Tell(c.Context(), "s2", []store.Write{{
				Kind: store.WriteLive, Shard: "s2", Key: id.Key, State: read.Record.State, RF: 1, Rank: 1, Timer: &asked,
				DueIn: 10 * time.Second, Offset: time.Second,
			}})
			if _, err := c.nodes[i%2].Delete(c.Context(), id); err != nil {
				c.Error(err)
			}
		}
		if n := len(c.Copies("s2")); n != 40 {
			c.Errorf("%d copies on the drained shard, want 40 ends", n)
		}
		pass(3 * time.Minute)
		if seen := c.seen(); len(seen) > 0 {
			c.Errorf("%d callbacks of what was deleted", len(seen))
		}
		c.wantEmpty()
	})
}
