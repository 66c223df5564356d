package scheduler_test

import (
	"testing"
	"time"

	"chronos/scheduler"
	"chronos/scheduler/storetest"
)

// What is away, and what is about to be, while shards come and go.

// layouts are one of three shards, one with a fourth about to come, and one with
// it there.
func layouts() (before, announced, after storetest.Layout) {
	three, four := []string{"s0", "s1", "s2"}, []string{"s0", "s1", "s2", "s3"}
	return storetest.Layout{Shards: three},
		storetest.Layout{Shards: four, Active: three, Others: [][]string{four}},
		storetest.Layout{Shards: four, Others: [][]string{three}}
}

// A shard that comes takes timers, and they are called back; one that goes is
// left alone.
func TestShardsComeAndGo(t *testing.T) {
	inCluster(t, 3, 2, func(c *cluster) {
		before, announced, after := layouts()
		for _, l := range []storetest.Layout{announced, after} {
			c.Lay(l)
			pass(5 * time.Second)
		}
		var keys []string
		for range 40 {
			keys = append(keys, c.create(oneShot(10*time.Second)).ID.Key)
		}
		if n := len(c.Copies("s3")); n == 0 {
			c.Error("the fourth shard has no copy")
		}
		pass(20 * time.Second)
		for _, key := range keys {
			c.wantOnce(key, 1, maxLate)
		}
		c.Lay(before)
		pass(10 * time.Second)
		for range 40 {
			keys = append(keys, c.create(oneShot(10*time.Second)).ID.Key)
		}
		pass(20 * time.Second)
		for _, key := range keys {
			c.wantOnce(key, 1, maxLate)
		}
		if n := len(c.Copies("s3")); n != 0 {
			c.Errorf("the shard that is gone has %d copies", n)
		}
		c.wantEmpty()
	})
}

// Whatever is done to a timer while a shard comes, by nodes that know of it and by
// those that don't yet, is done to all of its copies, and it is called back once.
func TestOperationsWhileAShardComes(t *testing.T) {
	for name, rf := range map[string]int{"one copy": 1, "two copies": 2} {
		t.Run(name, func(t *testing.T) {
			inCluster(t, 3, 2, func(c *cluster) {
				before, announced, after := layouts()
				stages := [][2]storetest.Layout{{before, before}, {before, announced}, {announced, announced}, {announced, after}, {after, after}}
				timer := oneShot(time.Minute)
				timer.ReplicationFactor = rf
				second := timer
				second.Callback.Opaque, second.Interval = "second", 40*time.Second
				var kept, replaced, deleted []scheduler.ID
				for i, made := range stages {
					c.lay(made)
					for k := range 12 {
						kept = append(kept, create(c.T, c.nodes[k%2], timer).ID)
						replaced = append(replaced, create(c.T, c.nodes[k%2], timer).ID)
						deleted = append(deleted, create(c.T, c.nodes[k%2], timer).ID)
					}
					for k := range 12 {
						if k == 6 { // nodes are at most one stage apart
							c.lay(stages[min(i+1, len(stages)-1)])
						}
						n := c.nodes[(k+1)%2]
						from := len(kept) - 12 + k
						if k%3 == 0 { // by the bare key
							replaced[from], deleted[from] = scheduler.ID{Key: replaced[from].Key}, scheduler.ID{Key: deleted[from].Key}
						}
						if r, err := n.Replace(c.Context(), replaced[from], second); err != nil || r.Unreached != 0 {
							c.Errorf("stage %d: replaced: %+v, %v", i, r, err)
						}
						if _, err := n.Delete(c.Context(), deleted[from]); err != nil {
							c.Errorf("stage %d: deleted: %v", i, err)
						}
					}
				}
				pass(2 * time.Minute)
				for i := range kept {
					c.wantOnce(kept[i].Key, 1, maxLate)
					// A copy that one node takes for away is looked at half a skew later.
					c.wantOnce(replaced[i].Key, 1, time.Second+maxLate)
					if seen := c.callbacks(replaced[i].Key); len(seen) > 0 && seen[0].Callback.Opaque != "second" {
						c.Errorf("the earlier version of %s was called back", replaced[i].Key)
					}
					if seen := c.callbacks(deleted[i].Key); len(seen) > 0 {
						c.Errorf("%s was called back although it was deleted", deleted[i].Key)
					}
				}
				pass(4 * time.Minute)
				c.wantEmpty()
			})
		})
	}
}

// lay gives the two nodes what each knows.
func (c *cluster) lay(known [2]storetest.Layout) {
	c.Lay(known[0], nodeName(0), "probe")
	c.Lay(known[1], nodeName(1))
	pass(time.Second)
}
