package wheel

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"
)

func BenchmarkAdd(b *testing.B) {
	b.ReportAllocs()
	start, i := time.Now(), 0
	w, item, out := New[*int](start), new(int), make([]*int, 0, 16384)
	for range cap(out) { // the nodes of the steady state
		w.Add(start, item)
	}
	out = w.Drain(out)
	for b.Loop() {
		w.Add(start.Add(time.Duration(i*7%250)*ms), item)
		if i++; i%cap(out) == 0 {
			b.StopTimer()
			out = w.Drain(out[:0])
			b.StartTimer()
		}
	}
}

// Four times as many goroutines as cores add, as poll loops would without pauses. Every goroutine
// takes everything out after 4096 adds of its own.
func BenchmarkAddContended(b *testing.B) {
	b.ReportAllocs()
	b.SetParallelism(4)
	start := time.Now()
	w, item := New[*int](start), new(int)
	b.RunParallel(func(pb *testing.PB) {
		var out []*int
		for i := 1; pb.Next(); i++ {
			w.Add(start.Add(time.Duration(i*7%250)*ms), item)
			if i%4096 == 0 {
				out = w.Drain(out[:0])
			}
		}
	})
}

// The worst order for Run's timer: every item is earlier than all items before.
func BenchmarkAddEarlierEachTime(b *testing.B) {
	b.ReportAllocs()
	ctx, cancel := context.WithCancel(b.Context())
	start := time.Now()
	w, running, done := New[int](start), make(chan struct{}), make(chan struct{})
	w.Add(start, 0)
	w.Add(start.Add(1e6*time.Hour), 0)
	go func() {
		defer close(done)
		w.Run(ctx, func([]int) { close(running) })
	}()
	<-running
	for i := 1; b.Loop(); i++ {
		w.Add(start.Add(1e6*time.Hour-time.Duration(i)*ms), i)
	}
	cancel()
	<-done
}

// One slot with n items is emptied.
func BenchmarkAdvance(b *testing.B) {
	for _, n := range []int{0, 100, 10_000} {
		b.Run(fmt.Sprintf("items=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			now := time.Now()
			w, item, out := New[*int](now), new(int), make([]*int, 0, n)
			fill := func() {
				now = now.Add(slotWidth)
				for range n {
					w.Add(now, item)
				}
			}
			fill()
			for b.Loop() {
				out = w.Advance(now, out[:0])
				if n > 0 {
					b.StopTimer()
					fill()
					b.StartTimer()
				}
			}
			if len(out) != n {
				b.Fatalf("%d items came out, want %d", len(out), n)
			}
		})
	}
}

// The cost of an item from Add to expiry at 10 items a slot, 100 ms ahead.
func BenchmarkAddAndAdvance(b *testing.B) {
	b.ReportAllocs()
	now, i := time.Now(), 0
	w, item, out := New[*int](now), new(int), []*int(nil)
	for b.Loop() {
		w.Add(now.Add(100*ms), item)
		if i++; i%10 == 0 {
			now = now.Add(slotWidth)
			out = w.Advance(now, out[:0])
		}
	}
}

// Not a cost but an accuracy: how long after its instant an item comes out, with an item every
// 1.37 ms in a process that does nothing else.
func BenchmarkRunLateness(b *testing.B) {
	b.Run("go", func(b *testing.B) { benchLateness(b, false) })
	b.Run("kernel", func(b *testing.B) { benchLateness(b, true) })
}

func benchLateness(b *testing.B, precisely bool) {
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	start := time.Now()
	w := New[time.Time](start)
	if precisely {
		if err := w.SleepPrecisely(); err != nil {
			b.Skip(err) //nolint:forbidigo // there is none on this system
		}
	}
	for i := range b.N {
		at := start.Add(time.Duration(i+10) * 1370 * time.Microsecond)
		w.Add(at, at)
	}
	var late []time.Duration
	w.Run(ctx, func(items []time.Time) {
		now := time.Now()
		for _, at := range items {
			late = append(late, now.Sub(at))
		}
		if len(late) == b.N {
			cancel()
		}
	})
	slices.Sort(late)
	for _, q := range []float64{0, 0.5, 0.99, 0.999, 1} {
		b.ReportMetric(float64(late[int(q*float64(len(late)-1))].Microseconds()), fmt.Sprintf("µs-p%g", 100*q))
	}
}
