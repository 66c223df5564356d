package wheel

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"
)

// turns is a context that counts how often Run has gone to sleep: Run asks for Done once per
// sleep.
type turns struct {
	context.Context
	n atomic.Int64
}

func (c *turns) Done() <-chan struct{} {
	c.n.Add(1)
	return c.Context.Done()
}

// batch is one call of expire.
type batch struct {
	after time.Duration // since the start
	items []int
}

// bench is a running wheel inside a bubble.
type bench struct {
	*Wheel[int]
	start   time.Time
	sleeps  *turns
	batches []batch // written by Run's goroutine; read after synctest.Wait
	stop    func()  // ends Run and waits for its return
}

func startBench(t *testing.T) *bench {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	b := &bench{start: time.Now(), sleeps: &turns{Context: ctx}}
	b.Wheel = New[int](b.start)
	done := make(chan struct{})
	go func() {
		defer close(done)
		b.Run(b.sleeps, func(items []int) {
			b.batches = append(b.batches, batch{time.Since(b.start), slices.Clone(items)})
		})
	}()
	b.stop = func() { cancel(); <-done }
	t.Cleanup(b.stop)
	synctest.Wait()
	return b
}

func (b *bench) add(d time.Duration, item int) bool { return b.Add(b.start.Add(d), item) }

// at lets the bubble's clock reach d after the start and Run settle.
func (b *bench) at(d time.Duration) {
	time.Sleep(time.Until(b.start.Add(d)))
	synctest.Wait()
}

func (b *bench) want(t *testing.T, want ...batch) {
	t.Helper()
	same := func(x, y batch) bool { return x.after == y.after && slices.Equal(x.items, y.items) }
	if !slices.EqualFunc(b.batches, want, same) {
		t.Errorf("batches %v, want %v", b.batches, want)
	}
}

func (b *bench) wantSleeps(t *testing.T, want int64) {
	t.Helper()
	if got := b.sleeps.n.Load(); got != want {
		t.Errorf("Run has gone to sleep %d times, want %d", got, want)
	}
}

func TestRunExpiresAtTheEndOfTheSlot(t *testing.T) {
	for _, tc := range []struct{ at, out time.Duration }{
		{-time.Second, 0}, {0, 0}, {1, slotWidth}, {slotWidth, slotWidth}, {99*ms + 1, 99*ms + slotWidth}, {ring - slotWidth, ring - slotWidth},
		{ring, ring}, {10*time.Second + 1, 10*time.Second + slotWidth}, {30 * 24 * time.Hour, 30 * 24 * time.Hour},
	} {
		t.Run(tc.at.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := startBench(t)
				b.add(tc.at, 1)
				b.at(tc.out)
				b.want(t, batch{tc.out, []int{1}})
			})
		})
	}
}

func TestRunHandsOverOneBatchPerSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := startBench(t)
		b.add(20*ms, 1)
		b.add(40*ms, 4)
		b.add(20*ms-slotWidth+1, 2)
		b.add(20*ms, 3)
		b.at(time.Second)
		b.want(t, batch{20 * ms, []int{1, 2, 3}}, batch{40 * ms, []int{4}})
		b.wantSleeps(t, 3) // at the start and after each batch
	})
}

func TestRunRestsAfterABatch(t *testing.T) {
	for _, tc := range []struct {
		items int
		rest  time.Duration
	}{{1, 250 * time.Microsecond}, {2, 500 * time.Microsecond}, {4, ms}, {100, ms}} {
		t.Run(strconv.Itoa(tc.items), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := startBench(t)
				for range tc.items {
					b.add(10*ms, 1)
				}
				b.add(10*ms+slotWidth, 2)
				b.add(20*ms, 4)
				b.add(20*ms+slotWidth, 5)
				b.at(20 * ms)
				b.add(0, 6) // ends the rest
				b.at(time.Second)
				b.want(t, batch{10 * ms, slices.Repeat([]int{1}, tc.items)}, batch{10*ms + tc.rest, []int{2}},
					batch{20 * ms, []int{4}}, batch{20 * ms, []int{6}}, batch{20*ms + 2*slotWidth, []int{5}})
				b.wantSleeps(t, 6)
			})
		})
	}
}

