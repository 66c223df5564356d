package scheduler_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"chronos/scheduler/settings"
	"chronos/scheduler/store"
	"chronos/scheduler/storetest"
	"chronos/scheduler/timer"
	"chronos/scheduler/timing"
)

// receiver is the URI of oneShot and recurring.
const receiver = "http://receiver/"

// siteDelay is how late the copies of the second site in a timer's order come due.
func siteDelay(interval time.Duration) time.Duration {
	return store.SiteDelay(store.DefaultSkew().Of(interval, 2), 2)
}

// A write is in all sites when the answer comes, and the writer's site calls back.
func TestSitesShareTimers(t *testing.T) {
	inTwoSites(t, func(c *siteTest) {
		var all []timer.ID
		for _, site := range siteNames {
			for range 20 {
				r := create(c.T, c.node(site), oneShot(5*time.Second))
				if r.Sites != 2 || r.AllSites != 2 || r.InFlight || r.Copies != 4 {
					c.Errorf("create in %s: %+v, want four copies in two of two sites, and nothing in flight", site, r)
				}
				for _, at := range siteNames {
					if n := c.live(at, r.ID, r.Version); n != 2 {
						c.Errorf("%d copies in %s, want 2", n, at)
					}
				}
				all = append(all, r.ID)
			}
		}
		pass(10 * time.Second)
		c.wantCalls(all[:20], 1, "east", receiver, 0, maxLate)
		c.wantCalls(all[20:], 1, "west", receiver, 0, maxLate)
		c.wantNothingLeft()
	})
}

// Rule "in touch": a home that is in touch calls back though no other site can be asked.
func TestAHomeInTouchAsksNobody(t *testing.T) {
	inTwoSites(t, func(c *siteTest) {
		ids := c.create("east", 50, recurring(2*time.Second, 3))
		c.models["west"].Inject(func(op, _ string) error {
			if op == "read" || op == "ask" {
				return errors.New("not to be asked")
			}
			return nil
		}, nil)
		pass(8 * time.Second)
		c.wantCalls(ids, 3, "east", receiver, 0, maxLate)
		c.models["west"].Inject(nil, nil)
		c.wantNothingLeft()
	})
}

// Rule "outcomes go to the other sites": after each callback the copies of the other site wait for the next pop, without a
// comparison.
func TestOutcomesReachTheOtherSite(t *testing.T) {
	inTwoSites(t, func(c *siteTest) {
		ids := c.create("east", 50, recurring(2*time.Second, 3))
		pass(2*time.Second + 500*time.Millisecond)
		for _, id := range ids {
			for _, state := range c.copies("west", id.Key) {
				if state.Seq != 2 {
					c.Errorf("a copy in west is at pop %d, want 2", state.Seq)
				}
			}
		}
		pass(4 * time.Second)
		for _, id := range ids {
			for _, state := range c.copies("west", id.Key) {
				if !state.Ended {
					c.Error("a copy in west is live after the last pop")
				}
			}
		}
		c.wantCalls(ids, 3, "east", receiver, 0, maxLate)
		c.wantNothingLeft()
	})
}

// Rule "compare with the other sites": the next site calls back, later by its delay, once no node of the home works.
func TestTheNextSiteCallsForAHomeThatIsGone(t *testing.T) {
	for name, gone := range map[string]func(c *siteTest){
		"nodes": func(c *siteTest) { c.stop("east") },
		"site":  func(c *siteTest) { c.stop("east"); c.cut() },
	} {
		t.Run(name, func(t *testing.T) {
			inTwoSites(t, func(c *siteTest) {
				ids := c.create("east", 50, recurring(10*time.Second, 2))
				gone(c)
				pass(40 * time.Second)
				delay := siteDelay(10 * time.Second)
				c.wantCalls(ids, 2, "west", receiver, delay, delay+time.Second)
			})
		})
	}
}

