package scheduler_test

import (
	"testing"
	"time"

	"chronos/scheduler"
	"chronos/scheduler/storetest"
)

// P8: nothing is written to a shard that takes no timers, once the sweep has been over it,
// though records and IDs say that a copy may be there: it could not be removed while
// timers end.
func TestP8ADrainedShardStaysEmpty(t *testing.T) {
	inCluster(t, 3, 2, func(c *cluster) {
		all, stay := []string{"s0", "s1", "s2"}, []string{"s0", "s1"}
		var pops, deleted []scheduler.ID
		for range 30 {
			timer := recurring(5*time.Second, 20)
			timer.ReplicationFactor = 2
			pops, deleted = append(pops, c.create(timer).ID), append(deleted, c.create(timer).ID)
		}
		c.Lay(storetest.Layout{Shards: all, Active: stay, Others: [][]string{all}, Epoch: 2})
		for i := range pops { // their records say from now on that s2 may have a copy
			for _, id := range []*scheduler.ID{&pops[i], &deleted[i]} {
				timer := recurring(3*time.Second, 12)
				timer.ReplicationFactor = 2
				if _, err := c.nodes[i%2].Replace(c.Context(), *id, timer); err != nil {
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
				id.Hint = ^scheduler.Hint(0)
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
