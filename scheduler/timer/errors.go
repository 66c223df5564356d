package timer

import (
	"errors"
	"fmt"
	"time"
)

var (
	// ErrNotFound says that no shard that should know the timer has the timer.
	ErrNotFound = errors.New("timer not found")

	// ErrUnavailable says that the shards of a timer could not be reached, or refused to write, and
	// that the same request may succeed later. The request may or may not have taken effect.
	ErrUnavailable = errors.New("store unavailable")

	// ErrRefused is an ErrUnavailable of a shard that refused at once, or where nothing listens:
	// the shard did nothing.
	ErrRefused = fmt.Errorf("%w: refused", ErrUnavailable)

	// ErrUpgrading is an ErrUnavailable of a timer that a later chronos has written, in a format
	// that this chronos can't read.
	ErrUpgrading = fmt.Errorf("%w: a later chronos has written the timer", ErrUnavailable)

	// ErrNotUpgraded is an ErrUnavailable of a write in a format that a live node can't read. Nothing was done.
	ErrNotUpgraded = fmt.Errorf("%w: a node that is not upgraded can't read such a timer", ErrUnavailable)

	// ErrKeyReused says that a request with the same idempotency key and another
	// body was accepted before. Nothing was done.
	ErrKeyReused = errors.New("idempotency key reused")

	// ErrOvertaken says that other writes to the same timer kept coming first for as long as this
	// write could be tried. A newer write is in force; this write may have been in force for a
	// moment before.
	ErrOvertaken = errors.New("overtaken by a newer write")

	// ErrFiring says that a callback of the timer is under way, or has just come: there is nothing to
	// hasten, and a delay comes too late. Nothing was done.
	ErrFiring = errors.New("a callback of the timer is under way")

	// ErrOverloaded says that a bounded queue is full. Nothing was done.
	ErrOverloaded = errors.New("overloaded")
)

// InvalidError says which part of a request is refused and what would be right.
type InvalidError struct {
	Pointer string // JSON pointer (RFC 6901) to the offending value, "" for the whole
	Code    string // stable, for programs: "interval-negative"
	Detail  string // for people: what is wrong and what to do
}

func (e *InvalidError) Error() string {
	if e.Pointer == "" {
		return e.Detail
	}
	return e.Pointer + ": " + e.Detail
}

// Invalid makes an InvalidError with a formatted detail. The arguments must not
// be raw input: the detail goes into a header and into logs.
func Invalid(pointer, code, format string, args ...any) *InvalidError {
	return &InvalidError{Pointer: pointer, Code: code, Detail: fmt.Sprintf(format, args...)}
}

// RetryAfter is how long a client should wait after ErrUnavailable or
// ErrOverloaded.
const RetryAfter = time.Second

// ErrSuperseded says that a timer of the same key is there, or was until a moment ago, and was set,
// replaced or deleted after the timer of the request. Nothing was done.
var ErrSuperseded = errors.New("superseded by a later write")

// ErrShardUnknown says that no shard has the name.
var ErrShardUnknown = errors.New("shard unknown")