func TestRunIsWokenByAnEarlierAdd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := startBench(t)
		b.add(time.Hour, 1)
		b.at(10 * ms)
		b.add(200*ms, 2)
		b.at(20 * ms)
		b.add(100*ms, 3)
		b.add(-time.Hour, 4)
		b.at(2 * time.Hour)
		b.want(t, batch{20 * ms, []int{4}}, batch{100 * ms, []int{3}}, batch{200 * ms, []int{2}}, batch{time.Hour, []int{1}})
		b.wantSleeps(t, 5)
	})
}

func TestIdleRunDoesNotWake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := startBench(t)
		b.at(24 * time.Hour)
		b.wantSleeps(t, 1)
		b.add(48*time.Hour, 1)
		for i := range 100 {
			b.add(48*time.Hour+time.Duration(i/2)*10*ms-time.Duration(i%2), 2)
		}
		b.at(47 * time.Hour)
		b.wantSleeps(t, 1)
		b.at(49 * time.Hour)
		b.wantSleeps(t, 1+50) // 50 slots of two items
	})
}

func TestDrainedRunDoesNotExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := startBench(t)
		b.add(10*ms, 1)
		if rest := b.Drain(nil); !slices.Equal(rest, []int{1}) {
			t.Errorf("Drain = %v, want the item", rest)
		}
		b.add(20*ms, 2)
		b.at(time.Second)
		b.want(t, batch{20 * ms, []int{2}})
	})
}

func TestExpireMayAdd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 100*ms+1)
		defer cancel()
		w := New[int](start)
		var got []time.Duration
		w.Add(start, 0)
		w.Run(ctx, func(items []int) {
			got = append(got, time.Since(start))
			w.Add(time.Now().Add(50*ms), items[0])
		})
		if want := []time.Duration{0, 50 * ms, 100 * ms}; !slices.Equal(got, want) {
			t.Errorf("expired at %v, want %v", got, want)
		}
	})
}

func TestSleepingRunKeepsNothingAliveThatItHandedOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		w, expired := New[*[64]int](time.Now()), 0
		item := new([64]int)
		gone := weak.Make(item)
		w.Add(time.Now(), item)
		go w.Run(ctx, func(items []*[64]int) { expired += len(items) })
		synctest.Wait()
		runtime.GC()
		if expired != 1 || gone.Value() != nil {
			t.Errorf("expired %d items, still referred to: %v; want 1, false", expired, gone.Value() != nil)
		}
	})
}

func TestSlowExpireDelaysNothingFurther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		start := time.Now()
		w := New[int](start)
		for i := range 5 {
			w.Add(start.Add(time.Duration(i)*10*ms), i)
		}
		var got []batch
		go w.Run(ctx, func(items []int) {
			got = append(got, batch{time.Since(start), slices.Clone(items)})
			if len(got) == 1 {
				time.Sleep(25 * ms)
			}
		})
		time.Sleep(time.Second)
		cancel()
		synctest.Wait()
		(&bench{batches: got}).want(t, batch{0, []int{0}}, batch{25 * ms, []int{1, 2}}, batch{30 * ms, []int{3}}, batch{40 * ms, []int{4}})
	})
}

func TestAfterRunAddRefusesAndDrainYieldsTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := startBench(t)
		b.add(10*ms, 1)
		b.add(20*ms, 2)
		b.add(time.Hour, 3)
		b.at(15 * ms)
		b.stop()
		if b.add(16*ms, 4) {
			t.Error("Add accepted an item that nobody would expire")
		}
		time.Sleep(2 * time.Hour)
		b.want(t, batch{10 * ms, []int{1}})
		if n := b.Len(); n != 2 {
			t.Errorf("Len = %d, want 2", n)
		}
		if rest := b.Drain(nil); !slices.Equal(rest, []int{2, 3}) {
			t.Errorf("Drain = %v, want 2 and 3", rest)
		}
		if rest := b.Drain(nil); len(rest) != 0 {
			t.Errorf("second Drain = %v, want nothing", rest)
		}
	})
}

