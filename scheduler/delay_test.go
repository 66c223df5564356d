package scheduler_test

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"chronos/scheduler/dispatch"
	"chronos/scheduler/storetest"
	"chronos/scheduler/timer"
)

func (c *cluster) delay(node int, id timer.ID, by time.Duration) timer.Receipt {
	c.Helper()
	r, err := c.nodes[node].Delay(c.Context(), id, timer.Condition{}, by)
	if err != nil {
		c.Fatalf("delay: %v", err)
	}
	return r
}

// Rule "delay": the next pop and the pops behind come later, with their numbers.
func TestADelayMovesTheGrid(t *testing.T) {
	const by, interval = 7 * time.Second, 20 * time.Second
	for node := range 2 {
		inCluster(t, 3, 2, func(c *cluster) {
			made, begun := c.create(recurring(interval, 4)), time.Now()
			pass(interval + 5*time.Second)
			r := c.delay(node, made.ID, by)
			if r.Version <= made.Version || r.Copies != 2 || r.InFlight || r.ID != made.ID || r.Due.Sub(made.Due.Add(interval+by)).Abs() > maxLate {
				c.Errorf("delay answered %+v after %+v", r, made)
			}
			pass(5 * interval)
			c.wantCalls(made.ID.Key, 4)
			c.wantCall(made.ID.Key, 1, 1, 1, begun.Add(interval), maxLate)
			for n := 2; n <= 4; n++ {
				c.wantCall(made.ID.Key, n, n, 1, begun.Add(time.Duration(n)*interval+by), 2*maxLate)
			}
			c.wantEmpty()
		})
	}
}

// A timer that fires once, after an interval or at an instant.
func TestADelayOfTheOnlyPop(t *testing.T) {
	for name, at := range map[string]bool{"after an interval": false, "at an instant": true} {
		t.Run(name, func(t *testing.T) {
			inCluster(t, 3, 2, func(c *cluster) {
				asked, begun := oneShot(20*time.Second), time.Now()
				if at {
					asked.Interval, asked.At = 0, begun.Add(20*time.Second).Truncate(time.Millisecond)
				}
				made := c.create(asked)
				pass(10 * time.Second)
				c.delay(0, made.ID, 30*time.Second)
				pass(5 * time.Second)
				c.delay(1, made.ID, 10*time.Second)
				pass(time.Minute)
				c.wantCalls(made.ID.Key, 1)
				c.wantCall(made.ID.Key, 1, 1, 1, begun.Add(time.Minute-time.Millisecond), 3*maxLate)
				c.wantEmpty()
			})
		})
	}
}

// A delay of a retry counts from the time of the retry, and the pop begins anew with its attempts.
func TestADelayOfARetry(t *testing.T) {
	for name, asked := range map[string]timer.Timer{"one pop": oneShot(5 * time.Second), "three pops": recurring(2*time.Minute, 3)} {
		t.Run(name, func(t *testing.T) {
			inCluster(t, 3, 2, func(c *cluster) {
				c.respond = func(a attempt) (time.Duration, dispatch.Delivered) {
					if len(c.callbacks(a.ID.Key)) == 1 {
						return 0, dispatch.Delivered{Reason: "status 503", RetryAfter: 20 * time.Second}
					}
					return 0, dispatch.Delivered{Verdict: dispatch.VerdictDelivered}
				}
				made := c.create(asked)
				pass(asked.Interval + 10*time.Second)
				failed := c.callbacks(made.ID.Key)[0].at
				c.delay(1, made.ID, 30*time.Second)
				pass(time.Minute)
				c.wantCall(made.ID.Key, 2, 1, 1, failed.Add(50*time.Second), 3*maxLate)
				pass(time.Duration(asked.Pops()) * 2 * time.Minute)
				c.wantCalls(made.ID.Key, 1+asked.Pops())
				for n := 2; n <= asked.Pops(); n++ {
					c.wantCall(made.ID.Key, n+1, n, 1, failed.Add(50*time.Second+time.Duration(n-1)*asked.Interval), 3*maxLate)
				}
				c.wantEmpty()
			})
		})
	}
}

