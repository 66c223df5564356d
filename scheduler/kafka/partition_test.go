package kafka

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"
)

// TestKeptIsBounded: bounded memory is kept behind a record that is not done, and a bounded number of
// records would be read again after a crash.
func TestKeptIsBounded(t *testing.T) {
	inBubble(t, func(r *rig) {
		in, stop := r.bare()
		defer stop()
		p := &partition{in: in, id: 0, marks: &watermark{}, ready: make(chan struct{}, 1), stopping: make(chan struct{})}
		paused := func() bool { return len(in.client.PauseFetchPartitions(nil)["in"]) > 0 }
		const n = 1000
		for i := range maxKept / n {
			if paused() {
				t.Fatalf("it is paused after %d, want %d", i*n, maxKept)
			}
			all := make([]*kgo.Record, n)
			for k := range all {
				all[k] = &kgo.Record{Offset: int64(i*n + k)}
			}
			p.offer(all)
			for batch := p.next(); batch != nil; batch = p.next() {
				for _, rec := range batch {
					if rec.Offset > 0 {
						p.marks.done(rec.Offset)
					}
				}
				p.handled(batch)
			}
		}
		if !paused() {
			t.Fatalf("it is not paused after %d", maxKept)
		}
		p.marks.done(0)
		if p.next(); paused() {
			t.Error("it is paused with nothing in hand")
		}
	})
}

// TestRoom: fewer large records fit at once, every record comes in, and nobody waits for ever.
func TestRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		room, entered := newRoom(maxLate), make(chan int, 1000)
		enter := func(ctx context.Context, size int) {
			go func() {
				if room.enter(ctx, size) {
					entered <- size
				}
			}()
			synctest.Wait()
		}
		most := func() (sizes []int) {
			synctest.Wait()
			for len(entered) > 0 {
				sizes = append(sizes, <-entered)
			}
			return sizes
		}
		want := func(when string, want ...int) {
			t.Helper()
			if diff := cmp.Diff(want, most()); diff != "" {
				t.Errorf("%s, what has entered is (-want +got):\n%s", when, diff)
			}
		}
		const half, all = maxLate/2*share - 1, 10 * maxLate * share
		enter(t.Context(), half)
		enter(t.Context(), half)
		want("with room", half, half)
		ctx, cancel := context.WithCancel(t.Context())
		enter(ctx, 0)
		enter(t.Context(), all)
		enter(ctx, 1)
		want("without room")
		cancel()
		want("with no patience")
		room.exit(half)
		want("with half of it")
		room.exit(half)
		want("with all of it", all)
		enter(t.Context(), 1)
		want("with one that takes all")
		room.exit(all)
		want("in the end", 1)
		room.exit(1)
		for range maxLate {
			enter(t.Context(), share-1)
		}
		enter(t.Context(), 0)
		if n := len(most()); n != maxLate {
			t.Errorf("%d small ones have entered, want %d", n, maxLate)
		}
		room.exit(share - 1)
		want("with room for one", 0)
		time.Sleep(time.Second)
	})
}
