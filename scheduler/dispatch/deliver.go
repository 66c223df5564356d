package dispatch

import (
	"context"
	"time"

	"chronos/scheduler/store"
	"chronos/scheduler/timer"
)

// Deliverer makes callbacks. All methods are safe for concurrent use.
type Deliverer interface {
	// Check refuses a callback that would never be delivered, with an *InvalidError. Check passes
	// a fault that only an attempt can show, and blocks on nothing.
	Check(timer.Callback) error
	// Destination names the part of the callback's target that is slow or down as a whole:
	// scheme://host:port for HTTP. Slots are bounded by destination.
	Destination(timer.Callback) string
	// Deliver makes one attempt and returns when the attempt is over or ctx has ended; ctx carries
	// the deadline, if any. Deliver looks at ctx once more right before sending, and sends nothing
	// if ctx has ended.
	Deliver(context.Context, Delivery) Delivered
}

// Namer is a Deliverer whose users know timers by names, not by IDs.
type Namer interface {
	// NameOf is the name of the timer in the log, as in "timer <id>".
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
	// Late is the time from Due to the call of Deliver, by the shard's clock.
	Late time.Duration
	// LeftOut is how many pops were left out that no successful callback has told of yet.
	LeftOut int
}

// Delivered is how an attempt ended.
type Delivered struct {
	Verdict Verdict
	Class   Class // for the metrics; ClassOther if a Deliverer knows no classes
	// Reason says what went wrong, in a few printable words without secrets.
	Reason string
	// Answer says how the receiver took a pop, in the same words; "" for no words. Only the log of
	// deliveries has the Answer.
	Answer string
	// RetryAfter is the pause that the receiver asked for; 0 for no pause.
	RetryAfter time.Duration
	// Final says that no further attempt would do better than the failed attempt: the pop is given
	// up as after the last attempt.
	Final bool
}

// Verdict says what an attempt means for the timer.
type Verdict int

// What an attempt means for the timer.
const (
	VerdictFailed    Verdict = iota // the pop is tried again, while attempts are left
	VerdictDelivered                // the pop is over
	VerdictGone                     // the receiver wants no more of this timer
	verdicts
)

// Class says in what way an attempt ended.
type Class int

// The ways in which an attempt ends. An answer has the class of its status.
const (
	ClassOther Class = iota // such as a certificate that is not accepted, or an answer that is no HTTP
	Class2xx
	Class3xx
	Class4xx
	Class5xx     // also statuses above 599
	ClassTimeout // no connection or no answer in time
	ClassRefused // the host, or the network on the way, refuses the connection
	ClassDNS     // the name of the host was not found
	ClassDenied  // the operator has denied the target
	classes
)

// String names the class as metrics do.
func (c Class) String() string {
	return [classes]string{"other", "2xx", "3xx", "4xx", "5xx", "timeout", "refused", "dns", "denied"}[c]
}

// String names the verdict as metrics do.
func (v Verdict) String() string {
	return [verdicts]string{VerdictFailed: resultFailed, VerdictDelivered: resultDelivered, VerdictGone: resultGone}[v]
}
