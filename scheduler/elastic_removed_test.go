package scheduler_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"chronos/scheduler/dispatch"
	"chronos/scheduler/resync"
	"chronos/scheduler/settings"
	"chronos/scheduler/store"
	"chronos/scheduler/storetest"
	"chronos/scheduler/timer"
)

// The removal of a shard does not hold up work that was begun before.

var errHeld = errors.New("the connection was closed")

// withoutS2 is the layout after the removal of s2, while former places of timers still count.
func withoutS2() storetest.Layout {
	return storetest.Layout{Shards: []string{"s0", "s1"}, Others: [][]string{{"s0", "s1"}}, Epoch: 3}
}

// afterDraining runs a test on a cluster whose s2 takes no timers any more and is empty. Copies may
// still be on s2, as far as nodes know: the sweep of the other shards has not ended.
func afterDraining(t *testing.T, test func(c *cluster), tune ...func(*settings.Config)) {
	t.Helper()
	inCluster(t, 3, 1, func(c *cluster) {
		shards := []string{"s0", "s1", "s2"}
		c.Lay(storetest.Layout{Shards: shards, Epoch: 2})
		pass(time.Minute) // s2 is swept
		c.hold("", 0)
		c.Lay(storetest.Layout{Shards: shards, Active: []string{"s0", "s1"}, Others: [][]string{shards}, Epoch: 3})
		pass(30 * time.Second)
		if n := len(c.Copies("s2")); n > 0 {
			c.Fatalf("s2 has %d copies", n)
		}
		test(c)
	}, tune...)
}

// hold has one kind of calls to s2 wait and then fail, like calls under way when the shard is
// removed. Meanwhile the sweep of the other shards doesn't end.
func (c *cluster) hold(held string, wait time.Duration) {
	c.Inject(func(op, shard string) error {
		switch {
		case op == "scan" && shard != "s2":
			return errors.New("the sweep isn't there yet")
		case op == held && shard == "s2":
			<-time.After(wait)
			return errHeld
		}
		return nil
	}, nil)
}

// wantNoEnds checks that no tombstone waits for a removed shard.
func (c *cluster) wantNoEnds() {
	c.Helper()
	if n := ends(c, "s0") + ends(c, "s1"); n > 0 {
		c.Errorf("%d tombstones are left", n)
	}
}

// Rule "compare before firing": when a shard is removed, no timer in hand is late: nobody waits for
// the removed shard, and no outcome is kept for the shard.
func TestARemovedShardIsNotWaitedFor(t *testing.T) {
	for name, back := range map[string]bool{"it is gone": false, "one of its name comes": true} {
		t.Run(name, func(t *testing.T) {
			afterDraining(t, func(c *cluster) {
				var ids []timer.ID
				for range 200 {
					ids = append(ids, c.create(oneShot(5*time.Second)).ID)
					pass(10 * time.Millisecond)
				}
				pass(4*time.Second + 5*time.Millisecond)
				c.Lay(withoutS2())
				if back {
					pass(200 * time.Millisecond)
					c.Lay(storetest.Layout{Shards: []string{"s0", "s1", "s2"}, Others: [][]string{{"s0", "s1"}}, Epoch: 4})
				}
				pass(1500 * time.Millisecond)
				for _, id := range ids {
					c.wantOnce(id.Key, 1, maxLate)
				}
				if !back {
					c.wantNoEnds()
				}
				c.wantEmpty()
			})
		})
	}
}

// Rule "tell every copy the outcome": a shard is removed while it is being told an outcome:
// nothing is kept for the shard to hear.
func TestARemovedShardIsToldNoOutcome(t *testing.T) {
	for name, held := range map[string]bool{"told then": true, "told later": false} {
		t.Run(name, func(t *testing.T) {
			afterDraining(t, func(c *cluster) {
				c.respond = func(attempt) (time.Duration, dispatch.Delivered) {
					return time.Second, dispatch.Delivered{Verdict: dispatch.VerdictDelivered}
				}
				for range 20 {
					c.create(oneShot(5 * time.Second))
				}
				removed := 5500 * time.Millisecond // the callbacks are under way
				if held {
					c.hold("tell", 200*time.Millisecond)
					removed += 600 * time.Millisecond
				}
				pass(removed)
				c.Lay(withoutS2())
				pass(time.Second)
				if n := len(c.seen()); n != 20 {
					c.Errorf("%d callbacks, want 20", n)
				}
				c.wantNoEnds()
			})
		})
	}
}

// Rule "tombstones outlive what was missed": a tombstone no longer names a shard that was removed.
func TestATombstoneForgetsARemovedShard(t *testing.T) {
	afterDraining(t, func(c *cluster) {
		var ids []timer.ID
		for len(ids) < 10 {
			if id := c.create(oneShot(time.Hour)).ID; c.maybeOnS2(id.Key) {
				ids = append(ids, id)
			}
		}
		c.hold("merge", 50*time.Millisecond)
		for _, id := range ids {
			if r, err := c.nodes[0].Delete(c.Context(), id); err != nil || r.Unreached != 1 {
				c.Errorf("deleted: %+v, %v; want one unreached", r, err)
			}
		}
		c.hold("tell", time.Second)
		pass(10500 * time.Millisecond) // s2 is being told
		c.Lay(withoutS2())
		pass(1500 * time.Millisecond)
		c.wantNoEnds()
	})
}

