package storetest

import (
	"time"

	"chronos/scheduler"
)

// ChangeKind says what a Change makes of a copy.
type ChangeKind string

// What a Change makes of a copy.
const (
	Live ChangeKind = "live" // this state: create, replace, adopt, restore, an outcome that leaves a pop
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
	Timer scheduler.Timer // of Live
	RF    int
	Rank  int
	DueIn time.Duration // until pop State.Seq is due, if Timer.At doesn't say when
	Skew  time.Duration
	Life  time.Duration // of a tombstone
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
	ChangeLost     ChangeStatus = "lost" // the lease is gone
	ChangeNone     ChangeStatus = "none" // a token, and no timer
)

// Changed is the answer to a Change.
type Changed struct {
	Status ChangeStatus
	State  scheduler.State // what is there now, or was removed
	Firing time.Duration   // how long the firing mark still lasts
	DueMs  int64           // when a live copy's pop is due, without its rank's skew
}

func (e *entry) changed(status ChangeStatus, nowMs int64) Changed {
	c := Changed{Status: status, State: e.state}
	if end := e.markMs(nowMs); end > 0 {
		c.Firing = ms(end - nowMs)
	}
	if !e.state.Ended {
		c.DueMs = e.popMs(e.state.Seq)
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
