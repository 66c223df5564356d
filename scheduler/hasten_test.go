package scheduler_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"chronos/scheduler/dispatch"
	"chronos/scheduler/settings"
	"chronos/scheduler/store"
	"chronos/scheduler/storetest"
	"chronos/scheduler/timer"
)

// prompt is how soon after the answer a hastened pop comes.
const prompt = 10 * time.Millisecond

// long is how long a timer waits without a fire.
const long = time.Minute

func (c *cluster) fire(node int, id timer.ID) timer.Receipt {
	c.Helper()
	r, err := c.nodes[node].Fire(c.Context(), id, timer.Condition{})
	if err != nil {
		c.Fatalf("fire: %v", err)
	}
	return r
}

// wantCall checks the n-th callback of a timer: the pop, the attempt, and when the callback came.
func (c *cluster) wantCall(key string, n, seq, attempt int, from time.Time, within time.Duration) {
	c.Helper()
	seen := c.callbacks(key)
	if len(seen) < n {
		c.Errorf("%d callbacks of %s, want %d", len(seen), key, n)
		return
	}
	got := seen[n-1]
	if got.Seq != seq || got.Attempt != attempt || got.at.Before(from) || got.at.After(from.Add(within)) {
		c.Errorf("callback %d is pop %d, attempt %d, at %v; want pop %d, attempt %d, within %v of %v", n, got.Seq, got.Attempt, got.at, seq, attempt, within, from)
	}
	if got.Late < 0 {
		c.Errorf("callback %d is %v late", n, got.Late)
	}
}

func (c *cluster) wantCalls(key string, n int) {
	c.Helper()
	if seen := c.callbacks(key); len(seen) != n {
		c.Errorf("%d callbacks of %s, want %d: %+v", len(seen), key, n, seen)
	}
}

// Rule "fire now": the next pop comes at once, through either node, and the pops behind keep their times.
func TestAFiredPopComesAtOnce(t *testing.T) {
	for name, asked := range map[string]timer.Timer{"one pop": oneShot(long), "three pops": recurring(long, 3)} {
		for node := range 2 {
			t.Run(fmt.Sprintf("%s, node %d", name, node), func(t *testing.T) {
				inCluster(t, 3, 2, func(c *cluster) {
					made, begun := c.create(asked), time.Now()
					pass(10 * time.Second)
					fired := time.Now()
					r := c.fire(node, made.ID)
					if r.ID != made.ID || r.Version != made.Version || r.Copies != 2 || r.Unreached != 0 || r.InFlight || r.Due.Sub(fired).Abs() > time.Millisecond {
						c.Errorf("fire answered %+v after %+v", r, made)
					}
					pass(prompt)
					c.wantCall(made.ID.Key, 1, 1, 1, fired, prompt)
					pass(4 * long)
					c.wantCalls(made.ID.Key, asked.Pops())
					for n := 2; n <= asked.Pops(); n++ {
						c.wantCall(made.ID.Key, n, n, 1, begun.Add(time.Duration(n)*long), maxLate)
					}
					c.wantEmpty()
				})
			})
		}
	}
}

// A fire whose answer is lost may have had the pop come: another copy that has changed meanwhile doesn't say otherwise.
func TestAFireWithoutAnAnswerIsNotRefused(t *testing.T) {
	for name, asked := range map[string]timer.Timer{"one pop": oneShot(long), "three pops": recurring(long, 3)} {
		t.Run(name, func(t *testing.T) {
			inCluster(t, 3, 2, func(c *cluster) {
				made := c.create(asked)
				first, lost := c.homes(made.ID.Key, 2)[0], false
				c.Inject(nil, func(op, shard string) error {
					if op != "merge" || shard != first || lost {
						return nil
					}
					lost = true
					<-time.After(300 * time.Millisecond) // in which the pop comes
					return timer.ErrUnavailable
				})
				if r, err := c.nodes[1].Fire(c.Context(), made.ID, timer.Condition{}); !lost || !errors.Is(err, timer.ErrUnavailable) {
					t.Errorf("fire: %+v, %v, answer lost: %t; want unavailable", r, err, lost)
				}
				c.Inject(nil, nil)
				pass(prompt)
				c.wantCalls(made.ID.Key, 1)
			})
		})
	}
}

