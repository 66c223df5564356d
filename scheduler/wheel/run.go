package wheel

import (
	"context"
	"time"
)

// Run hands items over as their instants come, until ctx ends; it must be called
// once at most. It sleeps until the next occupied slot is over, or for good
// while there is none; only an Add that is earlier makes that sleep shorter.
//
// Expire gets all that is due at once, ordered as by [Wheel.Advance], never
// nothing. The slice is valid only during the call. Run calls it from its own
// goroutine and looks at the time again when it has returned, so expire should
// hand the work on rather than do it; it may call any method of the wheel but Run.
//
// When ctx ends Run returns, after handing over the batch that it has in hand, if
// any. From its return on Add returns false, and Drain yields the rest.
func (w *Wheel[T]) Run(ctx context.Context, expire func(items []T)) {
	defer w.close()
	var due []T
	for ctx.Err() == nil {
		due = w.Advance(time.Now(), due[:0])
		if len(due) > 0 {
			expire(due)
			clear(due) // what was handed over isn't ours to keep alive
		}
		w.arm()
		w.alarm.wait(ctx)
	}
}

// arm sets the timer to the next occupied slot. Until Run wakes, an Add before
// that slot sets it anew, so Run itself needs no second channel to listen to.
func (w *Wheel[T]) arm() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sleep(w.next())
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
