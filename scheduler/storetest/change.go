package storetest

import (
	"time"

	"chronos/scheduler"
)

// ChangeKind says what a Change makes of a copy.
type ChangeKind string

// What a Change makes of a copy.
const (
	Put  ChangeKind = "put"  // this state: a client's create or replace, refused if a live timer has another RF
	Once ChangeKind = "once" // this state, unless a copy with a body hash is there, live or ended
	Live ChangeKind = "live" // this state: adopt, restore, an outcome that leaves a pop
	Gone ChangeKind = "gone" // a client's delete
	// Done is an outcome that leaves no pop: it removes exactly its predecessor,
	// and leaves a tombstone on what is older and on nothing.
	Done ChangeKind = "done"
)

// Change is one item of the merge script: what one shard's copy shall become if
// that is newer. It says more than a [scheduler.Write] can.
type Change struct {
	Kind  ChangeKind
	Key   string
	State scheduler.State // Ended follows the kind
	Timer scheduler.Timer // of Put, Once and Live
	RF    int
	Rank  int
	DueIn time.Duration // until pop State.Seq is due, if Timer.At doesn't say when
	Skew  time.Duration
	Life  time.Duration // of a tombstone
	Keep  time.Duration // of one with a body hash, if that is longer
	// BodyHash is of a request with an idempotency key.
	BodyHash string
	// Token makes it a leased write: it does nothing unless this lease holds.
	Token string
}

// ChangeStatus says what became of a Change.
type ChangeStatus string

// What became of a Change.
const (
	ChangeStored   ChangeStatus = "stored"
	ChangeSame     ChangeStatus = "same"
	ChangeNewer    ChangeStatus = "newer"
	ChangeConflict ChangeStatus = "conflict"
	ChangeFactor   ChangeStatus = "factor" // Put, and a live timer with another RF
	ChangeExists   ChangeStatus = "exists" // Once, and a copy with a body hash
	ChangeLost     ChangeStatus = "lost"   // the lease is gone
	ChangeNone     ChangeStatus = "none"   // a token, and no timer
)

// Changed is the answer to a Change.
type Changed struct {
	Status ChangeStatus
	State  scheduler.State // what is there now, or was removed
	Firing time.Duration   // how long the firing mark still lasts
	DueMs  int64           // when a copy's pop is due, or was, without its rank's skew
	RF     int             // of what is there
	// BodyHash is what is kept with it.
	BodyHash string
}

func (e *entry) changed(status ChangeStatus, nowMs int64) Changed {
	c := Changed{Status: status, State: e.state, DueMs: e.popMs(e.state.Seq), RF: e.rf, BodyHash: e.bodyHash}
	if end := e.markMs(nowMs); end > 0 {
		c.Firing = ms(end - nowMs)
	}
	return c
}

// DeadLetter is a timer that was given up.
type DeadLetter struct {
	At     time.Time
	Key    string
	Reason string
	State  scheduler.State
}
