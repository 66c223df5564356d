package storetest

import (
	"time"

	"chronos/scheduler/store"
	"chronos/scheduler/timer"
)

// written is the answer to a write that found or left this copy.
func (e *entry) written(status store.WriteStatus, now time.Time) store.Written {
	due := time.UnixMilli(e.popMs(e.state.Seq))
	w := store.Written{
		Status: status, State: e.state, RF: e.rf, BodyHash: e.bodyHash,
		Due: due.UTC(), Wait: due.Sub(now),
	}
	if end := e.markMs(now.UnixMilli()); end > 0 {
		w.Firing = ms(end - now.UnixMilli())
	}
	return w
}

// DeadLetter is a timer that was given up.
type DeadLetter struct {
	At     time.Time
	Key    string
	Reason string
	State  timer.State
}
