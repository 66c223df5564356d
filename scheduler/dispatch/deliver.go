package dispatch

import (
	"context"
	"time"

	"chronos/scheduler/store"
	"chronos/scheduler/timer"
)

// Deliverer calls back. It is safe for concurrent use.
type Deliverer interface {
	// Check refuses a callback that would never be delivered, with an
	// *InvalidError. What only an attempt can tell it lets pass. It blocks on
	// nothing.
	Check(timer.Callback) error
	// Destination names what is slow or down together with the callback's
	// target: scheme://host:port for HTTP. Slots are bounded by it.
	Destination(timer.Callback) string
	// Deliver makes one attempt and returns when it is over or ctx has ended;
	// ctx carries the deadline. It looks at ctx once more right before sending,
	// and sends nothing when that has ended.
	Deliver(context.Context, Delivery) Delivered
}

// Namer is a Deliverer whose timers users know by other names than their IDs.
type Namer interface {
	// NameOf is what the log calls the timer, as in "timer <id>".
	NameOf(timer.ID, timer.Callback) string
}

func (d *Dispatcher) nameOf(r *store.Record) string {
	if n, ok := d.deliverer.(Namer); ok {
		return n.NameOf(r.ID, r.Timer.Callback)
	}
	return "timer " + r.ID.String()
}

// Delivery is one attempt at one pop.
type Delivery struct {
	Callback timer.Callback
	ID       timer.ID
	Version  timer.Version
	Seq      int       // of the pop, from 1
	Attempt  int       // from 1
	Due      time.Time // when the pop was due
	// Late is how long ago that was when Deliver was called, by the shard's clock.
	Late time.Duration
	// LeftOut is how many pops were left out since a callback told of some.
	LeftOut int
}

// Delivered is how an attempt ended.
type Delivered struct {
	Verdict Verdict
	// Reason says what went wrong, in a few printable words without secrets.
	Reason string
	// RetryAfter is how long the receiver asked to be left alone, 0 if it didn't.
	RetryAfter time.Duration
	// Final says of a failed attempt that no other would do better: the pop is given up
	// as after the last one.
	Final bool
}

// Verdict says what an attempt means for the timer.
type Verdict int

// What an attempt means for the timer.
const (
	VerdictFailed    Verdict = iota // again, while attempts are left
	VerdictDelivered                // the pop is over
	VerdictGone                     // the receiver wants no more of this timer
)

// String names the verdict as metrics do.
func (v Verdict) String() string {
	return [...]string{VerdictFailed: resultFailed, VerdictDelivered: resultDelivered, VerdictGone: resultGone}[v]
}
