package scheduler_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"chronos/scheduler/store"
	"chronos/scheduler/storetest"
	"chronos/scheduler/timer"
)

// Shards that come and go.

// layouts are a layout of three shards, a layout with a fourth shard announced, and a layout with
// the fourth shard.
func layouts() (before, announced, after storetest.Layout) {
	three, four := []string{"s0", "s1", "s2"}, []string{"s0", "s1", "s2", "s3"}
	return storetest.Layout{Shards: three},
		storetest.Layout{Shards: four, Active: three, Others: [][]string{four}, Announced: true},
		storetest.Layout{Shards: four, Others: [][]string{three}, Epoch: 2}
}

// A shard that comes takes timers, and the timers are called back. A shard that goes is left alone.
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

// While a shard comes, every operation reaches all copies of the timer, whether the node already
// knows of the shard or not. The timer is called back once.
func TestOperationsWhileAShardComes(t *testing.T) {
	for name, rf := range map[string]int{"one copy": 1, "two copies": 2} {
		t.Run(name, func(t *testing.T) {
			inCluster(t, 3, 2, func(c *cluster) {
				before, announced, after := layouts()
				stages := [][2]storetest.Layout{{before, before}, {before, announced}, {announced, announced}, {announced, after}, {after, after}}
				asked := oneShot(time.Minute)
				asked.ReplicationFactor = rf
				second := asked
				second.Callback.Opaque, second.Interval = "second", 40*time.Second
				var kept, replaced, deleted []timer.ID
				for i, made := range stages {
					c.lay(made)
					for k := range 12 {
						kept = append(kept, create(c.T, c.nodes[k%2], asked).ID)
						replaced = append(replaced, create(c.T, c.nodes[k%2], asked).ID)
						deleted = append(deleted, create(c.T, c.nodes[k%2], asked).ID)
					}
					for k := range 12 {
						if k == 6 { // nodes are at most one stage apart
							c.lay(stages[min(i+1, len(stages)-1)])
						}
						n := c.nodes[(k+1)%2]
						from := len(kept) - 12 + k
						if k%3 == 0 { // by the bare key
							replaced[from], deleted[from] = timer.ID{Key: replaced[from].Key}, timer.ID{Key: deleted[from].Key}
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
					// a copy that one node counts as no owner's is looked at half a skew later
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

// lay gives the two nodes their layouts.
func (c *cluster) lay(known [2]storetest.Layout) {
	c.Lay(known[0], nodeName(0), "probe")
	c.Lay(known[1], nodeName(1))
	pass(time.Second)
}

// inPlace reports copies that are not where they belong.
func (c *cluster) inPlace(ids []timer.ID) (wrong []string) {
	probe := c.Open("probe")
	for _, id := range ids {
		ranked := probe.Rank(id.Key)
		homes := ranked[:min(id.RF, len(ranked))]
		for _, name := range probe.Shards() {
			read := probe.Read(c.Context(), []store.Spot{{Shard: name, Key: id.Key}})[0]
			rank, there := slices.Index(homes, name), read.Record.State.Version != 0
			switch {
			case there != (rank >= 0):
				wrong = append(wrong, fmt.Sprintf("%s on %s: %t", id, name, there))
			case there && (read.Record.Rank != rank || read.Look.Sub(read.Due) != time.Duration(rank)*2*time.Second):
				wrong = append(wrong, fmt.Sprintf("%s on %s: rank %d, looked at %v after the pop; want rank %d", id, name, read.Record.Rank, read.Look.Sub(read.Due), rank))
			}
		}
	}
	return wrong
}

// Rule "sweep copies to their owners": the sweep brings all copies to their owners when a shard
// joins, and when a shard leaves. Then the former owners are forgotten.
func TestTheSweepBringsCopiesToTheirOwners(t *testing.T) {
	three, four := []string{"s0", "s1", "s2"}, []string{"s0", "s1", "s2", "s3"}
	less := []string{"s1", "s2", "s3"}
	inCluster(t, 3, 2, func(c *cluster) {
		var ids []timer.ID
		for i := range 120 {
			asked := oneShot(10 * time.Minute)
			asked.ReplicationFactor = 1 + i%3
			ids = append(ids, c.create(asked).ID)
		}
		for _, l := range []storetest.Layout{
			{Shards: four, Others: [][]string{three}, Epoch: 2},
			{Shards: four, Active: less, Others: [][]string{four}, Epoch: 3},
			{Shards: four, Active: less, Others: [][]string{{"s3", "s1"}, three}, Epoch: 4},
		} {
			c.Lay(l)
			pass(15 * time.Second)
			if wrong := c.inPlace(ids); len(wrong) > 0 {
				c.Fatalf("epoch %d: %d not in place: %s", l.Epoch, len(wrong), wrong[0])
			}
			if others := c.Open("probe").Others(ids[0].Key, 2); len(others) > 0 {
				c.Errorf("epoch %d: %v is still remembered", l.Epoch, others)
			}
		}
		if n := len(c.Copies("s0")); n != 0 {
			c.Errorf("the shard that is drained has %d copies", n)
		}
		pass(10 * time.Minute)
		for _, id := range ids {
			c.wantOnce(id.Key, 1, maxLate)
		}
		c.wantEmpty()
	})
}

// Rule "sweep copies to their owners": timers that are about to fire are left alone, and every
// client's request holds meanwhile.
func TestEverythingHoldsWhileTheSweepRuns(t *testing.T) {
	inCluster(t, 3, 2, func(c *cluster) {
		before, announced, after := layouts()
		back := storetest.Layout{Shards: after.Shards, Active: before.Shards, Others: [][]string{after.Shards}, Epoch: 3}
		var kept, replaced, deleted []timer.ID
		touched := map[int]bool{}
		layouts := map[int]storetest.Layout{5: announced, 12: after, 40: back}
		for second := range 60 {
			if l, is := layouts[second]; is {
				c.Lay(l)
			}
			n := c.nodes[second%2]
			for k := range 6 {
				asked := oneShot(time.Duration(1+3*k) * time.Second)
				if k == 5 {
					asked.Interval, asked.RepeatFor = 1500*time.Millisecond, 6*time.Second
				}
				asked.ReplicationFactor = 1 + k%3
				kept = append(kept, create(c.T, n, asked).ID)
				later := asked
				later.Interval, later.RepeatFor = 30*time.Second, 0
				replaced, deleted = append(replaced, create(c.T, n, later).ID), append(deleted, create(c.T, n, later).ID)
			}
			pass(time.Second)
			if at := len(replaced) - 6*8; at >= 0 { // a timer that is eight seconds old
				second := oneShot(5 * time.Second)
				second.Callback.Opaque = "second"
				second.ReplicationFactor = replaced[at].RF
				if _, err := n.Replace(c.Context(), replaced[at], second); err != nil {
					c.Error(err)
				}
				if _, err := n.Delete(c.Context(), deleted[at]); err != nil {
					c.Error(err)
				}
				touched[at] = true
			}
		}
		pass(3 * time.Minute)
		for i := range kept {
			pops := 1
			if i%6 == 5 {
				pops = 4
			}
			c.wantOnce(kept[i].Key, pops, 2*time.Second+maxLate)
			c.wantOnce(replaced[i].Key, 1, 2*time.Second+maxLate)
			seen, gone := c.callbacks(replaced[i].Key), c.callbacks(deleted[i].Key)
			if touched[i] && (len(gone) > 0 || len(seen) == 1 && seen[0].Callback.Opaque != "second") {
				c.Errorf("%d: after DELETE and PUT: %d callbacks, %+v", i, len(gone), seen)
			}
		}
		pass(3 * time.Minute)
		c.wantEmpty()
	})
}

// Rule "sweep copies to their owners": a timer whose interval is too short for the sweep moves
// with its outcomes.
func TestTimersWithShortIntervalsMoveWithTheirOutcomes(t *testing.T) {
	inCluster(t, 3, 2, func(c *cluster) {
		var ids []timer.ID
		for i := range 30 {
			asked := oneShot(time.Second)
			asked.RepeatFor, asked.ReplicationFactor = 60*time.Second, 1+i%3
			ids = append(ids, c.create(asked).ID)
		}
		_, announced, after := layouts()
		c.Lay(announced)
		pass(5 * time.Second)
		c.Lay(after)
		pass(15 * time.Second)
		probe := c.Open("probe")
		for _, id := range ids {
			homes := probe.Rank(id.Key)[:id.RF]
			for _, name := range c.holders(id.Key) {
				if !slices.Contains(homes, name) {
					c.Errorf("%s is on %s, and belongs on %v", id, name, homes)
				}
			}
		}
		if others := probe.Others(ids[0].Key, 2); len(others) > 0 {
			c.Errorf("%v is still remembered", others)
		}
		pass(time.Minute)
		for _, id := range ids {
			c.wantOnce(id.Key, 60, 2*time.Second+maxLate)
		}
		c.wantEmpty()
	})
}
