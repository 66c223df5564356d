package check

import (
	"errors"
	"fmt"
	"time"
)

// MaxPops is the largest number of pops in an operation.
const MaxPops = 1 << 20

// Kind says how an operation changes a timer.
type Kind string

// The operations.
const (
	Create  Kind = "create"  // POST, or PUT under an id of the client's own: a new timer
	Refresh Kind = "refresh" // PUT: replaces everything; the sequence begins again at 1
	End     Kind = "end"     // DELETE
)

// Operation is a request about a timer, with the answer, made known after the answer has been read. A create that is
// repeated with the same Idempotency-Key is not made known again: the repetition must have no effect.
type Operation struct {
	// Session is the load's own name for the timer, without a slash. The path of a callback contains the session.
	Session string `json:"session"`
	// Revision counts the operations on a timer from 1, failed operations included.
	Revision int `json:"revision"`
	// Op is the kind of the request.
	Op Kind `json:"op"`
	// ID is the timer's id from the answer, or from the request if the operation failed. Empty only for a failed
	// create.
	ID string `json:"id"`
	// OK is false if no answer came, or if the answer was no success: the operation may have taken effect or not.
	OK bool `json:"ok"`
	// InFlight means: by the answer, a callback of the old version may still come.
	InFlight bool `json:"in_flight,omitempty"`
	// SentMs is read before the request is sent; AnsweredMs, after the answer has been read. The unit is wall clock
	// milliseconds since 1970, rounded down.
	SentMs     int64 `json:"sent_ms"`
	AnsweredMs int64 `json:"answered_ms"`
	// IntervalMs is the interval in milliseconds, and Pops the requested number of pops. Not for End.
	IntervalMs int64 `json:"interval_ms,omitempty"`
	Pops       int   `json:"pops,omitempty"`
	// Body is the opaque in each callback. Not for End.
	Body string `json:"body,omitempty"`
}

// sent is the instant, in nanoseconds, before which the operation has certainly not taken effect.
func (o *Operation) sent() int64 { return o.SentMs * int64(time.Millisecond) }

// answered is the instant, in nanoseconds, at which the answer had certainly been read: the end of the millisecond.
func (o *Operation) answered() int64 { return (o.AnsweredMs + 1) * int64(time.Millisecond) }

func (o *Operation) validate() error {
	switch {
	case o.Session == "":
		return errors.New("session is empty")
	case o.Revision < 1:
		return fmt.Errorf("revision %d is below 1", o.Revision)
	case (o.Op == Create) != (o.Revision == 1):
		return fmt.Errorf("op %q at revision %d: create is the first operation and no other is", o.Op, o.Revision)
	case o.ID == "" && (o.OK || o.Op != Create):
		return errors.New("id is empty")
	case o.SentMs <= 0 || o.AnsweredMs < o.SentMs:
		return fmt.Errorf("sent_ms %d, answered_ms %d: not in order", o.SentMs, o.AnsweredMs)
	}
	switch o.Op {
	case End:
		return nil
	case Create, Refresh:
		if o.IntervalMs < 0 || o.Pops < 1 || o.Pops > MaxPops {
			return fmt.Errorf("interval_ms %d, pops %d: out of range", o.IntervalMs, o.Pops)
		}
		return nil
	default:
		return fmt.Errorf("op %q is unknown", o.Op)
	}
}
