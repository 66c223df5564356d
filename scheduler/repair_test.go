package scheduler_test

import (
	"testing"
	"time"

	"chronos/scheduler"
	"chronos/scheduler/storetest"
)

// What the sweep mends after a shard has missed something.

// P9: a shard that has lost all is refilled before its timers are due.
func TestP9AWipedShardIsRefilled(t *testing.T) {
	inCluster(t, 3, 2, func(c *cluster) {
		var ids []scheduler.ID
		for i := range 90 {
			timer := oneShot(5 * time.Minute)
			timer.ReplicationFactor = 2 + i%2
			ids = append(ids, c.create(timer).ID)
		}
		for _, name := range c.Open("probe").Shards() {
			c.Wipe(name)
			pass(20 * time.Second)
			if wrong := c.inPlace(ids); len(wrong) > 0 {
				c.Fatalf("after %s was wiped, %d not in place: %s", name, len(wrong), wrong[0])
			}
		}
		pass(5 * time.Minute)
		for _, id := range ids {
			c.wantOnce(id.Key, 1, maxLate)
		}
		c.wantEmpty()
	})
}

// P9: what was made, replaced and deleted while a shard could not be reached, or
// refused all, is where it belongs within a minute of its return.
func TestP9AShardThatWasAwayIsBroughtUp(t *testing.T) {
	for name, link := range map[string]storetest.Link{"refuses": storetest.LinkCut, "is silent": storetest.LinkMute} {
		t.Run(name, func(t *testing.T) {
			inCluster(t, 3, 2, func(c *cluster) {
				var kept, replaced, deleted []scheduler.ID
				make3 := func() {
					for range 20 {
						kept, replaced, deleted = append(kept, c.create(oneShot(5*time.Minute)).ID), append(replaced, c.create(oneShot(time.Hour)).ID), append(deleted, c.create(oneShot(5*time.Minute)).ID)
					}
				}
				make3()
				c.connect("s1", link)
				pass(5 * time.Second)
				for i := range replaced {
					r, err := c.nodes[i%2].Replace(c.Context(), replaced[i], oneShot(5*time.Minute))
					if err != nil {
						c.Error(err)
					}
					replaced[i] = r.ID
					if _, err := c.nodes[i%2].Delete(c.Context(), deleted[i]); err != nil {
						c.Error(err)
					}
				}
				make3()
				c.connect("s1", storetest.LinkUp)
				pass(time.Minute)
				all := append(append([]scheduler.ID(nil), kept...), replaced...)
				if wrong := c.inPlace(all); len(wrong) > 0 {
					c.Errorf("%d not in place: %s", len(wrong), wrong[0])
				}
				pass(6 * time.Minute)
				for _, id := range all {
					if id.Key != "" && len(c.callbacks(id.Key)) > 1 {
						c.Errorf("%s was called back %d times", id, len(c.callbacks(id.Key)))
					}
				}
				for i := range 20 {
					c.wantOnce(kept[i].Key, 1, maxLate)
					c.wantOnce(replaced[i].Key, 1, maxLate)
					if n := len(c.callbacks(deleted[i].Key)); n > 0 {
						c.Errorf("%s was called back although it was deleted", deleted[i])
					}
				}
			})
		})
	}
}

// P7 and P9: a shard that has lost the last that it was told learns of what ended
// then, although the tombstones elsewhere don't name it.
func TestP9AShardThatLostItsLastSecondsLearnsOfEnds(t *testing.T) {
	inCluster(t, 3, 2, func(c *cluster) {
		var deleted, kept []scheduler.ID
		for range 60 {
			deleted, kept = append(deleted, c.create(oneShot(10*time.Minute)).ID), append(kept, c.create(oneShot(10*time.Minute)).ID)
		}
		back := c.Save("s1")
		for _, id := range deleted {
			if _, err := c.nodes[0].Delete(c.Context(), id); err != nil {
				c.Error(err)
			}
		}
		pass(time.Second)
		c.connect("s1", storetest.LinkCut)
		back()
		pass(4 * time.Minute) // tombstones live two
		c.connect("s1", storetest.LinkUp)
		pass(11 * time.Minute)
		for i := range deleted {
			if n := len(c.callbacks(deleted[i].Key)); n > 0 {
				c.Errorf("%s was called back although it was deleted", deleted[i])
			}
			c.wantOnce(kept[i].Key, 1, maxLate)
		}
		c.wantEmpty()
	})
}
