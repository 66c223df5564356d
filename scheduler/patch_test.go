package scheduler_test

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"time"

	"chronos/scheduler/dispatch"
	"chronos/scheduler/storetest"
	"chronos/scheduler/timer"
)

const patchedURI = "http://receiver/patched"

// elsewhere has a timer call another URI.
func elsewhere(t *timer.Timer) (begins bool, err error) {
	t.Callback.URI = patchedURI
	return false, nil
}

// sooner has a timer begin anew.
func sooner(t *timer.Timer) (begins bool, err error) {
	t.Interval, t.RepeatFor = 7*time.Second, 0
	return true, nil
}

func (c *cluster) patch(node int, id timer.ID, change func(*timer.Timer) (bool, error)) timer.Receipt {
	c.Helper()
	r, err := c.nodes[node].Patch(c.Context(), id, timer.Condition{}, change)
	if err != nil {
		c.Fatalf("PATCH: %v", err)
	}
	return r
}

// wantCalled checks the URI of each callback of a timer, in order.
func (c *cluster) wantCalled(key string, uris ...string) {
	c.Helper()
	seen := c.callbacks(key)
	for i := range min(len(seen), len(uris)) {
		if seen[i].Callback.URI != uris[i] {
			c.Errorf("callback %d went to %s, want %s", i+1, seen[i].Callback.URI, uris[i])
		}
	}
}

// Rule "a patch is a revision": the timer goes on with its pops and its grid, and calls the new URI.
func TestAPatchKeepsTheGrid(t *testing.T) {
	inCluster(t, 3, 2, func(c *cluster) {
		made := c.create(recurring(10*time.Second, 4))
		pass(15 * time.Second)
		patched := c.patch(1, made.ID, elsewhere)
		if patched.Version <= made.Version || patched.Copies != 2 || patched.InFlight || !patched.Due.Equal(made.Due.Add(10*time.Second)) || patched.ID != made.ID {
			c.Errorf("PATCH answered %+v after %+v", patched, made)
		}
		got, err := c.nodes[0].Lookup(c.Context(), made.ID)
		if state := got.Record.State; err != nil || state.Version != made.Version || state.Rev != patched.Version || state.Seq != 2 || got.Record.Timer.Callback.URI != patchedURI {
			c.Errorf("GET: %+v, %v", got.Record, err)
		}
		pass(time.Minute)
		c.wantOnce(made.ID.Key, 4, maxLate)
		c.wantCalled(made.ID.Key, "http://receiver/", patchedURI, patchedURI, patchedURI)
		if first, last := c.callbacks(made.ID.Key)[0].Version, c.callbacks(made.ID.Key)[3].Version; first != last {
			c.Errorf("versions %v and %v, want one", first, last)
		}
		c.wantEmpty()
	})
}

// A PATCH with timing is a new start, as a PUT is.
func TestAPatchOfTheTimingBeginsAnew(t *testing.T) {
	inCluster(t, 3, 2, func(c *cluster) {
		made := c.create(recurring(10*time.Second, 4))
		pass(15 * time.Second)
		patched := c.patch(1, made.ID, sooner)
		pass(time.Minute)
		seen := c.callbacks(made.ID.Key)
		if len(seen) != 2 || seen[1].Seq != 1 || seen[1].Version != patched.Version || !seen[1].Due.Equal(patched.Due) {
			c.Errorf("callbacks %+v, want one of each version", seen)
		}
		c.wantEmpty()
	})
}

