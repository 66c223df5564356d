package scheduler_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"chronos/scheduler/storetest"
	"chronos/scheduler/timer"
)

var absent, exists = timer.Condition{Absent: true}, timer.Condition{Exists: true}

// is is met by one version.
func is(v timer.Version) timer.Condition { return timer.Condition{OneOf: []timer.Version{v}} }

// unmet checks that a write was refused by its condition.
func (c *cluster) unmet(what string, err error, present timer.Version) {
	c.Helper()
	refused, ok := errors.AsType[*timer.ConditionError](err)
	if !ok || refused.Present != present {
		c.Errorf("%s: %+v, want a condition that is not met by version %v", what, err, present)
	}
}

// Rule "conditions": a write on a condition is carried out if the newest version meets the condition,
// through any node.
func TestConditions(t *testing.T) {
	inCluster(t, 3, 2, func(c *cluster) {
		ctx, a, b := c.Context(), c.nodes[0], c.nodes[1]
		id := timer.ID{Key: "k"}
		_, err := a.ReplaceIf(ctx, id, oneShot(time.Minute), exists)
		c.unmet("PUT of what is not there, if it exists", err, 0)
		_, err = b.DeleteIf(ctx, id, is(7))
		c.unmet("DELETE of what is not there", err, 0)
		first, err := b.ReplaceIf(ctx, id, oneShot(time.Minute), absent)
		if err != nil || first.Copies != 2 || first.InFlight || first.Version == 0 {
			c.Fatalf("PUT of what is not there: %+v, %v, want two copies", first, err)
		}
		_, err = a.ReplaceIf(ctx, id, oneShot(time.Second), absent)
		c.unmet("PUT of what is there, if it is absent", err, first.Version)
		if got, err := a.Lookup(ctx, id); err != nil || got.Record.State.Version != first.Version {
			c.Errorf("GET: %+v, %v, want version %v", got.Record.State, err, first.Version)
		}
		second, err := a.ReplaceIf(ctx, first.ID, oneShot(time.Minute), is(first.Version))
		if err != nil || second.Version <= first.Version {
			c.Fatalf("PUT of the version that is there, %v: %+v, %#v", first.Version, second, err)
		}
		_, err = b.ReplaceIf(ctx, id, oneShot(time.Second), is(first.Version))
		c.unmet("PUT of the version before", err, second.Version)
		_, err = b.DeleteIf(ctx, id, is(first.Version))
		c.unmet("DELETE of the version before", err, second.Version)
		either := timer.Condition{OneOf: []timer.Version{first.Version, second.Version}}
		if _, err = b.DeleteIf(ctx, id, either); err != nil {
			c.Errorf("DELETE of one of two versions: %v", err)
		}
		if _, err = b.DeleteIf(ctx, id, exists); err == nil {
			c.Error("DELETE of what was deleted, if it exists, was carried out")
		}
		pass(2 * time.Minute)
		if n := len(c.callbacks("k")); n > 0 {
			c.Errorf("%d callbacks of a timer that was deleted", n)
		}
		c.wantEmpty()
	})
}

// Of many writes on one condition at the same time, through two nodes, one is carried out, and the
// losers have written nothing.
func TestOfTwoConditionalWritesOneWins(t *testing.T) {
	for name, shards := range map[string]int{"one shard": 1, "three shards": 3} {
		t.Run(name, func(t *testing.T) {
			inCluster(t, shards, 2, func(c *cluster) {
				c.jitter(3 * time.Millisecond)
				version, cond := timer.Version(0), absent
				for round := range 30 {
					var mu sync.Mutex
					var wg sync.WaitGroup
					var won []timer.Receipt
					for i := range 6 {
						wg.Go(func() {
							r, err := c.nodes[i%2].ReplaceIf(c.Context(), timer.ID{Key: "k"}, oneShot(time.Hour+time.Duration(i)*time.Minute), cond)
							mu.Lock()
							defer mu.Unlock()
							if err == nil {
								won = append(won, r)
							} else if _, ok := errors.AsType[*timer.ConditionError](err); !ok {
								c.Errorf("round %d: %v", round, err)
							}
						})
					}
					wg.Wait()
					if len(won) != 1 || won[0].Version <= version {
						c.Fatalf("round %d: %d writes were carried out (%+v), want one", round, len(won), won)
					}
					version = won[0].Version
					cond = is(version)
					if got, err := c.nodes[round%2].Lookup(c.Context(), timer.ID{Key: "k"}); err != nil || got.Record.State.Version != version {
						c.Fatalf("round %d: GET %+v, %v, want version %v", round, got.Record.State, err, version)
					}
				}
			})
		})
	}
}