// A fired timer may be fired again and again: each time the next pop comes.
func TestEveryFireIsAnotherPop(t *testing.T) {
	inCluster(t, 3, 2, func(c *cluster) {
		made, begun := c.create(recurring(long, 4)), time.Now()
		for n := 1; n <= 3; n++ {
			at := time.Now()
			c.fire(n%2, made.ID)
			pass(20 * time.Second)
			c.wantCall(made.ID.Key, n, n, 1, at, prompt)
		}
		pass(5 * long)
		c.wantCalls(made.ID.Key, 4)
		c.wantCall(made.ID.Key, 4, 4, 1, begun.Add(4*long), maxLate)
		c.wantEmpty()
	})
}

// A retry that waits comes at once, and is a further attempt at the same pop.
func TestAFiredRetryComesAtOnce(t *testing.T) {
	for name, asked := range map[string]timer.Timer{"one pop": oneShot(20 * time.Second), "three pops": recurring(2*long, 3)} {
		t.Run(name, func(t *testing.T) {
			inCluster(t, 3, 2, func(c *cluster) {
				c.respond = func(a attempt) (time.Duration, dispatch.Delivered) {
					if a.Seq == 1 && a.Attempt < 3 {
						return 0, dispatch.Delivered{Reason: "status 503", RetryAfter: long}
					}
					return 0, dispatch.Delivered{Verdict: dispatch.VerdictDelivered}
				}
				made := c.create(asked)
				pass(asked.Interval + 20*time.Second)
				for attempt := 2; attempt <= 3; attempt++ {
					fired := time.Now()
					c.fire(attempt%2, made.ID)
					pass(2 * time.Second)
					c.wantCall(made.ID.Key, attempt, 1, attempt, fired, time.Second+150*time.Millisecond) // left to the other node for a second
				}
				pass(7 * long)
				c.wantCalls(made.ID.Key, 2+asked.Pops())
				c.wantEmpty()
			})
		})
	}
}

// A fired pop may fail: the retries follow, and the pop behind keeps its time.
func TestAFiredPopIsTriedAgain(t *testing.T) {
	inCluster(t, 3, 2, func(c *cluster) {
		c.respond = func(a attempt) (time.Duration, dispatch.Delivered) {
			if a.Seq == 1 && a.Attempt == 1 {
				return 0, dispatch.Delivered{Reason: "status 503"}
			}
			return 0, dispatch.Delivered{Verdict: dispatch.VerdictDelivered}
		}
		made, begun := c.create(recurring(long, 2)), time.Now()
		fired := time.Now()
		c.fire(0, made.ID)
		pass(20 * time.Second)
		c.wantCall(made.ID.Key, 2, 1, 2, fired, 10*time.Second)
		pass(3 * long)
		c.wantCalls(made.ID.Key, 3)
		c.wantCall(made.ID.Key, 3, 2, 1, begun.Add(2*long), maxLate)
		c.wantEmpty()
	})
}

// A pop of a timer with expires-after may come before its time.
func TestAFiredPopDoesNotExpire(t *testing.T) {
	inCluster(t, 3, 2, func(c *cluster) {
		asked := recurring(long, 2)
		asked.ExpiresAfter = time.Second
		made, begun := c.create(asked), time.Now()
		c.fire(0, made.ID)
		pass(3 * long)
		c.wantCalls(made.ID.Key, 2)
		c.wantCall(made.ID.Key, 1, 1, 1, begun, prompt)
		c.wantCall(made.ID.Key, 2, 2, 1, begun.Add(2*long), maxLate)
		c.wantEmpty()
	})
}