// The outcome of a callback under way counts: the pop is called once.
func TestAPatchDuringACallback(t *testing.T) {
	for name, asked := range map[string]timer.Timer{"one pop": oneShot(5 * time.Second), "three pops": recurring(5*time.Second, 3)} {
		t.Run(name, func(t *testing.T) {
			inCluster(t, 3, 2, func(c *cluster) {
				c.respond = func(attempt) (time.Duration, dispatch.Delivered) {
					return time.Second, dispatch.Delivered{Verdict: dispatch.VerdictDelivered}
				}
				made := c.create(asked)
				pass(5*time.Second + 500*time.Millisecond)
				if r := c.patch(0, made.ID, elsewhere); !r.InFlight {
					c.Errorf("PATCH during a callback: %+v, want in flight", r)
				}
				pass(30 * time.Second)
				c.wantOnce(made.ID.Key, asked.Pops(), maxLate)
				c.wantCalled(made.ID.Key, "http://receiver/", patchedURI, patchedURI)
				c.wantEmpty()
			})
		})
	}
}

// A retry goes by the PATCH that came after the attempt.
func TestARetryGoesToThePatchedPlace(t *testing.T) {
	inCluster(t, 3, 2, func(c *cluster) {
		c.respond = func(a attempt) (time.Duration, dispatch.Delivered) {
			if a.Callback.URI != patchedURI {
				return 0, dispatch.Delivered{Reason: "status 500"}
			}
			return 0, dispatch.Delivered{Verdict: dispatch.VerdictDelivered}
		}
		made := c.create(oneShot(5 * time.Second))
		for len(c.callbacks(made.ID.Key)) < 2 {
			pass(100 * time.Millisecond)
		}
		c.patch(1, made.ID, elsewhere)
		before := len(c.callbacks(made.ID.Key))
		pass(time.Minute)
		seen := c.callbacks(made.ID.Key)
		if len(seen) != before+1 || seen[before].Callback.URI != patchedURI || seen[before].Attempt != before+1 {
			c.Errorf("%d attempts before, then %+v; want one more, at the new place", before, seen)
		}
		c.wantEmpty()
	})
}

// PATCHes of one timer at the same time, through two nodes: each changes what it has read, and none is lost.
func TestNoPatchIsLost(t *testing.T) {
	for name, shards := range map[string]int{"one shard": 1, "three shards": 3} {
		t.Run(name, func(t *testing.T) {
			inCluster(t, shards, 2, func(c *cluster) {
				c.jitter(3 * time.Millisecond)
				first := oneShot(time.Hour)
				first.Callback.Opaque = "0"
				made := c.create(first)
				count := func(t *timer.Timer) (bool, error) {
					n, err := strconv.Atoi(t.Callback.Opaque)
					t.Callback.Opaque = strconv.Itoa(n + 1)
					return n%5 == 4, err // every fifth begins anew
				}
				var mu sync.Mutex
				done := 0
				for range 15 {
					var wg sync.WaitGroup
					for i := range 4 {
						wg.Go(func() {
							_, err := c.nodes[i%2].Patch(c.Context(), made.ID, timer.Condition{}, count)
							mu.Lock()
							defer mu.Unlock()
							if err == nil {
								done++
							} else if !errors.Is(err, timer.ErrUndecided) { // others came first each time
								c.Errorf("PATCH: %v", err)
							}
						})
					}
					wg.Wait()
				}
				got, err := c.nodes[0].Lookup(c.Context(), made.ID)
				if err != nil || got.Record.Timer.Callback.Opaque != strconv.Itoa(done) || done < 30 {
					c.Errorf("after %d PATCHes the count is %q, %v", done, got.Record.Timer.Callback.Opaque, err)
				}
			})
		})
	}
}

// A create that is repeated after a PATCH answers with the ETag that the timer has now.
func TestARepeatedCreateFindsThePatch(t *testing.T) {
	inCluster(t, 2, 1, func(c *cluster) {
		made, err := c.nodes[0].CreateOnce(c.Context(), "once", []byte("body"), oneShot(time.Hour))
		if err != nil {
			c.Fatal(err)
		}
		patched := c.patch(0, made.ID, elsewhere)
		again, err := c.nodes[0].CreateOnce(c.Context(), "once", []byte("body"), oneShot(time.Hour))
		if err != nil || !again.Replayed || again.Version != patched.Version {
			c.Errorf("the repeated create answered %+v, %v, want version %v", again, err, patched.Version)
		}
	})
}