// Rule "compare with the other sites": a copy waits for the home as long as a node of the home works.
func TestABusyHomeIsWaitedFor(t *testing.T) {
	inTwoSites(t, func(c *siteTest) {
		ids := c.create("east", 50, oneShot(10*time.Second))
		c.models["east"].Inject(func(op, _ string) error {
			if op == "claim" {
				return errors.New("busy")
			}
			return nil
		}, nil)
		pass(20 * time.Second)
		c.wantCalls(ids, 0, "", "", 0, 0)
		c.models["east"].Inject(nil, nil)
		pass(20 * time.Second)
		c.wantCalls(ids, 1, "east", receiver, 9*time.Second, 13*time.Second)
		c.wantNothingLeft()
	})
}

// Rule "mark before the answer": a write that another site has not confirmed is marked, and told once the site can be
// reached. Nothing is said to be in flight about a timer that is new.
func TestWritesOfACutAreTold(t *testing.T) {
	inTwoSites(t, func(c *siteTest) {
		known := create(c.T, c.node("east"), oneShot(time.Minute))
		heal := c.cut()
		pass(3 * time.Second)
		begun := time.Now()
		fresh := create(c.T, c.node("east"), oneShot(30*time.Second))
		if took := time.Since(begun); took > 0 {
			c.Errorf("create in a cut took %v, want no wait for a site that can't be reached", took)
		}
		if fresh.Sites != 1 || fresh.AllSites != 2 || fresh.InFlight {
			c.Errorf("create in a cut: %+v, want one of two sites, and nothing in flight", fresh)
		}
		replaced, err := c.node("east").Replace(c.Context(), known.ID, oneShot(30*time.Second))
		if err != nil || replaced.Sites != 1 || !replaced.InFlight {
			c.Errorf("replace in a cut: %+v, %v, want one site, and the version before in flight", replaced, err)
		}
		if !c.marked("east", "west") {
			c.Error("no mark was left")
		}
		heal()
		pass(4 * time.Second)
		for _, r := range []timer.Receipt{fresh, replaced} {
			if n := c.live("west", r.ID, r.Version); n != 2 {
				c.Errorf("%d copies of a write of the cut in west, want 2", n)
			}
		}
		if c.marked("east", "west") {
			c.Error("marks are left")
		}
		pass(30 * time.Second)
		c.wantCalls([]timer.ID{fresh.ID, known.ID}, 1, "east", receiver, 0, maxLate)
		c.wantNothingLeft()
	})
}

// Of a timer that both sites have changed in a cut, the later version counts in both sites after the cut.
func TestTheLaterWriteOfACutWins(t *testing.T) {
	for _, known := range []time.Duration{0, 3 * time.Second} { // since when the cut is known
		inTwoSites(t, func(c *siteTest) { c.writeInACut(known) })
	}
}

func (c *siteTest) writeInACut(known time.Duration) {
	ids, deleted := c.create("east", 30, oneShot(time.Minute)), c.create("east", 30, oneShot(30*time.Second))
	heal := c.cut()
	pass(known)
	for _, id := range ids {
		for _, w := range []struct{ site, uri string }{{"east", "http://earlier/"}, {"west", "http://later/"}} {
			if _, err := c.node(w.site).Replace(c.Context(), id, to(w.uri, 20*time.Second)); err != nil {
				c.Fatal(err)
			}
			pass(10 * time.Millisecond)
		}
	}
	for _, id := range deleted {
		if _, err := c.node("west").Delete(c.Context(), id); err != nil {
			c.Fatal(err)
		}
	}
	pass(5 * time.Second)
	heal()
	pass(30 * time.Second)
	c.wantCalls(ids, 1, "west", "http://later/", 0, maxLate)
	c.wantCalls(deleted, 0, "", "", 0, 0)
	c.wantNothingLeft()
}

// Rule "compare with the other sites": a home for which another site has marks finds the newer versions of that site
// right before its callbacks, many at once.
func TestAHomeThatIsMarkedAdopts(t *testing.T) {
	inTwoSites(t, func(c *siteTest) {
		ids := c.create("east", 100, oneShot(20*time.Second))
		pass(5 * time.Second)
		c.connect("west", "east", storetest.LinkCut) // east reaches west
		pass(3 * time.Second)
		for _, id := range ids {
			if _, err := c.node("west").Replace(c.Context(), id, to("http://later/", 20*time.Second)); err != nil {
				c.Fatal(err)
			}
		}
		pass(40 * time.Second)
		c.wantCalls(ids, 1, "west", "http://later/", 0, maxLate)
		if c.marked("west", "east") {
			c.Error("east has adopted all, and west still has marks")
		}
		c.connect("west", "east", storetest.LinkUp)
		c.wantNothingLeft()
	})
}

