package kafka

import (
	"slices"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

func wantNext(t rapid.TB, w *watermark, offset int64, epoch int32) {
	t.Helper()
	if got, at, ok := w.next(); !ok || got != offset || at != epoch {
		t.Errorf("next is %d of epoch %d, %t; want %d of epoch %d", got, at, ok, offset, epoch)
	}
}

func wantNone(t rapid.TB, w *watermark) {
	t.Helper()
	if got, at, ok := w.next(); ok || got != 0 || at != 0 {
		t.Errorf("next is %d of epoch %d, %t; want none", got, at, ok)
	}
}

func wantPending(t rapid.TB, w *watermark, want int) {
	t.Helper()
	if got := w.pending(); got != want {
		t.Errorf("%d pending, want %d", got, want)
	}
}

func TestWatermark(t *testing.T) {
	w := new(watermark)
	wantNone(t, w)
	w.done(0) // never polled
	wantNone(t, w)
	for _, offset := range []int64{0, 1, 5, 6, 100} {
		if !w.polled(offset, 7) {
			t.Errorf("%d isn't taken", offset)
		}
	}
	wantPending(t, w, 5)
	wantNone(t, w)
	w.done(1)
	w.done(6)
	wantNone(t, w)
	wantPending(t, w, 3)
	w.done(0)
	wantNext(t, w, 1, 7)
	wantNone(t, w)
	for _, offset := range []int64{-1, 0, 1, 2, 4, 6, 7, 99, 101, -1 << 63, 1<<63 - 1} { // not polled, or done before
		w.done(offset)
	}
	wantPending(t, w, 2)
	wantNone(t, w)
	w.done(5)
	wantNext(t, w, 6, 7)
	w.polled(101, 8)
	w.done(100)
	w.done(101)
	wantNext(t, w, 101, 8)
	wantNone(t, w)
	wantPending(t, w, 0)
}

func TestWatermarkOfExtremes(t *testing.T) {
	w := new(watermark)
	offsets := []int64{-1 << 63, -1, 0, 1<<63 - 1}
	for _, offset := range offsets {
		w.polled(offset, -1)
	}
	for _, offset := range slices.Backward(offsets) {
		wantNone(t, w)
		w.done(offset)
	}
	wantNext(t, w, 1<<63-1, -1)
}

func TestRevokedWatermark(t *testing.T) {
	w := new(watermark)
	for offset := range int64(4) {
		w.polled(offset, 1)
	}
	w.done(0)
	wantNext(t, w, 0, 1)
	w.done(1)
	w.revoke()
	w.done(2)
	if w.polled(4, 1) {
		t.Error("a record is taken after the revocation")
	}
	w.done(4)
	wantNone(t, w)
	wantPending(t, w, 0)
	w.revoke()
	wantNone(t, w)
}

// TestWatermarkOfCutLog: a log that was cut has new records at the same offsets. The end of an old
// record says nothing about the new record.
func TestWatermarkOfCutLog(t *testing.T) {
	for _, offset := range []int64{0, 8, 10} {
		w := new(watermark)
		for offset := range int64(11) {
			w.polled(offset, 1)
		}
		w.done(0)
		if w.polled(offset, 2) {
			t.Errorf("%d is taken after 10", offset)
		}
		for offset := range int64(12) {
			w.done(offset)
		}
		if w.polled(11, 2) {
			t.Error("a record is taken after the log was cut")
		}
		wantNone(t, w)
	}
}

// TestAnyOrderOfDone: in any order of events, next follows a model that only knows a list.
func TestAnyOrderOfDone(t *testing.T) {
	type record struct {
		offset int64
		epoch  int32
		done   bool
	}
	rapid.Check(t, func(t *rapid.T) {
		w := new(watermark)
		var all []record
		passed, returned := -1, -1
		last, epoch := rapid.Int64Range(-1, 5).Draw(t, "before the first"), int32(0)
		gap := rapid.OneOf(rapid.Just(int64(1)), rapid.Int64Range(1, 3), rapid.Int64Range(1, 1<<40))
		settle := func(i int) {
			w.done(all[i].offset)
			all[i].done = true
			for passed+1 < len(all) && all[passed+1].done {
				passed++
			}
		}
		check := func() {
			if passed == returned {
				wantNone(t, w)
			} else {
				wantNext(t, w, all[passed].offset, all[passed].epoch)
			}
			returned = passed
		}
		t.Repeat(map[string]func(*rapid.T){
			"polled": func(t *rapid.T) {
				for range rapid.IntRange(1, 5).Draw(t, "records") {
					last += gap.Draw(t, "gap")
					epoch += rapid.Int32Range(0, 1).Draw(t, "epochs")
					if !w.polled(last, epoch) {
						t.Fatalf("%d isn't taken", last)
					}
					all = append(all, record{offset: last, epoch: epoch})
				}
			},
			"done": func(t *rapid.T) {
				if len(all) > 0 {
					settle(rapid.IntRange(0, len(all)-1).Draw(t, "record"))
				}
			},
			"done with one that there isn't": func(t *rapid.T) {
				offset := rapid.OneOf(rapid.Int64(), rapid.Int64Range(-1, last+1)).Draw(t, "offset")
				if !slices.ContainsFunc(all, func(r record) bool { return r.offset == offset }) {
					w.done(offset)
				}
			},
			"next": func(*rapid.T) { check() },
			"": func(t *rapid.T) {
				waiting := 0
				for _, r := range all {
					if !r.done {
						waiting++
					}
				}
				wantPending(t, w, waiting)
			},
		})
		var rest []int
		for i := range all {
			if !all[i].done {
				rest = append(rest, i)
			}
		}
		check()
		for _, i := range rapid.Permutation(rest).Draw(t, "rest") {
			settle(i)
			check()
		}
		wantPending(t, w, 0)
		wantNone(t, w)
		if returned != len(all)-1 {
			t.Fatalf("of %d records %d may be committed in the end", len(all), returned+1)
		}
	})
}

// TestWatermarkKeepsNoHistory: a partition that is read for years keeps only the records under way.
func TestWatermarkKeepsNoHistory(t *testing.T) {
	w := new(watermark)
	const window = 100
	for offset := range int64(100_000) {
		w.polled(offset, 0)
		if offset >= window {
			w.done(offset - window)
		}
	}
	if n := cap(w.records); n > 8*window {
		t.Errorf("room for %d records where %d are under way", n, window)
	}
}

func TestWatermarkConcurrently(t *testing.T) {
	const records, workers = 20_000, 8
	w := new(watermark)
	feed := make(chan int64, 256)
	var mu sync.Mutex
	isDone := make([]bool, records)
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for offset := range feed {
				mu.Lock()
				isDone[offset] = true // first, so that the watermark is never ahead
				mu.Unlock()
				w.done(offset)
				w.pending()
			}
		})
	}
	wg.Go(func() {
		defer close(feed)
		for offset := range int64(records) {
			w.polled(offset, 0)
			feed <- offset
		}
	})
	finished := make(chan struct{})
	go func() { wg.Wait(); close(finished) }()
	committed := int64(-1)
	for running := true; running; {
		select {
		case <-finished:
			running = false
		default:
		}
		offset, _, ok := w.next()
		if !ok {
			continue
		}
		if offset <= committed {
			t.Fatalf("next is %d after %d", offset, committed)
		}
		mu.Lock()
		for committed < offset {
			if committed++; !isDone[committed] {
				t.Errorf("next is %d, and %d isn't done", offset, committed)
			}
		}
		mu.Unlock()
	}
	if committed != records-1 {
		t.Errorf("%d may be committed in the end, want %d", committed, records-1)
	}
}

// TestRevokeAmongWorkers: once revoke has returned, nothing may be committed, whatever ends then.
func TestRevokeAmongWorkers(t *testing.T) {
	for range 200 {
		w := new(watermark)
		for offset := range int64(16) {
			w.polled(offset, 0)
		}
		var wg sync.WaitGroup
		for worker := range int64(4) {
			wg.Go(func() {
				for offset := worker; offset < 16; offset += 4 {
					w.done(offset)
				}
			})
		}
		w.revoke()
		wantNone(t, w)
		wg.Wait()
		wantNone(t, w)
	}
}

func BenchmarkWatermark(b *testing.B) {
	for name, gap := range map[string]int64{"without gaps": 1, "with gaps": 3} {
		b.Run(name, func(b *testing.B) {
			const window = 4096
			w := new(watermark)
			i := int64(0)
			for b.Loop() {
				w.polled(i*gap, 0)
				if i >= window {
					w.done(((i - window) ^ 1) * gap) // about in order
				}
				w.next()
				i++
			}
		})
	}
}
