package wheel

import (
	"math"
	"runtime"
	"slices"
	"testing"
	"time"
	"weak"
)

const (
	ms   = time.Millisecond
	ring = slotCount * slotWidth
)

// instant lies d after a fixed start without a monotonic reading, so that cases are the same in
// every run.
func instant(d time.Duration) time.Time {
	return time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC).Add(d)
}

func TestItemComesOutAtTheEndOfItsSlot(t *testing.T) {
	const year = 365 * 24 * time.Hour
	for _, tc := range []struct{ at, out time.Duration }{
		{-year, 0},
		{-1, 0},
		{0, 0},
		{1, slotWidth},
		{slotWidth - 1, slotWidth},
		{slotWidth, slotWidth},
		{slotWidth + 1, 2 * slotWidth},
		{100*ms + slotWidth/3, 100*ms + slotWidth},
		{250 * ms, 250 * ms},
		{ring - slotWidth, ring - slotWidth},
		{ring - slotWidth + 1, ring},
		{ring, ring},
		{ring + slotWidth, ring + slotWidth},
		{2 * ring, 2 * ring},
		{time.Hour, time.Hour},
		{290 * year, 290 * year},
	} {
		t.Run(tc.at.String(), func(t *testing.T) {
			w := New[int](instant(0))
			w.Add(instant(tc.at), 7)
			if next, ok := w.Next(); !ok || !next.Equal(instant(tc.out)) {
				t.Errorf("Next = %v, %v, want %v", next.Sub(instant(0)), ok, tc.out)
			}
			if tc.out > 0 {
				if got := w.Advance(instant(tc.out-1), nil); len(got) != 0 {
					t.Errorf("came out before %v: %v", tc.out, got)
				}
			}
			if got := w.Advance(instant(tc.out), nil); !slices.Equal(got, []int{7}) {
				t.Errorf("Advance(%v) = %v, want the item", tc.out, got)
			}
			if _, ok := w.Next(); ok || w.Len() != 0 {
				t.Errorf("wheel not empty: Len = %d", w.Len())
			}
		})
	}
}

func TestItemsComeInOrderOfSlots(t *testing.T) {
	w := New[time.Duration](instant(0))
	var want []time.Duration
	for i := range 3000 {
		want = append(want, time.Duration(i)*ms)
	}
	for i := range want { // 1511 and 3000 have no common divisor: every item once, out of order
		at := want[i*1511%len(want)]
		w.Add(instant(at), at)
	}
	if got := w.Advance(instant(time.Hour), nil); !slices.Equal(got, want) {
		t.Errorf("%d items, sorted %v, want %d sorted", len(got), slices.IsSorted(got), len(want))
	}
}

func TestItemsOfASlotComeInOrderOfAdd(t *testing.T) {
	w := New[int](instant(0))
	w.Advance(instant(50*ms), nil)
	want := []int{1, 2, 3, 4}
	w.Add(instant(50*ms), 1)
	w.Add(instant(49*ms), 2) // late, so the item belongs to the open slot
	w.Add(instant(0), 3)
	w.Add(instant(50*ms-1), 4)
	if got := w.Advance(instant(50*ms), nil); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestLateItemComesOutAtTheNextAdvanceOfTheSameSlot(t *testing.T) {
	w := New[int](instant(0))
	now := instant(10*ms + slotWidth/2)
	w.Advance(now, nil)
	w.Add(instant(3*ms), 1)
	if next, ok := w.Next(); !ok || next.After(now) {
		t.Errorf("Next = %v, %v, want no later than now", next, ok)
	}
	if got := w.Advance(now, nil); !slices.Equal(got, []int{1}) {
		t.Errorf("got %v, want the late item", got)
	}
}

func TestEarlierNowCountsAsTheLast(t *testing.T) {
	w := New[int](instant(0))
	w.Advance(instant(20*ms), nil)
	w.Add(instant(15*ms), 1)
	w.Add(instant(21*ms), 2)
	if got := w.Advance(instant(10*ms), nil); !slices.Equal(got, []int{1}) {
		t.Errorf("got %v, want the late item only", got)
	}
}

func TestAdvanceAppends(t *testing.T) {
	w := New[int](instant(0))
	w.Add(instant(0), 2)
	if got := w.Advance(instant(0), []int{1}); !slices.Equal(got, []int{1, 2}) {
		t.Errorf("got %v", got)
	}
}

func TestFurtherThanDurationsReach(t *testing.T) {
	w := New[int](instant(0))
	w.Add(instant(0).AddDate(1000, 0, 0), 1)
	next, ok := w.Next()
	if !ok || next.Before(instant(math.MaxInt64-ms)) {
		t.Errorf("Next = %v, %v, want the end of what a Duration holds", next, ok)
	}
	if got := w.Advance(instant(0).AddDate(290, 0, 0), nil); len(got) != 0 {
		t.Errorf("came out early: %v", got)
	}
	if got := w.Drain(nil); !slices.Equal(got, []int{1}) {
		t.Errorf("Drain = %v, want the item", got)
	}
}

func TestDrainTakesEverythingAndLeavesAWheelInUse(t *testing.T) {
	w := New[int](instant(0))
	w.Add(instant(-time.Second), 1)
	w.Add(instant(100*ms), 2)
	w.Add(instant(time.Hour), 3)
	got := w.Drain([]int{0})
	slices.Sort(got)
	if want := []int{0, 1, 2, 3}; !slices.Equal(got, want) {
		t.Errorf("Drain = %v, want %v", got, want)
	}
	if _, ok := w.Next(); ok || w.Len() != 0 || len(w.Drain(nil)) != 0 {
		t.Errorf("not empty after Drain: Len = %d", w.Len())
	}
	if !w.Add(instant(2*time.Hour), 4) {
		t.Error("Add refused, though nothing has run")
	}
	if next, ok := w.Next(); !ok || !next.Equal(instant(2*time.Hour)) {
		t.Errorf("Next = %v, %v, want that of the new item", next, ok)
	}
	if got := w.Advance(instant(2*time.Hour), nil); !slices.Equal(got, []int{4}) {
		t.Errorf("got %v, want only what was added after Drain", got)
	}
}

func TestSteadyStateAllocatesNothing(t *testing.T) {
	w := New[*int](instant(0))
	now, out, item := instant(0), make([]*int, 0, 200), new(int)
	turn := func() {
		for i := range 100 {
			w.Add(now.Add(time.Duration(i)*7*ms), item) // the last items beyond the ring
		}
		now = now.Add(100 * ms)
		out = w.Advance(now, out[:0])
	}
	for range 20 {
		turn()
	}
	if n := testing.AllocsPerRun(100, turn); n != 0 {
		t.Errorf("%v allocations per 100 items, want none", n)
	}
}

func TestKeepsNothingAliveThatItHandedOver(t *testing.T) {
	w := New[*[64]int](instant(0))
	item := new([64]int)
	gone := weak.Make(item)
	w.Add(instant(0), item)
	out := w.Advance(instant(0), nil)
	if len(out) != 1 || out[0] != item {
		t.Fatalf("got %v", out)
	}
	clear(out)
	runtime.GC()
	if gone.Value() != nil {
		t.Error("the wheel still refers to the item")
	}
	runtime.KeepAlive(w)
}