// Rule "compare with the other sites": copies whose home has called back and forgotten the timers are over. The questions of
// many copies take one call for each shard.
func TestCopiesThatTheHomeHasForgottenAreOver(t *testing.T) {
	inTwoSites(t, func(c *siteTest) {
		begun := time.Now()
		ids := c.create("east", 100, oneShot(10*time.Second))
		c.stop("west")
		for time.Since(begun) < 10*time.Second-200*time.Millisecond {
			pass(50 * time.Millisecond)
		}
		heal := c.cut() // east is in touch for a second yet, and leaves no marks
		pass(time.Minute)
		c.wantCalls(ids, 1, "east", receiver, 0, maxLate)
		for _, id := range ids {
			if n := len(c.copies("west", id.Key)); n != 2 {
				c.Fatalf("%d copies in west, want 2 that nobody has told", n)
			}
		}
		heal()
		var questions atomic.Int64
		count := func(ops ...string) storetest.Hook {
			return func(op, _ string) error {
				if slices.Contains(ops, op) {
					questions.Add(1)
				}
				return nil
			}
		}
		c.models["west"].Inject(count("marked"), nil)
		c.start("west")
		pass(20 * time.Second)
		c.wantCalls(ids, 1, "east", receiver, 0, maxLate)
		if n := questions.Load(); n == 0 || n > 50 {
			c.Errorf("%d questions about marks of 100 timers, want one for many timers", n)
		}
		c.wantNothingLeft()
	})
}

// A copy whose home has lost the timer is called back: the home does not count as told before the home is filled.
func TestACopyThatTheHomeHasLostIsCalled(t *testing.T) {
	inTwoSites(t, func(c *siteTest) {
		ids := c.create("east", 100, oneShot(3*time.Second))
		for _, shard := range c.shards("east") {
			c.models["east"].Wipe(shard)
		}
		pass(20 * time.Second)
		delay := siteDelay(3 * time.Second)
		c.wantCalls(ids, 1, "west", receiver, delay, delay+time.Second)
		c.wantNothingLeft()
	})
}

// Rule "an emptied site is filled before it answers".
func TestAnEmptiedSiteIsFilled(t *testing.T) {
	inTwoSites(t, func(c *siteTest) {
		ids, own := c.create("east", 300, oneShot(time.Minute)), c.create("west", 300, oneShot(5*time.Second))
		c.empty("west", 2)
		pass(2 * time.Second)
		if err := c.node("west").Ready(); !errors.Is(err, timer.ErrUnavailable) {
			c.Errorf("ready: %v, want that the site waits for its timers", err)
		}
		if _, err := c.node("west").Create(c.Context(), oneShot(time.Second)); !errors.Is(err, timer.ErrUnavailable) {
			c.Errorf("create: %v, want that the site waits for its timers", err)
		}
		pass(timing.FillDelay + 5*time.Second)
		if err := c.node("west").Ready(); err != nil {
			c.Error(err)
		}
		for _, id := range ids {
			if n := len(c.copies("west", id.Key)); n != 2 {
				c.Errorf("%d copies in west after the fill, want 2", n)
			}
		}
		c.wantCalls(own, 1, "", receiver, 2*time.Second, siteDelay(5*time.Second)+2*time.Second) // by east, or by west after the fill
		c.stop("east")
		c.cut()
		pass(time.Minute)
		delay := siteDelay(time.Minute)
		c.wantCalls(ids, 1, "west", receiver, delay, delay+time.Second)
	})
}

