package scheduler_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"chronos/scheduler/storetest"
	"chronos/scheduler/timer"
)

// TestSeedRebalancing is the example of rebalancing in the introduction to Metaswitch's Chronos: a
// timer is on A, B and C; then D joins, and the client updates the timer with the old ID.
func TestSeedRebalancing(t *testing.T) {
	inCluster(t, 3, 1, func(c *cluster) {
		_, announced, after := layouts()
		var ids []timer.ID
		for range 40 {
			asked := oneShot(10 * time.Minute)
			asked.ReplicationFactor = 3
			ids = append(ids, c.create(asked).ID)
		}
		c.Lay(announced)
		pass(5 * time.Second)
		c.Lay(after)
		pass(time.Second) // the sweep has not begun
		moved := 0
		for _, old := range ids {
			if !slices.Contains(c.homes(old.Key, 3), "s3") {
				continue // the timer stays on A, B and C
			}
			moved++
			made := c.Copies(c.holders(old.Key)[0])[old.Key].Version
			second := oneShot(5 * time.Minute)
			second.ReplicationFactor = 3
			second.Callback.Opaque = "second"
			r, err := c.nodes[0].Replace(c.Context(), old, second)
			if err != nil || r.Copies != 3 || r.Unreached != 0 {
				c.Fatalf("updated with the old ID: %+v, %v", r, err)
			}
			if !r.ID.Hint.Has(c.Open("probe").HintOf("s3")) || r.ID.Hint == old.Hint {
				c.Errorf("the ID was %s, and is %s", old, r.ID)
			}
			for _, name := range c.holders(old.Key) {
				if c.Copies(name)[old.Key].Version == made {
					c.Errorf("%s has the version of before", name)
				}
			}
		}
		if moved == 0 {
			c.Fatal("no timer belongs on the new shard")
		}
		pass(20 * time.Second)
		if wrong := c.inPlace(ids); len(wrong) > 0 {
			c.Errorf("%d not in place: %s", len(wrong), wrong[0])
		}
		pass(10 * time.Minute)
		seconds := 0
		for _, id := range ids {
			c.wantOnce(id.Key, 1, maxLate)
			if seen := c.callbacks(id.Key); len(seen) == 1 && seen[0].Callback.Opaque == "second" {
				seconds++
			}
		}
		if seconds != moved {
			c.Errorf("%d callbacks of the second version, want %d", seconds, moved)
		}
	})
}

// topologies are six topologies, a step from one to the next: shards come and go in turn.
func topologies() (all [][]string) {
	now := []string{"s0", "s1", "s2"}
	all = append(all, now)
	for step := range 5 {
		if step%2 == 0 {
			now = append(slices.Clone(now), fmt.Sprintf("s%d", 3+step/2))
		} else {
			now = now[1:]
		}
		all = append(all, now)
	}
	return all
}

// aged is a timer with the client's ID from an earlier topology.
type aged struct {
	id      timer.ID
	made    int // topology
	deleted bool
}

// PUT and DELETE with an ID that is one, two and five topologies old, and with the bare key,
// before, during and after every sweep, reach all copies.
func TestOldIDs(t *testing.T) {
	inCluster(t, 3, 2, func(c *cluster) {
		all := topologies()
		known := slices.Clone(all[0])
		waiting := map[int][]aged{} // by the topology at creation
		var touched []aged
		for step, active := range all {
			if step > 0 {
				for _, name := range active {
					if !slices.Contains(known, name) {
						known = append(known, name)
					}
				}
				before := all[step-1]
				c.Lay(storetest.Layout{Shards: known, Active: before, Others: [][]string{active}, Epoch: int64(step), Announced: true})
				pass(2 * time.Second)
				c.Lay(storetest.Layout{Shards: known, Active: active, Others: [][]string{before}, Epoch: int64(step) + 1})
				for second := range 16 { // the sweep begins after six seconds
					for _, age := range []int{1, 2, 5} {
						from := waiting[step-age]
						for range min(6, len(from)) {
							touched = append(touched, c.touch(from[0], second))
							from = from[1:]
						}
						waiting[step-age] = from
					}
					pass(time.Second)
				}
			}
			for i := range 2 * 6 * 16 * 3 {
				asked := oneShot(5 * time.Minute)
				asked.ReplicationFactor = 1 + i%3
				made := aged{id: c.create(asked).ID, made: step, deleted: i%2 == 0}
				if i%4 < 2 {
					made.id = timer.ID{Key: made.id.Key}
				}
				waiting[step] = append(waiting[step], made)
			}
		}
		ages := map[int]int{}
		pass(7 * time.Minute)
		for _, a := range touched {
			ages[a.made]++
			seen := c.callbacks(a.id.Key)
			switch {
			case a.deleted && len(seen) > 0:
				c.Errorf("%s of topology %d was called back although it was deleted", a.id, a.made)
			case !a.deleted && (len(seen) != 1 || seen[0].Callback.Opaque != "second"):
				c.Errorf("%s of topology %d was updated, and called back %d times: %+v", a.id, a.made, len(seen), seen)
			}
		}
		if len(touched) < 900 || ages[0] < 200 {
			c.Errorf("touched %d, by topology %v", len(touched), ages)
		}
		c.wantEmpty()
	})
}

// touch deletes or updates a timer by the client's ID.
func (c *cluster) touch(a aged, node int) aged {
	n := c.nodes[node%2]
	if a.deleted {
		if d, err := n.Delete(c.Context(), a.id); err != nil || d.Unreached != 0 {
			c.Errorf("delete %s of topology %d: %+v, %v", a.id, a.made, d, err)
		}
		return a
	}
	second := oneShot(3 * time.Minute)
	second.Callback.Opaque, second.ReplicationFactor = "second", 0 // the timer's own factor
	if r, err := n.Replace(c.Context(), a.id, second); err != nil || r.Unreached != 0 {
		c.Errorf("replace %s of topology %d: %+v, %v", a.id, a.made, r, err)
	}
	return a
}