// The version of a write says whether the write had a condition.
func TestTheVersionTellsAWriteWithACondition(t *testing.T) {
	inCluster(t, 3, 2, func(c *cluster) {
		there := c.create(oneShot(time.Hour))
		for range 10 {
			plain, err := c.nodes[0].Replace(c.Context(), there.ID, oneShot(time.Hour))
			if err != nil || plain.Version.Conditional() {
				c.Fatalf("a write without a condition has version %v, %v", plain.Version, err)
			}
			asking, err := c.nodes[1].ReplaceIf(c.Context(), there.ID, oneShot(time.Hour), is(plain.Version))
			if err != nil || !asking.Version.Conditional() || asking.Version <= plain.Version {
				c.Fatalf("a write with a condition has version %v above %v, %v", asking.Version, plain.Version, err)
			}
		}
	})
}

// A write without a condition meets a write with a condition. If both are carried out, the write
// without a condition came second, since the condition holds only before.
func TestAConditionHoldsWhereAnotherWriteIsReplaced(t *testing.T) {
	inCluster(t, 3, 2, func(c *cluster) {
		c.jitter(3 * time.Millisecond)
		both := 0
		for round := range 100 {
			there := c.create(oneShot(time.Hour))
			var asking, plain timer.Receipt
			var unmet, err error
			var wg sync.WaitGroup
			wg.Go(func() {
				asking, unmet = c.nodes[round%2].ReplaceIf(c.Context(), there.ID, oneShot(2*time.Hour), is(there.Version))
			})
			wg.Go(func() {
				pass(rand.N(10 * time.Millisecond)) // a condition is judged first
				plain, err = c.nodes[1-round%2].Replace(c.Context(), there.ID, oneShot(3*time.Hour))
			})
			wg.Wait()
			if err != nil {
				c.Errorf("round %d: the write without a condition: %v", round, err)
			}
			if unmet != nil {
				continue
			}
			if both++; plain.Version < asking.Version {
				c.Errorf("round %d: both writes were carried out, and the write with the condition is the newer: %v, after %v", round, asking.Version, plain.Version)
			}
		}
		if both == 0 {
			c.Error("the write with a condition was never carried out")
		}
		c.Logf("both were carried out in %d rounds", both)
	})
}

// A write on a condition does nothing where an owner can't be asked, also an owner that is not the
// first, and while the topology changes.
func TestAConditionNeedsEveryOwner(t *testing.T) {
	inCluster(t, 3, 1, func(c *cluster) {
		first := c.create(oneShot(time.Hour))
		for _, silent := range c.homes(first.ID.Key, 2) {
			c.Connect(nodeName(0), silent, storetest.LinkCut)
			c.undecided(first.ID, first.Version)
			c.Connect(nodeName(0), silent, storetest.LinkUp)
			pass(30 * time.Second)
		}
		shards := []string{"s0", "s1", "s2"}
		c.Lay(storetest.Layout{Shards: shards, Others: [][]string{shards[:2]}, Epoch: 2})
		c.undecided(first.ID, first.Version)
		c.Lay(storetest.Layout{Shards: shards, Epoch: 3})
		pass(time.Minute)
		if r, err := c.nodes[0].ReplaceIf(c.Context(), first.ID, oneShot(time.Minute), is(first.Version)); err != nil || r.Version <= first.Version {
			c.Errorf("PUT once all owners answer: %+v, %v", r, err)
		}
	})
}

// undecided checks that a write on a condition is refused, and that nothing was done.
func (c *cluster) undecided(id timer.ID, version timer.Version) {
	c.Helper()
	ctx, cancel := context.WithTimeout(c.Context(), 900*time.Millisecond)
	defer cancel()
	if _, err := c.nodes[0].ReplaceIf(ctx, id, oneShot(time.Minute), is(version)); !errors.Is(err, timer.ErrUndecided) {
		c.Errorf("PUT: %v, want undecided", err)
	}
	if _, err := c.nodes[0].DeleteIf(ctx, id, is(version)); !errors.Is(err, timer.ErrUndecided) {
		c.Errorf("DELETE: %v, want undecided", err)
	}
	for _, name := range c.holders(id.Key) {
		if got := c.Copies(name)[id.Key]; got.Version != version {
			c.Errorf("%s has %+v, want version %v", name, got, version)
		}
	}
}

// A write on a condition whose first answers get lost is carried out once, and says so.
func TestAConditionalWriteWithoutAnAnswerIsSentAgain(t *testing.T) {
	inCluster(t, 2, 1, func(c *cluster) {
		first := c.create(oneShot(time.Hour))
		lost := 0
		c.Inject(nil, func(op, shard string) error {
			if op == "merge" && shard == c.homes(first.ID.Key, 1)[0] && lost < 2 {
				lost++
				return timer.ErrUnavailable
			}
			return nil
		})
		r, err := c.nodes[0].ReplaceIf(c.Context(), first.ID, oneShot(time.Minute), is(first.Version))
		if err != nil || lost != 2 || r.Copies != 2 {
			c.Errorf("PUT after %d lost answers: %+v, %v, want it carried out", lost, r, err)
		}
		c.Inject(nil, nil)
		pass(2 * time.Minute)
		c.wantOnce(first.ID.Key, 1, maxLate)
		c.wantEmpty()
	})
}