// Rule "what an answer may say": a shard that is removed during a request doesn't count as
// unreached: the shard had no copy.
func TestARemovedShardDoesNotCountAsUnreached(t *testing.T) {
	for name, request := range map[string]func(c *cluster, id timer.ID) (timer.Receipt, error){
		"delete": func(c *cluster, id timer.ID) (timer.Receipt, error) {
			return c.nodes[0].Delete(c.Context(), id)
		},
		"replace": func(c *cluster, id timer.ID) (timer.Receipt, error) {
			return c.nodes[0].Replace(c.Context(), id, oneShot(time.Hour))
		},
	} {
		t.Run(name, func(t *testing.T) {
			afterDraining(t, func(c *cluster) {
				id := c.create(oneShot(time.Hour)).ID
				for !c.maybeOnS2(id.Key) {
					id = c.create(oneShot(time.Hour)).ID
				}
				c.hold("merge", 100*time.Millisecond)
				c.removeMeanwhile(func() {
					if r, err := request(c, id); err != nil || r.Unreached != 0 || r.InFlight {
						c.Errorf("answered %+v, %v; want all told", r, err)
					}
				})
				for _, shard := range []string{"s0", "s1"} {
					read := c.Open("probe").Read(c.Context(), []store.Spot{{Shard: shard, Key: id.Key}})[0]
					if len(read.Record.Away) > 0 {
						c.Errorf("%s keeps for later: %+v", shard, read.Record.Away)
					}
				}
			})
		})
	}
}

// maybeOnS2 reports whether a copy of a timer may be on s2, as far as the nodes know.
func (c *cluster) maybeOnS2(key string) bool {
	return slices.ContainsFunc(c.Open("probe").Others(key, 2), func(o store.Other) bool { return o.Shard == "s2" })
}

// removeMeanwhile removes s2 during a call.
func (c *cluster) removeMeanwhile(do func()) {
	done := make(chan struct{})
	go func() { defer close(done); do() }()
	pass(50 * time.Millisecond)
	c.Lay(withoutS2())
	<-done
}

// A reader who looks for timers while a shard is removed gets the right answer.
func TestReadsOutliveARemovedShard(t *testing.T) {
	afterDraining(t, func(c *cluster) {
		key := "none"
		for !c.maybeOnS2(key) {
			key += "!"
		}
		c.hold("read", 100*time.Millisecond)
		c.removeMeanwhile(func() {
			if _, err := c.nodes[0].Lookup(c.Context(), timer.ID{Key: key, RF: 2}); !errors.Is(err, timer.ErrNotFound) {
				c.Errorf("looked up: %v, want %v", err, timer.ErrNotFound)
			}
		})
	})
	afterDraining(t, func(c *cluster) {
		c.create(oneShot(time.Hour))
		c.hold("list", 100*time.Millisecond)
		c.removeMeanwhile(func() {
			view := c.Open(nodeName(0)).View()
			page, err := c.nodes[0].Resync(c.Context(), resync.Query{Shard: "s0", View: view, Limit: 10, Bytes: 1 << 20})
			var changed *resync.ViewError
			if !errors.As(err, &changed) && (err != nil || page.Unreached != 0 || len(page.Timers) != 1) {
				c.Errorf("listed %d timers, %d shards unreached, %v", len(page.Timers), page.Unreached, err)
			}
		})
	})
}

// A removed shard has no gauges. A new shard with the same name has its own gauges.
func TestRemovedShardHasNoGauges(t *testing.T) {
	all := []string{"chronos_dead_letters", "chronos_oldest_due_seconds", "chronos_pending", "chronos_shard_up", "chronos_sweep_partitions_left", "chronos_tombstones"}
	registry := prometheus.NewRegistry()
	afterDraining(t, func(c *cluster) {
		expect := func(when string, want []string) {
			c.Helper()
			if got := gaugesOf(c.T, registry, "s2"); !slices.Equal(got, want) {
				c.Errorf("gauges of s2 %s: %v, want %v", when, got, want)
			}
		}
		back := withoutS2()
		back.Shards, back.Epoch = []string{"s0", "s1", "s2"}, 4
		expect("before", all)
		c.Inject(func(op, shard string) error {
			if op == "claim" && shard == "s2" {
				<-time.After(300 * time.Millisecond) // one claim is answered after the removal
			}
			return nil
		}, nil)
		pass(time.Second)
		c.Lay(withoutS2())
		pass(2 * time.Second)
		expect("after its removal", nil)
		c.Lay(back)
		pass(2 * time.Second)
		expect("when it is back", all)
		c.connect("s2", storetest.LinkCut)
		pass(10 * time.Second)
		expect("when it is cut off", []string{"chronos_shard_up", "chronos_sweep_partitions_left"})
		c.Lay(withoutS2())
		pass(2 * time.Second)
		expect("when it was removed by force", nil)
		c.connect("s2", storetest.LinkUp)
		c.Lay(back)
		pass(2 * time.Second)
		c.hold("beat", 700*time.Millisecond) // the work on s2 ends when s2 is back
		pass(1100 * time.Millisecond)
		c.Lay(withoutS2())
		pass(100 * time.Millisecond)
		c.hold("", 0)
		c.Lay(back)
		pass(2 * time.Second)
		expect("when it came back at once", all)
	}, func(config *settings.Config) { config.Registerer = registry })
}

// gaugesOf are the names of the gauges about a shard.
func gaugesOf(t *testing.T, registry *prometheus.Registry, shard string) (names []string) {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				if metric.GetGauge() != nil && label.GetName() == "shard" && label.GetValue() == shard {
					names = append(names, family.GetName())
				}
			}
		}
	}
	return names
}