// A fire goes to the version of the condition, or else to the present version.
func TestFireOnACondition(t *testing.T) {
	inCluster(t, 3, 2, func(c *cluster) {
		made := c.create(oneShot(long))
		_, err := c.nodes[0].Fire(c.Context(), made.ID, is(made.Version-1))
		c.unmet("fire of another version", err, made.Version)
		_, err = c.nodes[0].Fire(c.Context(), made.ID, absent)
		c.unmet("fire of a timer that is not there", err, made.Version)
		patched := c.patch(1, made.ID, elsewhere)
		_, err = c.nodes[0].Fire(c.Context(), made.ID, is(made.Version))
		c.unmet("fire of a timer that was patched", err, patched.Version)
		pass(20 * time.Second)
		c.wantCalls(made.ID.Key, 0)
		if _, err := c.nodes[0].Fire(c.Context(), made.ID, is(patched.Version)); err != nil {
			c.Errorf("fire of the revision that is there: %v", err)
		}
		pass(20 * time.Second)
		c.wantCalled(made.ID.Key, patchedURI)
		_, err = c.nodes[0].Fire(c.Context(), made.ID, exists)
		c.unmet("fire of a timer that is over, if it exists", err, 0)
		pass(2 * long)
		c.wantCalls(made.ID.Key, 1)
		c.wantEmpty()
	})
}

// A fire is refused with the reason.
func TestFireRefusals(t *testing.T) {
	inCluster(t, 3, 2, func(c *cluster) {
		wantFire := func(what string, id timer.ID, want error) {
			c.Helper()
			if _, err := c.nodes[0].Fire(c.Context(), id, timer.Condition{}); !errors.Is(err, want) {
				c.Errorf("fire of %s: %v, want %v", what, err, want)
			}
		}
		wantFire("a timer that never was", timer.ID{Key: "k"}, timer.ErrNotFound)
		deleted := c.create(oneShot(long))
		if _, err := c.nodes[0].Delete(c.Context(), deleted.ID); err != nil {
			c.Fatal(err)
		}
		wantFire("a timer that was deleted", deleted.ID, timer.ErrNotFound)
		c.respond = func(attempt) (time.Duration, dispatch.Delivered) {
			return time.Second, dispatch.Delivered{Verdict: dispatch.VerdictDelivered}
		}
		made := c.create(oneShot(time.Second))
		pass(1500 * time.Millisecond)
		wantFire("a timer whose callback is under way", made.ID, timer.ErrFiring)
		pass(20 * time.Second)
		c.wantCalls(made.ID.Key, 1)
		away := c.create(oneShot(long))
		for _, shard := range c.homes(away.ID.Key, 3) {
			c.connect(shard, storetest.LinkCut)
		}
		wantFire("a timer whose shards are away", away.ID, timer.ErrUnavailable)
		for _, shard := range c.homes(away.ID.Key, 3) {
			c.connect(shard, storetest.LinkUp)
		}
		pass(2 * long)
		c.wantCalls(away.ID.Key, 1)
		c.wantEmpty()
	})
}

// Of fires and claims at the same time each pop comes once.
func TestFiresAtTheSameTimeAreOnePop(t *testing.T) {
	for ahead := -20 * time.Millisecond; ahead <= 200*time.Millisecond; ahead += 20 * time.Millisecond {
		inCluster(t, 3, 2, func(c *cluster) {
			c.jitter(10 * time.Millisecond)
			made := c.create(oneShot(2 * time.Second))
			pass(2*time.Second - ahead)
			var all sync.WaitGroup
			for n := range 6 {
				all.Go(func() {
					_, err := c.nodes[n%2].Fire(c.Context(), made.ID, timer.Condition{})
					if err != nil && !errors.Is(err, timer.ErrFiring) && !errors.Is(err, timer.ErrNotFound) && !errors.Is(err, timer.ErrUnavailable) {
						c.Errorf("fire: %v", err)
					}
				})
			}
			all.Wait()
			pass(20 * time.Second)
			c.wantCalls(made.ID.Key, 1)
			c.wantEmpty()
		})
	}
}