// A delay of a fired pop without a claim counts from now.
func TestADelayAfterAFire(t *testing.T) {
	inCluster(t, 3, 2, func(c *cluster) {
		made := c.create(recurring(time.Minute, 2))
		pass(10 * time.Second)
		fired := time.Now()
		c.fire(0, made.ID)
		r, err := c.nodes[1].Delay(c.Context(), made.ID, timer.Condition{}, 20*time.Second)
		if err != nil {
			c.Fatal(err)
		}
		pass(3 * time.Minute)
		c.wantCalls(made.ID.Key, 2)
		c.wantCall(made.ID.Key, 1, 1, 1, fired.Add(20*time.Second), 3*maxLate)
		c.wantCall(made.ID.Key, 2, 2, 1, r.Due.Add(time.Minute), maxLate)
		c.wantEmpty()
	})
}

// A delay goes to the version of the condition, or else to the present version.
func TestDelayOnACondition(t *testing.T) {
	inCluster(t, 3, 2, func(c *cluster) {
		made, begun := c.create(oneShot(20*time.Second)), time.Now()
		_, err := c.nodes[0].Delay(c.Context(), made.ID, is(made.Version-1), time.Minute)
		c.unmet("delay of another version", err, made.Version)
		patched := c.patch(1, made.ID, elsewhere)
		_, err = c.nodes[0].Delay(c.Context(), made.ID, is(made.Version), time.Minute)
		c.unmet("delay of a timer that was patched", err, patched.Version)
		delayed, err := c.nodes[0].Delay(c.Context(), made.ID, is(patched.Version), 10*time.Second)
		if err != nil {
			c.Fatalf("delay of the revision that is there: %v", err)
		}
		_, err = c.nodes[1].Delay(c.Context(), made.ID, is(patched.Version), 10*time.Second)
		c.unmet("the same delay again", err, delayed.Version)
		pass(time.Minute)
		c.wantCalls(made.ID.Key, 1)
		c.wantCalled(made.ID.Key, patchedURI)
		c.wantCall(made.ID.Key, 1, 1, 1, begun.Add(30*time.Second), 3*maxLate)
		c.wantEmpty()
	})
}

// A refused delay gives the reason, and changes nothing.
func TestDelayRefusals(t *testing.T) {
	inCluster(t, 3, 2, func(c *cluster) {
		wantDelay := func(what string, id timer.ID, by time.Duration, want error) {
			c.Helper()
			if _, err := c.nodes[0].Delay(c.Context(), id, timer.Condition{}, by); !errors.Is(err, want) {
				c.Errorf("delay of %s: %v, want %v", what, err, want)
			}
		}
		wantRange := func(id timer.ID, by time.Duration) {
			c.Helper()
			_, err := c.nodes[0].Delay(c.Context(), id, timer.Condition{}, by)
			if invalid, is := errors.AsType[*timer.InvalidError](err); !is || invalid.Code != "by-range" {
				c.Errorf("delay by %v: %v, want by-range", by, err)
			}
		}
		wantDelay("a timer that never was", timer.ID{Key: "k"}, time.Second, timer.ErrNotFound)
		far := c.create(oneShot(timer.MaxInterval - time.Hour))
		for _, by := range []time.Duration{0, -time.Second, time.Millisecond - 1, timer.MaxInterval + 1, 2 * time.Hour} {
			wantRange(far.ID, by)
		}
		c.delay(0, far.ID, time.Minute)
		if _, err := c.nodes[0].Delete(c.Context(), far.ID); err != nil {
			c.Fatal(err)
		}
		c.respond = func(attempt) (time.Duration, dispatch.Delivered) {
			return time.Second, dispatch.Delivered{Verdict: dispatch.VerdictDelivered}
		}
		made := c.create(recurring(2*time.Second, 2))
		pass(2500 * time.Millisecond)
		wantDelay("a timer whose callback is under way", made.ID, time.Minute, timer.ErrFiring)
		pass(10 * time.Second)
		c.wantOnce(made.ID.Key, 2, maxLate)
		away, begun := c.create(oneShot(20*time.Second)), time.Now()
		c.connect(c.homes(away.ID.Key, 2)[1], storetest.LinkCut)
		wantDelay("a timer of which a shard is away", away.ID, time.Minute, timer.ErrUndecided)
		c.connect(c.homes(away.ID.Key, 2)[1], storetest.LinkUp)
		pass(time.Minute)
		c.wantCalls(away.ID.Key, 1)
		c.wantCall(away.ID.Key, 1, 1, 1, begun.Add(20*time.Second), maxLate)
		c.wantEmpty()
	})
}