// Rule "an emptied site is filled before it answers": the nodes of a site share the fill, and each does what another leaves.
func TestNodesShareAFill(t *testing.T) {
	const timers, rate = 400, 40
	const (
		alone    = 2 * timers / rate * time.Second // a node tells of a timer for each copy in its site
		amid     = timing.FillDelay + 3*time.Second
		fewTicks = 5 * time.Second
	)
	for _, v := range []struct {
		name        string
		at          time.Duration // when the fill is disturbed, from the loss
		disturb     func(c *siteTest)
		least, most time.Duration // from the loss until all timers are there
	}{
		{"by two", amid, func(*siteTest) {}, timing.FillDelay + alone/2, timing.FillDelay + alone/2},
		{"the first is cut off before", 0, func(c *siteTest) { c.cutOff("east", 0, "west") }, timing.FillDelay + alone, 2*timing.FillDelay + alone},
		{"the second is cut off before", 0, func(c *siteTest) { c.cutOff("east", 1, "west") }, timing.FillDelay + alone, 2*timing.FillDelay + alone},
		{"the first is cut off", amid, func(c *siteTest) { c.cutOff("east", 0, "west") }, timing.FillDelay + alone/2, timing.FillDelay + alone},
		{"the second is cut off", amid, func(c *siteTest) { c.cutOff("east", 1, "west") }, timing.FillDelay + alone/2, timing.FillDelay + alone},
		{"a node ends", amid, func(c *siteTest) { c.nodes["east"][1].stop() }, timing.FillDelay + alone/2, timing.FillDelay + alone},
		{"a shard is emptied again", amid, func(c *siteTest) { c.empty("west", 1) }, timing.FillDelay + alone/2, timing.FillDelay + alone/2},         // west brings back what was there
		{"all is emptied again", amid, func(c *siteTest) { c.empty("west", 2) }, amid + timing.FillDelay + alone/2, amid + timing.FillDelay + alone}, // what is under way goes on first
	} {
		t.Run(v.name, func(t *testing.T) {
			inTwoSites(t, func(c *siteTest) {
				ids := c.create("east", timers, oneShot(time.Hour))
				c.empty("west", 2)
				lost := time.Now()
				pass(v.at)
				if held := c.held("west", ids); (held == 0) != (v.at == 0) || held == 2*timers {
					c.Fatalf("%d copies of %d timers are in west %v after the loss", held, timers, v.at)
				}
				v.disturb(c)
				for c.held("west", ids) < 2*timers || c.node("west").Ready() != nil {
					if pass(time.Second); time.Since(lost) > time.Minute {
						c.Fatalf("%d copies are in west after a minute, ready: %v", c.held("west", ids), c.node("west").Ready())
					}
				}
				if took := time.Since(lost); took < v.least-fewTicks || took > v.most+fewTicks {
					c.Errorf("the fill took %v, want %v to %v", took, v.least-fewTicks, v.most+fewTicks)
				}
				pass(timing.FillDelay + alone)
				for _, shard := range c.shards("west") {
					if from, err := c.models["west"].Open("probe").Filled(c.Context(), shard); err != nil || !slices.Contains(from, "east") {
						c.Errorf("%s was filled from %v, want east among them; %v", shard, from, err)
					}
				}
			}, func(config *settings.Config) { config.SweepRate = rate })
		})
	}
}

// Rule "an emptied site is filled before it answers": a site loses its data before the other site is filled again. What the
// fill has brought is kept.
func TestASiteThatIsEmptiedAmidAFill(t *testing.T) {
	inTwoSites(t, func(c *siteTest) {
		ids := c.create("east", 400, oneShot(2*time.Minute))
		c.empty("west", 2)
		pass(timing.FillDelay + 2*time.Second)
		var kept []timer.ID
		for _, id := range ids {
			if len(c.copies("west", id.Key)) > 0 {
				kept = append(kept, id)
			}
		}
		if len(kept) == 0 || len(kept) == len(ids) {
			c.Fatalf("west has %d of %d timers when east loses its data, want some", len(kept), len(ids))
		}
		c.empty("east", 2)
		pass(time.Minute)
		for _, site := range siteNames {
			if err := c.node(site).Ready(); err != nil {
				c.Errorf("%s: %v", site, err)
			}
			if held := c.held(site, kept); held != 2*len(kept) {
				c.Errorf("%s has %d copies of %d timers", site, held, len(kept))
			}
		}
		pass(time.Minute)
		c.wantCalls(kept, 1, "east", receiver, 0, 2*time.Second)
		c.wantNothingLeft()
	}, func(config *settings.Config) { config.SweepRate = 20 })
}

