package scheduler_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"chronos/scheduler/settings"
	"chronos/scheduler/storetest"
	"chronos/scheduler/timer"
)

// Repairs of the sweep after a shard has missed something.

// Rule "sweep copies to their owners": a shard that has lost all data is refilled before the timers
// are due.
func TestAWipedShardIsRefilled(t *testing.T) {
	inCluster(t, 3, 2, func(c *cluster) {
		var ids []timer.ID
		for i := range 90 {
			asked := oneShot(5 * time.Minute)
			asked.ReplicationFactor = 2 + i%2
			ids = append(ids, c.create(asked).ID)
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

// Rule "sweep copies to their owners": a shard was unreachable, or refused all writes. Within a
// minute of its return the shard has every create, replace and delete that the shard missed.
func TestAShardThatReturnsIsBroughtUp(t *testing.T) {
	for name, link := range map[string]storetest.Link{"refuses": storetest.LinkCut, "is silent": storetest.LinkMute} {
		t.Run(name, func(t *testing.T) {
			inCluster(t, 3, 2, func(c *cluster) {
				var kept, replaced, deleted []timer.ID
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
				all := append(append([]timer.ID(nil), kept...), replaced...)
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

// Rule "sweep copies to their owners": a shard gets the writes that it missed even if at first no
// node could tell the shard of the missed writes.
func TestMissedWritesAreRemembered(t *testing.T) {
	inCluster(t, 3, 1, func(c *cluster) {
		pass(30 * time.Second) // nothing wants a sweep any more
		c.connect("s1", storetest.LinkCut)
		pass(2 * time.Second)
		var ids []timer.ID
		for range 40 {
			ids = append(ids, c.create(oneShot(10*time.Minute)).ID)
		}
		pass(2 * time.Second)
		refused := 0
		c.Inject(func(op, shard string) error {
			if op == "wantsweep" && shard == "s1" && refused < 3 {
				refused++
				return errors.New("not now")
			}
			return nil
		}, nil)
		c.connect("s1", storetest.LinkUp)
		pass(time.Minute)
		if refused != 3 {
			t.Errorf("it was told %d times in vain", refused)
		}
		if wrong := c.inPlace(ids); len(wrong) > 0 {
			c.Errorf("%d not in place: %s", len(wrong), wrong[0])
		}
	})
}

// Rule "sweep copies to their owners": while some shards are silent, the sweep still moves all
// timers without a copy on a silent shard.
func TestSilentShardsDelayOnlyTheirOwnTimers(t *testing.T) {
	inCluster(t, 6, 2, func(c *cluster) {
		shards := []string{"s0", "s1", "s2", "s3", "s4", "s5"}
		c.Lay(storetest.Layout{Shards: shards, Epoch: 2})
		pass(time.Minute) // the shards are swept
		var ids []timer.ID
		for range 200 {
			asked := oneShot(time.Hour)
			asked.ReplicationFactor = 2
			ids = append(ids, c.create(asked).ID)
		}
		mute := shards[1:4]
		for _, name := range mute {
			c.connect(name, storetest.LinkMute)
		}
		pass(5 * time.Second)
		c.Lay(storetest.Layout{Shards: shards, Active: shards[:5], Others: [][]string{shards}, Epoch: 3})
		pass(time.Minute)
		left, waiting := c.Copies("s5"), 0
		for _, id := range ids {
			silent := slices.ContainsFunc(c.homes(id.Key, 2), func(name string) bool { return slices.Contains(mute, name) })
			if _, there := left[id.Key]; there && !silent {
				c.Errorf("%s is still on s5, and has no home that is silent", id)
			} else if there {
				waiting++
			}
		}
		if waiting == 0 {
			c.Error("nothing waits for the silent shards")
		}
	})
}

// Rule "tombstones outlive what was missed": a shard that lost its last seconds learns which
// timers ended then, although the tombstones elsewhere don't name the shard.
func TestAShardThatLostItsLastSecondsLearnsOfEnds(t *testing.T) {
	inCluster(t, 3, 2, func(c *cluster) {
		var deleted, kept []timer.ID
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

// Rule "tombstones outlive what was missed": nobody waits any more for a shard that has been silent
// for too long. When the shard is back, the shard fires nothing until the sweep has passed. Then the
// shard keeps timers without another copy and timers that another owner has too, and is refilled.
func TestAShardThatWasGivenUpFiresNothingUntilSwept(t *testing.T) {
	inCluster(t, 3, 2, func(c *cluster) {
		limit := settings.Default("", nil).AwayLimit
		alone := oneShot(limit + 5*time.Minute)
		alone.ReplicationFactor = 1
		var kept, fired, deleted, single []timer.ID
		for range 40 {
			kept, fired = append(kept, c.create(oneShot(limit+10*time.Minute)).ID), append(fired, c.create(oneShot(2*time.Minute)).ID)
			deleted, single = append(deleted, c.create(oneShot(limit+10*time.Minute)).ID), append(single, c.create(alone).ID)
		}
		c.connect("s1", storetest.LinkMute)
		pass(time.Minute)
		for _, id := range deleted {
			if _, err := c.nodes[1].Delete(c.Context(), id); err != nil {
				c.Error(err)
			}
		}
		pass(limit - 2*time.Minute)
		if n := ends(c, "s0") + ends(c, "s2"); n == 0 {
			c.Error("no tombstone waits for the shard that is away")
		}
		pass(8 * time.Minute)
		if n := ends(c, "s0") + ends(c, "s2"); n > 0 {
			c.Errorf("%d tombstones still wait for the shard that is given up", n)
		}
		c.connect("s1", storetest.LinkUp)
		pass(time.Minute)
		if wrong := c.inPlace(append(kept, single...)); len(wrong) > 0 && c.Open("probe").Lost("s1") {
			c.Errorf("%d not in place: %s", len(wrong), wrong[0])
		}
		pass(15 * time.Minute)
		for i := range kept {
			c.wantOnce(kept[i].Key, 1, maxLate)
			if n := len(c.callbacks(deleted[i].Key)); n > 0 {
				c.Errorf("%s was called back although it was deleted", deleted[i])
			}
			if n := len(c.callbacks(fired[i].Key)); n != 1 {
				c.Errorf("%s was called back %d times", fired[i], n)
			}
			if n := len(c.callbacks(single[i].Key)); n != 1 {
				c.Errorf("%s, which has one copy, was called back %d times", single[i], n)
			}
		}
		c.wantEmpty()
	})
}

// A shard that was given up may come back with tombstones that no owner has any more. Only the
// sweep removes the tombstones; otherwise the shard never joins again.
func TestAGivenUpShardJoinsAgainThoughItHasTombstones(t *testing.T) {
	inCluster(t, 3, 2, func(c *cluster) {
		for range 40 {
			if _, err := c.nodes[1].Delete(c.Context(), c.create(oneShot(time.Hour)).ID); err != nil {
				c.Error(err)
			}
		}
		pass(time.Second)
		c.connect("s1", storetest.LinkMute)
		pass(settings.Default("", nil).AwayLimit + 5*time.Minute)
		probe := c.Open("probe")
		if n := ends(c, "s1"); n == 0 || !probe.Lost("s1") {
			c.Errorf("s1 has %d tombstones and is given up: %t", n, probe.Lost("s1"))
		}
		c.connect("s1", storetest.LinkUp)
		pass(5 * time.Minute)
		if n := ends(c, "s1"); n > 0 || probe.Lost("s1") {
			c.Errorf("s1 has %d tombstones and is given up: %t", n, probe.Lost("s1"))
		}
	})
}

// ends is how many tombstones a shard has.
func ends(c *cluster, name string) (n int) {
	for _, state := range c.Copies(name) {
		if state.Ended {
			n++
		}
	}
	return n
}

// Rule "sweep copies to their owners": a timer asked for more copies than the number of shards. The
// timer gets the missing copies when a shard joins.
func TestTimersGetMissingCopiesWhenAShardJoins(t *testing.T) {
	inCluster(t, 2, 2, func(c *cluster) {
		two, three := []string{"s0", "s1"}, []string{"s0", "s1", "s2"}
		var ids []timer.ID
		for range 30 {
			asked := oneShot(5 * time.Minute)
			asked.ReplicationFactor = 3
			r := c.create(asked)
			if r.Copies != 2 {
				c.Fatalf("%d copies on two shards", r.Copies)
			}
			ids = append(ids, r.ID)
		}
		c.Lay(storetest.Layout{Shards: three, Active: two, Others: [][]string{three}, Announced: true})
		pass(5 * time.Second)
		c.Lay(storetest.Layout{Shards: three, Others: [][]string{two}, Epoch: 2})
		pass(15 * time.Second)
		if wrong := c.inPlace(ids); len(wrong) > 0 {
			c.Errorf("%d not in place: %s", len(wrong), wrong[0])
		}
		c.Wipe("s0")
		c.Wipe("s1")
		pass(6 * time.Minute)
		for _, id := range ids {
			c.wantOnce(id.Key, 1, 4*time.Second+maxLate)
		}
	})
}

// The copies on a shard that was given up count for nothing until the shard is swept, though the
// shard answers again.
func TestAGivenUpShardIsNotListedNorCounted(t *testing.T) {
	inCluster(t, 3, 1, func(c *cluster) {
		asked := oneShot(time.Hour)
		asked.ReplicationFactor, asked.Tags = 1, []timer.Tag{{Type: "CALL", Count: 1}}
		for range 60 {
			c.create(asked)
		}
		shards := c.Open("probe").Shards()
		c.Lay(storetest.Layout{Shards: shards, Lost: map[string]int64{"s1": 1}})
		there := int64(len(c.Copies("s0")) + len(c.Copies("s2")))
		found, err := c.nodes[0].Statistics(c.Context())
		if err != nil || len(found.Incomplete) != 1 || found.Incomplete[0] != "s1" || found.Tags["CALL"] != there {
			c.Errorf("statistics %+v, %v; want %d, without s1", found, err, there)
		}
		if err := c.nodes[0].DropReferences(c.Context(), "s1", []string{"k"}); err == nil {
			c.Error("references were dropped on a shard that is given up")
		}
	})
}