// A delay does nothing while the first owner has an earlier version: the copy of that version wouldn't yield to a pop.
func TestADelayNeedsTheVersionAtTheFirstOwner(t *testing.T) {
	inCluster(t, 3, 1, func(c *cluster) {
		made := c.create(recurring(time.Hour, 3))
		first := c.homes(made.ID.Key, 2)[0]
		c.Inject(func(op, shard string) error {
			if op == "merge" && shard == first {
				return timer.ErrUnavailable
			}
			return nil
		}, nil)
		r, err := c.nodes[0].Replace(c.Context(), made.ID, recurring(2*time.Hour, 3))
		if err != nil || r.Unreached != 1 {
			t.Fatalf("%+v, %v", r, err)
		}
		c.Inject(nil, nil)
		if has := c.Copies(first)[made.ID.Key]; has.Version != made.Version {
			t.Fatalf("the first owner has %+v by now", has)
		}
		if _, err := c.nodes[0].Delay(c.Context(), made.ID, timer.Condition{}, time.Minute); !errors.Is(err, timer.ErrUndecided) {
			t.Errorf("delay: %v, want undecided", err)
		}
		if has := c.Copies(first)[made.ID.Key]; has.Version > r.Version {
			t.Errorf("the first owner has %+v", has)
		}
		pass(time.Minute)
		c.delay(0, made.ID, time.Minute)
	})
}

// Delays and callbacks meet: each pop comes once, and an acknowledged delay counts.
func TestADelayMeetsTheCallback(t *testing.T) {
	accepted, refused := 0, 0
	for ahead := -20 * time.Millisecond; ahead <= 200*time.Millisecond; ahead += 44 * time.Millisecond {
		for _, asked := range []timer.Timer{oneShot(2 * time.Second), recurring(2*time.Second, 2)} {
			inCluster(t, 3, 2, func(c *cluster) {
				c.jitter(10 * time.Millisecond)
				made, begun := c.create(asked), time.Now()
				pass(2*time.Second - ahead)
				var all sync.WaitGroup
				var mu sync.Mutex
				delays := 0
				for n := range 4 {
					all.Go(func() {
						_, err := c.nodes[n%2].Delay(c.Context(), made.ID, timer.Condition{}, 10*time.Second)
						mu.Lock()
						defer mu.Unlock()
						switch {
						case err == nil:
							delays++
						case !errors.Is(err, timer.ErrFiring) && !errors.Is(err, timer.ErrNotFound) && !errors.Is(err, timer.ErrUnavailable) && !errors.Is(err, timer.ErrOvertaken):
							c.Errorf("delay: %v", err)
						}
					})
				}
				all.Wait()
				accepted, refused = accepted+delays, refused+4-delays
				pass(2 * time.Minute)
				seen, want := c.callbacks(made.ID.Key), fmt.Sprintf("%d delays, %v ahead", delays, ahead)
				if len(seen) != asked.Pops() {
					c.Errorf("%d callbacks after %s: %+v", len(seen), want, seen)
				}
				if last := seen[len(seen)-1]; last.at.Sub(begun) < time.Duration(delays)*10*time.Second {
					c.Errorf("the last callback came after %v, with %s", last.at.Sub(begun), want)
				}
				c.wantEmpty()
			})
		}
	}
	if accepted == 0 || refused == 0 {
		t.Errorf("%d delays accepted and %d refused: no delay met a callback, or none came in time", accepted, refused)
	}
}