// Rule "an emptied site is filled before it answers": a site is not empty because its only shard that answers is.
func TestASilentShardMayHaveTimers(t *testing.T) {
	inTwoSites(t, func(c *siteTest) {
		ids := c.create("east", 50, oneShot(time.Hour))
		silent := c.shards("west")[1]
		link := func(l storetest.Link) {
			for i := range siteNodes {
				c.models["west"].Connect(fmt.Sprintf("east-%d", i), silent, l)
			}
		}
		link(storetest.LinkCut)
		c.empty("west", 1)
		c.empty("east", 2)
		pass(timing.FillDelay / 2)
		if err := c.node("east").Ready(); !errors.Is(err, timer.ErrUnavailable) {
			c.Errorf("ready: %v, want that east waits for its timers", err)
		}
		link(storetest.LinkUp)
		pass(time.Minute)
		if held := c.held("east", ids); held != 2*len(ids) || c.node("east").Ready() != nil {
			c.Errorf("east has %d copies of %d timers, ready: %v", held, len(ids), c.node("east").Ready())
		}
	})
}

// Rule "an emptied site is filled before it answers": the only copies of timers in a site move to a new shard meanwhile.
func TestAFillMissesNoCopyThatMoves(t *testing.T) {
	two, three := []string{"east-a", "east-b"}, []string{"east-a", "east-b", "east-c"}
	for _, later := range []time.Duration{0, 4 * time.Second, 8 * time.Second, 12 * time.Second} {
		inTwoSites(t, func(c *siteTest) {
			asked := oneShot(time.Hour)
			asked.ReplicationFactor = 1
			ids := c.create("east", 800, asked)
			c.models["east"].Inject(func(op, shard string) error {
				if op == "scan" && shard != three[2] {
					time.Sleep(timing.CopyPatience / 2) // the scan of the new shard, which is still empty, is over sooner
				}
				return nil
			}, nil)
			c.empty("west", 2)
			pass(later)
			c.models["east"].Lay(storetest.Layout{Shards: three, Active: two, Others: [][]string{three}, Announced: true})
			pass(4 * time.Second)
			c.models["east"].Lay(storetest.Layout{Shards: three, Others: [][]string{two}, Epoch: 2})
			pass(2 * time.Minute)
			if err := c.node("west").Ready(); err != nil {
				c.Error(err)
			}
			if n := len(c.models["east"].Copies("east-c")); n < len(ids)/5 {
				c.Errorf("%d copies of %d have moved to the new shard, want about a third", n, len(ids))
			}
			if held := c.held("west", ids); held != len(ids) {
				c.Errorf("%v after the loss a shard is added: west has %d copies of %d timers", later, held, len(ids))
			}
		}, func(config *settings.Config) { config.SweepRate = 30 })
	}
}

// Rule "an emptied site is filled before it answers": a fill that a cut disturbs begins again.
func TestACutAmidTheFillLosesNothing(t *testing.T) {
	for _, lasts := range []time.Duration{500 * time.Millisecond, 5 * time.Second} {
		inTwoSites(t, func(c *siteTest) { c.cutAmidTheFill(lasts) }, func(config *settings.Config) { config.SweepRate = 100 })
	}
}

func (c *siteTest) cutAmidTheFill(lasts time.Duration) {
	ids := c.create("east", 1000, oneShot(time.Hour))
	c.empty("west", 2)
	pass(timing.FillDelay + 3*time.Second)
	if held := c.held("west", ids); held == 0 || held == 2*len(ids) {
		c.Fatalf("%d copies of %d timers are in west when the sites are cut, want some", held, len(ids))
	}
	heal := c.cut()
	pass(lasts)
	if err := c.node("west").Ready(); !errors.Is(err, timer.ErrUnavailable) {
		c.Errorf("ready amid the fill: %v, want that the site waits for its timers", err)
	}
	heal()
	pass(time.Minute)
	if err := c.node("west").Ready(); err != nil {
		c.Error(err)
	}
	for _, id := range ids {
		if n := len(c.copies("west", id.Key)); n != 2 {
			c.Errorf("%d copies of %s in west after the fill, want 2", n, id)
		}
	}
}