// With the first copy's shard away, the backup comes due in its turn.
func TestAFireReachesTheBackup(t *testing.T) {
	inCluster(t, 3, 2, func(c *cluster) {
		made := c.create(oneShot(long))
		first := c.homes(made.ID.Key, 1)[0]
		c.connect(first, storetest.LinkMute)
		pass(5 * time.Second)
		fired := time.Now()
		if r := c.fire(0, made.ID); r.Copies != 1 || r.Unreached != 1 {
			c.Errorf("fire answered %+v, want one copy and one unreached", r)
		}
		pass(5 * time.Second)
		c.wantCall(made.ID.Key, 1, 1, 1, fired, 2*time.Second+500*time.Millisecond)
		c.connect(first, storetest.LinkUp)
		pass(2 * long)
		c.wantCalls(made.ID.Key, 1)
		c.wantEmpty()
	})
}

// missesHasten has a shard carry out no write of a client until the returned function is called.
func (c *cluster) missesHasten(shard string) (heal func()) {
	c.Inject(func(op, of string) error {
		if op == "merge" && of == shard {
			return errLostWrite
		}
		return nil
	}, nil)
	return func() { c.Inject(nil, nil) }
}

var errLostWrite = errors.New("the write was lost")

// A backup that comes due hastens a first copy without the fire.
func TestABackupHastensABetterCopy(t *testing.T) {
	for name, asked := range map[string]timer.Timer{"one pop": oneShot(long), "three pops": recurring(long, 3)} {
		t.Run(name, func(t *testing.T) {
			inCluster(t, 3, 2, func(c *cluster) {
				made := c.create(asked)
				heal := c.missesHasten(c.homes(made.ID.Key, 1)[0])
				fired := time.Now()
				if r := c.fire(0, made.ID); r.Copies != 1 || r.Unreached != 1 {
					c.Errorf("fire answered %+v, want one copy and one unreached", r)
				}
				heal()
				pass(10 * time.Second)
				c.wantCall(made.ID.Key, 1, 1, 1, fired, 2*time.Second+500*time.Millisecond)
				pass(4 * long)
				c.wantCalls(made.ID.Key, asked.Pops())
				c.wantEmpty()
			})
		})
	}
}

// The pop of a backup fails while the first copy is away. The first copy comes back, waits for the pop by
// the grid, and does not hold up the retry.
func TestARetryAfterAFireIsNotHeldUp(t *testing.T) {
	inCluster(t, 3, 2, func(c *cluster) {
		c.respond = func(a attempt) (time.Duration, dispatch.Delivered) {
			if a.Attempt == 1 {
				return 0, dispatch.Delivered{Reason: "status 503", RetryAfter: 4 * time.Second}
			}
			return 0, dispatch.Delivered{Verdict: dispatch.VerdictDelivered}
		}
		made := c.create(oneShot(long))
		first := c.homes(made.ID.Key, 1)[0]
		c.connect(first, storetest.LinkCut)
		c.Inject(func(op, _ string) error {
			if op == "swept" {
				return errNoSweep
			}
			return nil
		}, nil)
		pass(3 * time.Second)
		fired := time.Now()
		c.fire(0, made.ID)
		pass(4 * time.Second)
		c.connect(first, storetest.LinkUp)
		pass(20 * time.Second)
		c.wantCall(made.ID.Key, 2, 1, 2, fired, 20*time.Second)
		pass(2 * long)
		c.wantCalls(made.ID.Key, 2)
	})
}

// The node dies right after its answer: the other node makes the callback.
func TestAFireOutlivesItsNode(t *testing.T) {
	for _, dies := range []bool{true, false} {
		inCluster(t, 3, 2, func(c *cluster) {
			made := c.create(oneShot(long))
			fired := time.Now()
			c.fire(0, made.ID)
			if dies {
				for _, shard := range c.Open("probe").Shards() {
					c.Connect(nodeName(0), shard, storetest.LinkCut)
				}
			} else {
				c.connect(c.homes(made.ID.Key, 1)[0], storetest.LinkCut) // the first copy's shard dies
			}
			pass(10 * time.Second)
			c.wantCall(made.ID.Key, 1, 1, 1, fired, 5*time.Second)
			c.wantCalls(made.ID.Key, 1)
		})
	}
}

