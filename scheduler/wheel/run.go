package wheel

import (
	"context"
	"time"
)

// Run hands items over as their instants come, until ctx ends. Call Run once at most. Run sleeps
// until the next occupied slot is over, or for good while the wheel is empty; only an earlier Add
// makes the sleep shorter. After a batch Run rests for 0.25 ms an item, 1 ms at most, unless an
// earlier Add ends the rest.
//
// Expire gets all due items at once, at least one item, ordered as by [Wheel.Advance]. The slice
// is valid only during the call. Run calls expire from Run's own goroutine and looks at the time
// again after the return, so expire should hand the work on rather than do the work. Expire may
// call any method of the wheel but Run.
//
// When ctx ends Run returns, after handing over the batch in hand, if any. After the return of
// Run, Add returns false, and Drain yields the rest.
func (w *Wheel[T]) Run(ctx context.Context, expire func(items []T)) {
	defer w.close()
	var due []T
	for ctx.Err() == nil {
		due = w.Advance(time.Now(), due[:0])
		n := len(due)
		if n > 0 {
			expire(due)
			clear(due) // the wheel must not keep handed-over items alive
		}
		w.arm(n)
		w.alarm.wait(ctx)
	}
}

// arm sets the timer to the next occupied slot, but not before the end of the rest for a batch of n items. Until
// Run wakes, an Add before this time sets the timer anew, so Run itself needs no second channel to listen to.
func (w *Wheel[T]) arm(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	tick := w.next()
	if tick > w.base { // an item that was late when added doesn't wait
		tick = max(tick, w.base+min(int64(n)*restPerItem, longestRest))
	}
	w.sleep(tick)
}

// sleep makes Run sleep until tick; w.mu is held.
func (w *Wheel[T]) sleep(tick int64) {
	w.sleepUntil = tick
	if tick == never {
		w.alarm.unset()
		return
	}
	w.alarm.set(time.Until(w.instant(tick)))
}

func (w *Wheel[T]) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	w.alarm.close()
}
