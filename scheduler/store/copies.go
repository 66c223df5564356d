package store

import (
	"context"
	"time"

	"chronos/scheduler/timer"
)

// Copies are the timers as the shards have them.
type Copies interface {
	// Merge makes each copy what the write says, if the write is newer than the copy (rules
	// "order of states" and "merge keeps the firing mark"). Writes of many callers go to a
	// shard together.
	Merge(ctx context.Context, writes []Write) []Written
	// Tell is Merge for outcomes of callbacks and for repairs: Tell shares no connection with
	// clients' writes, and waits for none of them.
	Tell(ctx context.Context, shard string, writes []Write) []Written
	// Read returns copies as they are. The error of an item wraps timer.ErrNotFound if there
	// is no live copy; the record of a tombstone is returned with that error.
	Read(ctx context.Context, spots []Spot) []ReadResult
}

// Spot is the place of one copy of a timer.
type Spot struct{ Shard, Key string }

// Away is a shard that has missed the end of a timer and may have a copy of the timer.
type Away struct {
	Shard string
	Rank  int // of the copy
}

// WriteKind says what a Write makes of a copy.
type WriteKind string

// What a Write makes of a copy. Put, once, anew, gone, look and onto come from clients'
// requests; all others are outcomes and repairs, which come from nodes.
const (
	// WritePut is this state: a client's create or replace. A put is refused if a live timer
	// has another RF.
	WritePut WriteKind = "put"
	// WriteOnce is this state, unless a live timer or a body hash is there.
	WriteOnce WriteKind = "once"
	// WriteAnew is this state, unless a live timer or the same body hash is there. Without a
	// Timer the write is a tombstone.
	WriteAnew WriteKind = "anew"
	// WriteGone is a client's delete. On the same tombstone a second gone adds to the places
	// that have missed the end.
	WriteGone WriteKind = "gone"
	WriteBury WriteKind = "bury" // gone, on a copy that is there
	WriteLook WriteKind = "look" // no change: the answer says what is there
	WriteLive WriteKind = "live" // this state: adopt, restore
	// WriteOnto is this state on a live copy where no copy belongs. The rank of the copy
	// stays, and Offset is that of rank 0 (half a skew).
	WriteOnto WriteKind = "onto"
	// WriteDone is an outcome that leaves no pop. A done removes exactly its predecessor, and
	// leaves a tombstone on an older state and where no copy is.
	WriteDone WriteKind = "done"
	// WriteNext and WriteAgain are outcomes that leave a pop: the state goes on, the rest of
	// the copy stays. An earlier version is not changed, and a missing copy not made. A next
	// pop that is overdue is looked at Offset from now.
	WriteNext  WriteKind = "next"
	WriteAgain WriteKind = "again"
	// WriteLeave removes exactly this state, and WriteRank gives exactly this state another
	// rank. Both do nothing while a lease or a firing mark lasts.
	WriteLeave WriteKind = "leave"
	WriteRank  WriteKind = "rank"
	WriteDrop  WriteKind = "drop" // removes the same version, unless the version has gone on, and leaves nothing
)

// Write is a state that one copy becomes if the state is newer than the copy.
type Write struct {
	Kind  WriteKind
	Shard string
	Key   string
	State timer.State  // Ended follows the kind, except for leave
	Timer *timer.Timer // of put, once, anew, live and onto, and of rank for the interval
	RF    int          // at least 1
	Rank  int
	Away  []Away // of an end: the places that have missed the end, besides the places noted there
	// DueIn is how long until pop State.Seq is due (put, once, anew, live, onto), unless
	// Timer.At says when. Retry is how long until somebody must look at a copy that waits for
	// a retry (again; live, if State has an attempt; rank, if State has an attempt and Retry
	// is not 0; negative for at once).
	DueIn, Retry time.Duration
	Offset       time.Duration // from a pop to when somebody must look at the copy; Retry includes the offset
	// Life is how long the tombstone of an ended timer stays. Keep is how long a tombstone
	// with a body hash stays, if that is longer.
	Life, Keep time.Duration
	// BodyHash is the hash of a request with an idempotency key, or says which of several
	// messages with one key this is. The hash contains no space.
	BodyHash string
	// Failure is why the attempt before failed. A zero time stands for the shard's time.
	Failure Failure
	LeftOut int // as that of a Record
	// Token makes the write a leased write, which does nothing unless the lease holds (rule
	// "leased writes need the lease").
	Token string
}

// Written is the answer to a Write.
type Written struct {
	Status WriteStatus
	// New says that no copy was there.
	New bool
	// State is the state that is there now, or was removed. RF and BodyHash belong to the
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

// What a write did.
const (
	WriteFailed   WriteStatus = iota // Err says why
	WriteStored                      // the state is there now, or the copy is removed
	WriteSame                        // the state was there already: the write was sent twice
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
	// Start is when this copy was written, by its shard's clock. Pop n is due at
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

// ReadResult is one copy of a timer, with its times.
type ReadResult struct {
	Record Record
	Look   time.Time     // when somebody must next look at the copy
	LookIn time.Duration // from the answer to Look
	Due    time.Time     // when the next pop is due; Look, while a retry waits
	DueIn  time.Duration // from the answer to when the next pop is due, retry or not
	Leased bool          // a node is about to call back, or calling back
	Err    error
}