// A delayed timer keeps the number of pops left out without a word to the receiver.
func TestADelayKeepsTheNumberOfPopsLeftOut(t *testing.T) {
	inCluster(t, 3, 2, func(c *cluster) {
		made := c.create(recurring(time.Second, 40))
		pass(500 * time.Millisecond)
		for _, shard := range c.homes(made.ID.Key, 3) {
			c.connect(shard, storetest.LinkCut)
		}
		var delayed atomic.Bool
		c.respond = func(attempt) (time.Duration, dispatch.Delivered) {
			if !delayed.Load() {
				return 0, dispatch.Delivered{Reason: "status 503", Final: true}
			}
			return 0, dispatch.Delivered{Verdict: dispatch.VerdictDelivered}
		}
		pass(20 * time.Second)
		for _, shard := range c.homes(made.ID.Key, 3) {
			c.connect(shard, storetest.LinkUp)
		}
		pass(5*time.Second + 200*time.Millisecond)
		before := c.callbacks(made.ID.Key)
		c.delay(0, made.ID, 5*time.Second)
		delayed.Store(true)
		pass(10 * time.Second)
		after := c.callbacks(made.ID.Key)[len(before):]
		if left := before[len(before)-1].LeftOut; left == 0 || len(after) == 0 || after[0].LeftOut != left {
			c.Errorf("callbacks %+v after %+v, want the number of pops left out again", after, before)
		}
	})
}

// holdMerges has a shard carry out the writes of clients so much later.
func (c *cluster) holdMerges(shard string, wait time.Duration) (heal func()) {
	c.Inject(func(op, of string) error {
		if op == "merge" && of == shard {
			<-time.After(wait)
		}
		return nil
	}, nil)
	return func() { c.Inject(nil, nil) }
}

// A callback begins, and may end, between the reading and the write of a fire or a delay: the fire hastens no
// further pop, and the delay repeats no pop.
func TestAMoveThatComesTooLate(t *testing.T) {
	const interval, by, held = 20 * time.Second, 5 * time.Second, 400 * time.Millisecond
	for _, m := range []struct {
		name   string
		takes  time.Duration // a callback
		delays bool
		want   error
	}{
		{"a fire during the callback", time.Second, false, timer.ErrFiring},
		{"a fire after the callback", time.Millisecond, false, timer.ErrFiring},
		{"a delay during the callback", time.Second, true, timer.ErrFiring},
		{"a delay after the callback, which is of the next pop", time.Millisecond, true, nil},
	} {
		t.Run(m.name, func(t *testing.T) {
			inCluster(t, 3, 2, func(c *cluster) {
				c.respond = func(attempt) (time.Duration, dispatch.Delivered) {
					return m.takes, dispatch.Delivered{Verdict: dispatch.VerdictDelivered}
				}
				made := c.create(recurring(interval, 2))
				pass(interval - held/2)
				heal := c.holdMerges(c.homes(made.ID.Key, 1)[0], held)
				var err error
				if m.delays {
					_, err = c.nodes[0].Delay(c.Context(), made.ID, timer.Condition{}, by)
				} else {
					_, err = c.nodes[0].Fire(c.Context(), made.ID, timer.Condition{})
				}
				heal()
				if !errors.Is(err, m.want) {
					c.Errorf("answered %v, want %v", err, m.want)
				}
				pass(time.Second)
				c.wantCalls(made.ID.Key, 1)
				pass(2 * interval)
				c.wantCalls(made.ID.Key, 2)
				second := made.Due.Add(interval)
				if m.want == nil {
					second = second.Add(by)
				}
				c.wantCall(made.ID.Key, 2, 2, 1, second, held+3*maxLate)
				c.wantEmpty()
			})
		})
	}
}