// A PATCH meets conditions as a PUT does, and needs the timer.
func TestPatchConditions(t *testing.T) {
	inCluster(t, 3, 2, func(c *cluster) {
		ctx, a, b := c.Context(), c.nodes[0], c.nodes[1]
		if _, err := a.Patch(ctx, timer.ID{Key: "k"}, timer.Condition{}, elsewhere); !errors.Is(err, timer.ErrNotFound) {
			c.Errorf("PATCH of what is not there: %v", err)
		}
		_, err := a.Patch(ctx, timer.ID{Key: "k"}, exists, elsewhere)
		c.unmet("PATCH of what is not there, if it exists", err, 0)
		made := c.create(oneShot(time.Hour))
		first, err := a.Patch(ctx, made.ID, is(made.Version), elsewhere)
		if err != nil {
			c.Fatalf("PATCH of the version that is there: %v", err)
		}
		_, err = b.Patch(ctx, made.ID, is(made.Version), elsewhere)
		c.unmet("PATCH of the version before", err, first.Version)
		_, err = b.ReplaceIf(ctx, made.ID, oneShot(time.Minute), is(made.Version))
		c.unmet("PUT of the version before the PATCH", err, first.Version)
		_, err = b.DeleteIf(ctx, made.ID, is(made.Version))
		c.unmet("DELETE of the version before the PATCH", err, first.Version)
		refused := errors.New("refused")
		if _, err = a.Patch(ctx, made.ID, is(first.Version), func(*timer.Timer) (bool, error) { return false, refused }); !errors.Is(err, refused) {
			c.Errorf("PATCH that can't be applied: %v", err)
		}
		denied := func(t *timer.Timer) (bool, error) { t.Callback.URI = "http://denied/"; return false, nil }
		if _, err = a.Patch(ctx, made.ID, is(first.Version), denied); err == nil {
			c.Error("PATCH to a place that is denied was carried out")
		}
		if r, err := b.ReplaceIf(ctx, made.ID, oneShot(time.Minute), is(first.Version)); err != nil || r.Version <= first.Version {
			c.Errorf("PUT of what the PATCH has made: %+v, %v", r, err)
		}
		if _, err = a.Delete(ctx, made.ID); err != nil {
			c.Errorf("DELETE: %v", err)
		}
		if _, err := a.Patch(ctx, made.ID, timer.Condition{}, elsewhere); !errors.Is(err, timer.ErrNotFound) {
			c.Errorf("PATCH of what was deleted: %v", err)
		}
	})
}

// A PATCH does nothing where an owner can't be asked, has no copy or is only coming.
func TestAPatchNeedsEveryCopy(t *testing.T) {
	inCluster(t, 3, 1, func(c *cluster) {
		made := c.create(oneShot(time.Hour))
		undecided := func(when string) {
			c.Helper()
			ctx, cancel := context.WithTimeout(c.Context(), 900*time.Millisecond)
			defer cancel()
			if r, err := c.nodes[0].Patch(ctx, made.ID, timer.Condition{}, elsewhere); !errors.Is(err, timer.ErrUndecided) {
				c.Errorf("%s: PATCH %+v, %v, want undecided", when, r, err)
			}
			for _, name := range c.holders(made.ID.Key) {
				if state := c.Copies(name)[made.ID.Key]; state.Rev != 0 {
					c.Errorf("%s: %s has %+v", when, name, state)
				}
			}
		}
		for _, owner := range c.homes(made.ID.Key, 2) {
			c.connect(owner, storetest.LinkCut)
			undecided(owner + " is cut off")
			c.connect(owner, storetest.LinkUp)
			pass(30 * time.Second)
			c.Wipe(owner)
			undecided(owner + " is empty")
			pass(time.Minute)
		}
		shards := []string{"s0", "s1", "s2"}
		c.Lay(storetest.Layout{Shards: shards, Others: [][]string{shards[:2]}, Epoch: 2})
		undecided("the topology changes")
		c.Lay(storetest.Layout{Shards: shards, Epoch: 3})
		pass(time.Minute)
		if r := c.patch(0, made.ID, elsewhere); r.Copies != 2 {
			c.Errorf("PATCH once all owners answer: %+v", r)
		}
	})
}