func TestRunWithAnEndedContextExpiresNothing(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w := New[int](time.Now())
	w.Add(time.Now().Add(-time.Second), 1)
	w.Run(ctx, func(items []int) { t.Errorf("expired %v", items) })
	if rest := w.Drain(nil); !slices.Equal(rest, []int{1}) {
		t.Errorf("Drain = %v, want the item", rest)
	}
}

// With the machine's clock, several goroutines add without a pause. Every accepted item comes out
// once, never early, and a refused item never comes out.
func TestShutdownUnderConcurrentAdds(t *testing.T) {
	const adders, enough = 4, 5000
	type item struct {
		id int
		at time.Time
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	w := New[item](time.Now())

	accepted := make([]int, adders) // ids of adder i are i, i+adders, …: the first accepted[i] of them
	var wg sync.WaitGroup
	for i := range adders {
		wg.Go(func() {
			for {
				id := i + accepted[i]*adders
				at := time.Now().Add(time.Duration(id%60-5) * ms)
				if id%10 == 0 {
					at = at.Add(time.Hour)
				}
				if !w.Add(at, item{id, at}) {
					return
				}
				accepted[i]++
			}
		})
	}

	out := map[int]int{}
	expired := 0
	w.Run(ctx, func(items []item) {
		now := time.Now()
		for _, it := range items {
			if now.Before(it.at) {
				t.Errorf("item %d came %v early", it.id, it.at.Sub(now))
			}
			out[it.id]++
		}
		if expired += len(items); expired >= enough {
			cancel()
		}
	})
	rest := w.Drain(nil)
	wg.Wait()
	for _, it := range rest {
		out[it.id]++
	}

	total := 0
	for i, n := range accepted {
		total += n
		for k := range n {
			if id := i + k*adders; out[id] != 1 {
				t.Errorf("item %d came out %d times", id, out[id])
			}
		}
	}
	if len(out) != total || w.Len() != 0 {
		t.Errorf("%d items came out and %d remain, %d were accepted", len(out), w.Len(), total)
	}
	if expired < enough || len(rest) == 0 {
		t.Errorf("expired %d, drained %d: the end was not put to the test", expired, len(rest))
	}
}

// The kernel's timer knows no bubble, so the test takes real time, and asserts no times.
func TestRunByKernelTimer(t *testing.T) {
	start := time.Now()
	w := New[time.Time](start)
	if err := w.SleepPrecisely(); errors.Is(err, errors.ErrUnsupported) {
		t.Skip(err) //nolint:forbidigo // there is none on this system
	} else if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	const n = 60
	out := make(chan time.Time, n)
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.Run(ctx, func(items []time.Time) {
			now := time.Now()
			for _, at := range items {
				if now.Before(at) {
					t.Errorf("an item came out %v early", at.Sub(now))
				}
				out <- at
			}
		})
	}()
	w.Add(start.Add(time.Hour), start.Add(time.Hour)) // a sleep that the next items shorten
	for i := range n {
		at := start.Add(time.Duration((i*37)%n) * ms)
		if !w.Add(at, at) {
			t.Fatal("Add refused an item")
		}
	}
	for range n {
		select {
		case <-out:
		case <-time.After(10 * time.Second):
			t.Fatal("not all items came out")
		}
	}
	cancel()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Fatal("Run didn't end with its context")
	}
	if w.Add(start, start) || len(w.Drain(nil)) != 1 {
		t.Error("after Run the wheel is open, or has not kept what was far ahead")
	}
}