// Rule "one site decides": a condition is about the newest version of the home. Without the home nobody decides.
func TestTheHomeDecidesConditions(t *testing.T) {
	inTwoSites(t, func(c *siteTest) {
		made := create(c.T, c.node("east"), oneShot(time.Minute))
		heal := c.cut()
		pass(3 * time.Second)
		if _, err := c.node("west").ReplaceIf(c.Context(), made.ID, oneShot(time.Minute), is(made.Version)); !errors.Is(err, timer.ErrUndecided) {
			c.Errorf("a condition away from the home, in a cut: %v, want it undecided", err)
		}
		for name, cond := range map[string]timer.Condition{"absent": absent, "exists": exists} {
			if _, err := c.node("west").ReplaceIf(c.Context(), timer.ID{Key: "unknown"}, oneShot(time.Minute), cond); !errors.Is(err, timer.ErrUndecided) {
				c.Errorf("a condition (%s) on what the other site may have, in a cut: %v, want it undecided", name, err)
			}
		}
		newer, err := c.node("east").ReplaceIf(c.Context(), made.ID, oneShot(time.Minute), is(made.Version))
		if err != nil {
			c.Fatal(err)
		}
		heal()
		pass(4 * time.Second)
		var unmet *timer.ConditionError
		if _, err := c.node("west").ReplaceIf(c.Context(), made.ID, oneShot(time.Minute), is(made.Version)); !errors.As(err, &unmet) || unmet.Present != newer.Version {
			c.Errorf("a condition of the version before: %v, want it not met by %v", err, newer.Version)
		}
		last, err := c.node("west").ReplaceIf(c.Context(), made.ID, oneShot(10*time.Second), is(newer.Version))
		if err != nil || last.Sites != 2 {
			c.Fatalf("a condition of the newest version: %+v, %v", last, err)
		}
		for _, site := range siteNames {
			if n := c.live(site, made.ID, last.Version); n != 2 {
				c.Errorf("%d copies of the last version in %s, want 2", n, site)
			}
		}
		pass(20 * time.Second)
		c.wantCalls([]timer.ID{made.ID}, 1, "east", receiver, 0, maxLate) // the home stays
		c.wantNothingLeft()
	})
}

// Rule "one site decides": of writes with one condition through nodes of both sites, one alone is carried out.
func TestOneOfSeveralConditionsIsMet(t *testing.T) {
	inTwoSites(t, func(c *siteTest) {
		for _, site := range siteNames { // the other site hears of a write long after the write
			c.models[site].Inject(func(op, _ string) error {
				if op == "tell" {
					time.Sleep(30 * time.Millisecond)
				}
				return nil
			}, nil)
		}
		type condition struct {
			id   timer.ID
			cond timer.Condition
		}
		made := create(c.T, c.node("east"), oneShot(time.Hour))
		all := map[string]condition{"replace": {made.ID, is(made.Version)}}
		for i := range 8 { // either site decides about some of them
			all[fmt.Sprintf("create %d", i)] = condition{timer.ID{Key: fmt.Sprintf("new-%d", i)}, absent}
		}
		for what, asks := range all {
			var done atomic.Int64
			var writes sync.WaitGroup
			for i := range 40 {
				n := c.nodes[siteNames[i%2]][i/2%siteNodes]
				writes.Go(func() {
					time.Sleep(time.Duration(i) * time.Millisecond)
					if _, err := n.ReplaceIf(c.Context(), asks.id, oneShot(time.Hour), asks.cond); err == nil {
						done.Add(1)
					}
				})
			}
			writes.Wait()
			if n := done.Load(); n != 1 {
				c.Errorf("%s: %d writes on the condition were carried out, want one", what, n)
			}
		}
	})
}

