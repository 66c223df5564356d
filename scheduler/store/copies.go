package store

import (
	"context"
	"time"

	"chronos/scheduler/timer"
)

// Copies are the copies of timers on the shards.
type Copies interface {
	// Merge carries out each write whose state is newer than the copy (rules "order of states"
	// and "merge keeps the firing mark"). Writes of many callers go to a shard together.
	Merge(ctx context.Context, writes []Write) []Written
	// Tell is Merge for outcomes of callbacks and for repairs: Tell shares no connection with
	// clients' writes, and never waits for clients' writes.
	Tell(ctx context.Context, shard string, writes []Write) []Written
	// Read returns copies as they are. Reads go to a shard together with the writes of Merge. The
	// error of an item wraps timer.ErrNotFound if no live copy exists; the record of a tombstone
	// is returned with the error.
	Read(ctx context.Context, spots []Spot) []ReadResult
}

// Spot is the place of one copy of a timer.
type Spot struct{ Shard, Key string }

// Away is a shard that has missed the end of a timer and may have a copy of the timer.
type Away struct {
	Shard string
	Rank  int // of the copy
}

// Written is the answer to a Write.
type Written struct {
	Status WriteStatus
	// New says that the shard had no copy.
	New bool
	// State is the present state, or the state that was removed. RF and BodyHash belong to the
	// same record.
	State    timer.State
	RF       int
	BodyHash string
	// Due is when the copy's next pop is due by the shard's clock, without the skew of the
	// rank. Wait is the time from the answer to Due, negative if the pop is overdue.
	Due  time.Time
	Wait time.Duration
	// Partition is the timer's partition, the same on every shard.
	Partition int
	// Firing is how long a callback of an earlier state may still start.
	Firing time.Duration
	Err    error
}

// WriteStatus says what a write did.
type WriteStatus int

// The effects of a write.
const (
	WriteFailed   WriteStatus = iota // Err says why
	WriteStored                      // the copy has the state now, or is removed
	WriteSame                        // the copy had the state already: the write was sent twice
	WriteNewer                       // nothing: State is there and is newer
	WriteConflict                    // nothing: the same state with another timer is there
	WriteFactor                      // nothing: a live timer with another replication factor is there
	WriteExists                      // nothing: a live timer is there, or the BodyHash of a timer that was
	WriteLeased                      // nothing: a lease or a firing mark lasts
	WriteLost                        // nothing: the lease is gone
	WriteNone                        // nothing: no copy is there from which the write could go on
	WriteOlder                       // nothing: State is there, of an earlier version from which the write can't go on
)

// Record is one copy of a timer.
type Record struct {
	ID    timer.ID
	State timer.State
	Timer timer.Timer
	Rank  int    // 0 is the primary
	Site  string // home site, "" if there are no sites
	// Start is when this copy was written, by the shard's clock. Pop n is due at
	// Start + n·Interval.
	Start time.Time
	// Failure is why the callback attempt before failed, of this pop or of the pop before;
	// zero if the attempt succeeded.
	Failure Failure
	// LeftOut is how many pops were left out, and no callback has told of them.
	LeftOut int
	// BodyHash is the hash of the request, if the request had an idempotency key.
	BodyHash string
	Away     []Away
}

// Failure is a callback attempt that failed.
type Failure struct {
	Node   string
	At     time.Time // by the shard's clock
	Reason string    // printable, without secrets
}

// IsZero reports whether no attempt failed.
func (f Failure) IsZero() bool { return f == Failure{} }

// ReadResult is a copy of a timer, with the times of the copy.
type ReadResult struct {
	Record Record
	Look   time.Time     // when somebody must next look at the copy
	LookIn time.Duration // from the answer to Look
	Due    time.Time     // when the next pop is due; Look, while a retry waits
	DueIn  time.Duration // from the answer to when the next pop is due, retry or not
	Leased bool          // a node is about to call back, or calling back
	Holder string        // the node that has the lease; "" without a lease
	Fired  bool          // the fence of the lease has passed: a callback may be under way
	Err    error
}

// PopDue is when the next pop is due by the shard's clock, retry or not.
func (r *ReadResult) PopDue() time.Time {
	if r.Look.IsZero() {
		return r.Due
	}
	return r.Look.Add(r.DueIn - r.LookIn)
}