// A PATCH whose first answers get lost is carried out once.
func TestAPatchWithoutAnAnswerIsSentAgain(t *testing.T) {
	inCluster(t, 2, 1, func(c *cluster) {
		made := c.create(recurring(10*time.Second, 2))
		lost, changes := 0, 0
		c.Inject(nil, func(op, shard string) error {
			if op == "merge" && shard == c.homes(made.ID.Key, 1)[0] && lost < 2 {
				lost++
				return timer.ErrUnavailable
			}
			return nil
		})
		r := c.patch(0, made.ID, func(t *timer.Timer) (bool, error) { changes++; return elsewhere(t) })
		if lost != 2 || changes != 1 || r.Copies != 2 {
			c.Errorf("PATCH after %d lost answers, %d times applied: %+v", lost, changes, r)
		}
		c.Inject(nil, nil)
		pass(time.Minute)
		c.wantOnce(made.ID.Key, 2, maxLate)
		c.wantCalled(made.ID.Key, patchedURI, patchedURI)
		c.wantEmpty()
	})
}

// An owner that a PATCH has missed is brought up: by a repair, or by the outcome of a pop that comes too soon for a
// repair. Until then the comparison keeps the copy from calling.
func TestAMissedPatchIsRepaired(t *testing.T) {
	for _, interval := range []time.Duration{2500 * time.Millisecond, 3 * time.Second, 30 * time.Second} {
		t.Run(interval.String(), func(t *testing.T) {
			inCluster(t, 2, 1, func(c *cluster) {
				made := c.create(recurring(interval, 6))
				homes, merges := c.homes(made.ID.Key, 2), 0
				c.Inject(func(op, shard string) error {
					if op == "merge" && shard == homes[1] && merges == 0 {
						merges++
						return timer.ErrUnavailable
					}
					return nil
				}, nil)
				r := c.patch(0, made.ID, elsewhere)
				if merges != 1 || !r.InFlight || r.Unreached != 1 {
					c.Errorf("PATCH that one owner misses: %+v", r)
				}
				c.Inject(nil, nil)
				pass(8 * time.Second)
				for _, name := range homes {
					if state := c.Copies(name)[made.ID.Key]; state.Rev != r.Version {
						c.Errorf("%s has %+v, want revision %v", name, state, r.Version)
					}
				}
				pass(4 * time.Minute)
				c.wantOnce(made.ID.Key, 6, maxLate)
				c.wantCalled(made.ID.Key, patchedURI, patchedURI, patchedURI, patchedURI, patchedURI, patchedURI)
				c.wantEmpty()
			})
		})
	}
}

// A copy that has missed a PATCH adopts the PATCH before the copy calls, and the callback is on time.
func TestACopyAdoptsAPatch(t *testing.T) {
	inCluster(t, 2, 2, func(c *cluster) {
		made := c.create(recurring(3*time.Second, 2))
		homes := c.homes(made.ID.Key, 2)
		back := c.Save(homes[0])
		r := c.patch(0, made.ID, elsewhere)
		back() // the primary has lost its last second
		if state := c.Copies(homes[0])[made.ID.Key]; state.Rev != 0 {
			c.Fatalf("the primary has %+v", state)
		}
		if got, err := c.nodes[1].Lookup(c.Context(), made.ID); err != nil || got.Record.State.Rev != r.Version || got.Record.Timer.Callback.URI != patchedURI {
			c.Errorf("GET: %+v, %v, want the newest revision", got.Record, err)
		}
		pass(time.Minute)
		c.wantOnce(made.ID.Key, 2, maxLate)
		c.wantCalled(made.ID.Key, patchedURI, patchedURI)
		c.wantEmpty()
	})
}