// Rule "a young end leaves a tombstone": a copy from before a fire may be on its way. The end of a hastened pop, or
// of a hastened retry, refuses the copy.
func TestACopyThatWasReadBeforeAFireIsRefused(t *testing.T) {
	for _, retry := range []bool{false, true} {
		inCluster(t, 2, 1, func(c *cluster) {
			c.respond = func(a attempt) (time.Duration, dispatch.Delivered) {
				if retry && a.Attempt == 1 {
					return 0, dispatch.Delivered{Reason: "status 503", RetryAfter: long}
				}
				return 0, dispatch.Delivered{Verdict: dispatch.VerdictDelivered}
			}
			calls, asked := 1, oneShot(long)
			if retry {
				calls, asked = 2, oneShot(time.Second)
			}
			id := c.create(asked).ID
			pass(20 * time.Second)
			probe, late := c.Open("probe"), c.writesOf(id.Key)
			c.fire(0, id)
			pass(1500 * time.Millisecond)
			c.wantCalls(id.Key, calls)
			for _, w := range late {
				if got := probe.Tell(c.Context(), w.Shard, []store.Write{w})[0]; got.Status != store.WriteNewer {
					c.Errorf("%s took the copy after the end: %+v", w.Shard, got)
				}
			}
			pass(2 * long)
			c.wantCalls(id.Key, calls)
			c.wantEmpty()
		})
	}
}

// A slow shard leaves a fired pop to the backups for some seconds, and not until the pop's own time.
func TestAFireOnASlowShard(t *testing.T) {
	inCluster(t, 3, 2, func(c *cluster) {
		var ids []timer.ID
		for range 20 {
			ids = append(ids, c.create(oneShot(long)).ID)
		}
		c.slowDown("s1", 400*time.Millisecond)
		pass(10 * time.Second)
		for _, id := range ids {
			c.fire(0, id)
		}
		pass(10 * time.Second)
		for _, id := range ids {
			c.wantCalls(id.Key, 1)
		}
		c.slowDown("s1", 0)
		pass(2 * long)
		for _, id := range ids {
			c.wantCalls(id.Key, 1)
		}
		c.wantEmpty()
	})
}

// A fire changes the time of the copies, and no state.
func TestAFireChangesNoState(t *testing.T) {
	inCluster(t, 3, 2, func(c *cluster) {
		made := c.create(oneShot(long))
		before := slices.Clone(c.states(made.ID.Key))
		c.fire(0, made.ID)
		if after := c.states(made.ID.Key); !slices.Equal(before, after) {
			c.Errorf("a fire has changed the states from %+v to %+v", before, after)
		}
		pass(time.Second)
		c.wantCalls(made.ID.Key, 1)
	})
}

// A pop that comes before its time is not late.
func TestAFiredPopIsNotLate(t *testing.T) {
	registry := prometheus.NewRegistry()
	inCluster(t, 3, 1, func(c *cluster) {
		made := c.create(oneShot(long))
		c.fire(0, made.ID)
		pass(time.Second)
		c.wantCalls(made.ID.Key, 1)
		families, err := registry.Gather()
		if err != nil {
			c.Fatal(err)
		}
		for _, f := range families {
			if f.GetName() != "chronos_lateness_seconds" {
				continue
			}
			if h := f.GetMetric()[0].GetHistogram(); h.GetSampleCount() != 1 || h.GetSampleSum() != 0 {
				c.Errorf("%d pops are %v s late in all, want one that is not late", h.GetSampleCount(), h.GetSampleSum())
			}
			return
		}
		c.Error("no metric tells of the lateness")
	}, func(config *settings.Config) { config.Registerer = registry })
}