// Rule "one site decides": a home that has lost the timer, and was not filled yet, decides nothing.
func TestAHomeThatLostTheTimerDecidesNothing(t *testing.T) {
	inTwoSites(t, func(c *siteTest) {
		made := create(c.T, c.node("east"), oneShot(time.Minute))
		over := create(c.T, c.node("east"), oneShot(3*time.Second))
		for _, shard := range c.shards("east") {
			c.models["east"].Wipe(shard)
		}
		for range 40 { // until after the fill
			asks := map[string]error{}
			for _, site := range siteNames {
				_, asks[site+" replace"] = c.node(site).ReplaceIf(c.Context(), made.ID, oneShot(time.Second), is(made.Version+1))
				_, asks[site+" delete"] = c.node(site).DeleteIf(c.Context(), made.ID, is(made.Version+1))
				_, asks[site+" delay"] = c.node(site).Delay(c.Context(), made.ID, is(made.Version+1), time.Second)
				_, asks[site+" fire"] = c.node(site).Fire(c.Context(), made.ID, is(made.Version+1))
			}
			for what, err := range asks {
				unmet, refused := errors.AsType[*timer.ConditionError](err)
				if !errors.Is(err, timer.ErrUnavailable) && (!refused || unmet.Present != made.Version) {
					c.Errorf("%s of another version: %v, %+v; want it undecided, or refused as of version %v", what, err, unmet, made.Version)
				}
			}
			pass(500 * time.Millisecond)
		}
		if _, err := c.node("west").DeleteIf(c.Context(), over.ID, exists); err == nil || errors.Is(err, timer.ErrUndecided) {
			c.Errorf("a condition of a timer that is over: %v, want it unmet", err)
		}
		if _, err := c.node("west").DeleteIf(c.Context(), made.ID, is(made.Version)); err != nil {
			c.Errorf("a condition that is met, after the fill: %v", err)
		}
		c.wantNothingLeft()
	})
}

// A write with no patience waits for no other site, and is there a moment later.
func TestWritesWithoutPatience(t *testing.T) {
	inTwoSites(t, func(c *siteTest) {
		held := func(op, _ string) error {
			if op == "merge" {
				time.Sleep(80 * time.Millisecond)
			}
			return nil
		}
		c.models["west"].Inject(held, nil)
		begun := time.Now()
		r := create(c.T, c.node("east"), oneShot(10*time.Second))
		if took := time.Since(begun); took > 0 || r.Sites != 1 {
			c.Errorf("create took %v, and is in %d sites, want no wait and one site", took, r.Sites)
		}
		pass(100 * time.Millisecond)
		if n := c.live("west", r.ID, r.Version); n != 2 {
			c.Errorf("%d copies in west, want 2", n)
		}
		if c.marked("east", "west") {
			c.Error("a mark is left")
		}
		pass(10 * time.Second)
		c.wantCalls([]timer.ID{r.ID}, 1, "east", receiver, 0, maxLate)
		c.wantNothingLeft()
	}, func(config *settings.Config) { config.SitePatience = 0 })
}

// A read finds the newest version, also where the own site was not told of the version.
func TestAReadFindsTheNewestVersion(t *testing.T) {
	inTwoSites(t, func(c *siteTest) {
		known := create(c.T, c.node("east"), oneShot(time.Minute))
		c.connect("west", "east", storetest.LinkCut)
		pass(3 * time.Second)
		fresh := create(c.T, c.node("west"), oneShot(time.Minute))
		for id, want := range map[timer.ID]timer.Version{known.ID: known.Version, fresh.ID: fresh.Version} {
			if got, err := c.node("east").Lookup(c.Context(), id); err != nil || got.Record.State.Version != want {
				c.Errorf("read: version %v, %v, want %v", got.Record.State.Version, err, want)
			}
		}
		heal := c.cut()
		pass(3 * time.Second)
		if _, err := c.node("east").Lookup(c.Context(), timer.ID{Key: "unknown"}); !errors.Is(err, timer.ErrUnavailable) {
			c.Errorf("read of an unknown timer in a cut: %v, want that the other site can't be reached", err)
		}
		heal()
		pass(3 * time.Second)
		if _, err := c.node("east").Lookup(c.Context(), timer.ID{Key: "unknown"}); !errors.Is(err, timer.ErrNotFound) {
			c.Errorf("read of an unknown timer: %v", err)
		}
	})
}
