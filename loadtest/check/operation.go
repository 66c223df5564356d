package check

import (
	"errors"
	"fmt"
	"time"
)

// MaxPops is the largest number of pops that one operation may ask for.
const MaxPops = 1 << 20

// Kind says what an operation does to its timer.
type Kind string

// The operations.
const (
	Create  Kind = "create"  // POST, or PUT under an id of the client's own: a new timer
	Refresh Kind = "refresh" // PUT: everything anew, the sequence begins again at 1
	End     Kind = "end"     // DELETE
)

// Operation is one request about a timer and its answer, told after the answer has been read. A create that is sent again
// with its Idempotency-Key is not told again: nothing may come of it.
type Operation struct {
	// Session is the load's own name for the timer, without a slash; a callback's path has it.
	Session string `json:"session"`
	// Revision counts the operations on one timer from 1, those that failed included.
	Revision int `json:"revision"`
	// Op says what was asked for.
	Op Kind `json:"op"`
	// ID is the timer's id as answered, or as sent if the operation failed. Empty only for a failed create.
	ID string `json:"id"`
	// OK is false if the answer did not come or was no success: the operation may have taken effect or not.
	OK bool `json:"ok"`
	// InFlight tells that the answer said a callback of the old version may still come.
	InFlight bool `json:"in_flight,omitempty"`
	// SentMs and AnsweredMs are wall clock milliseconds since 1970, both rounded down, read before the request was
	// sent and after its answer had been read.
	SentMs     int64 `json:"sent_ms"`
	AnsweredMs int64 `json:"answered_ms"`
	// IntervalMs is the interval in milliseconds and Pops the number of pops asked for. Not for End.
	IntervalMs int64 `json:"interval_ms,omitempty"`
	Pops       int   `json:"pops,omitempty"`
	// Body is the opaque that each callback must carry. Not for End.
	Body string `json:"body,omitempty"`
}

// sent is the instant, in nanoseconds, before which the operation has certainly not taken effect.
func (o *Operation) sent() int64 { return o.SentMs * int64(time.Millisecond) }

// answered is the instant, in nanoseconds, at which the answer had certainly been read: the end of its millisecond.
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
