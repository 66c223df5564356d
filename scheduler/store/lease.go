package store

import (
	"time"

	"chronos/scheduler/timer"
)

// Lease is a node's claim on one timer of one shard.
type Lease struct {
	Shard     string
	Key       string
	Token     string // carries node, counter and when it was taken
	Partition int    // where on the shard it was found
	Found     Found  // as what it was found; the store's own business
}

// Found is a timer as a claim found it. Nothing changes it while the lease lasts,
// so the fence goes on from there without a look at the record.
type Found struct {
	ScoreMs             int64 // when someone had to look at it
	State               timer.State
	StartMs, IntervalMs int64 // of its grid
	FiringUntilMs       int64 // of an earlier state; 0 if none

	Tags string // that count here, in the store's own words; "" if none do
}

// ClaimRequest says what to claim.
type ClaimRequest struct {
	Horizon time.Duration // how far ahead of due
	Limit   int           // at most so many in all
	// MaxBytes bounds the records that are brought, about: each partition's last
	// one may pass its share.
	MaxBytes int
	Grace    time.Duration // the lease ends so long after the due time
	// Partitions are those that it is about, none twice; nil for all.
	Partitions []int
	// Neglected restricts it to what whoever else polls the partitions has left:
	// what is overdue by so long, retries after another node's failed attempt that
	// are due, and what a lease has ended on. 0 for no restriction; else Horizon
	// counts for nothing.
	Neglected time.Duration
	// KeepTombstones has tombstones stay whose life ended less than that ago.
	KeepTombstones time.Duration
	// LeaveOwnRetries leaves a retry to other nodes for 1 s, but not in the last
	// 0.5 s before the timer's next pop, when this node's attempt failed last.
	LeaveOwnRetries bool
}

// ClaimResult is what a claim got.
type ClaimResult struct {
	Claims []Claimed
	// More says that a bound was reached where more may be due.
	More bool
}

// Claimed is a leased timer.
type Claimed struct {
	Lease  Lease
	Record Record
	// DueIn is how long after the answer it is due; negative if overdue.
	DueIn time.Duration
	// Previous is the node whose lease had ended, "" if there was none.
	Previous string
	// Err says that the record can't be read: it can only be settled as dead.
	Err error
}

// Taken is the answer for one key of a Take.
type Taken struct {
	Status TakeStatus
	// Claimed is what was got; of what was not, but is there, the record's state.
	Claimed
	// Wait is how long the lease lasts or the due time is away.
	Wait time.Duration
	Err  error
}

// TakeStatus says what a take found.
type TakeStatus int

// What a take found.
const (
	TakeFailed  TakeStatus = iota // Err says why
	TakeGot                       // leased to this node
	TakeLeased                    // leased to another for Wait
	TakeWaiting                   // due in Wait
	TakeEnded                     // a tombstone
	TakeMissing                   // not there
)

// FenceTerms hold for all fences of a call.
type FenceTerms struct {
	Limit time.Duration // how long after the fence a callback may still start
	Hold  time.Duration // others may take over so long after the fence
}

// Fence asks for leave to call back.
type Fence struct {
	Lease Lease
	Pops  int // of the timer in all: an overdue recurring timer goes to its latest pop
	// Age is how long ago the fence was first asked for.
	Age time.Duration
}

// Fenced is the answer to a Fence.
type Fenced struct {
	Status FenceStatus
	// State is the timer's, with the attempt counted.
	State timer.State
	// Due is when the pop was due by the shard's clock, Late how long before the
	// fence that was.
	Due  time.Time
	Late time.Duration
	// Wait is how long before due the fence came (FenceEarly).
	Wait time.Duration
	Err  error
}

// FenceStatus says what a fence found.
type FenceStatus int

// What a fence found.
const (
	FenceFailed  FenceStatus = iota // Err says why
	FencePassed                     // call back now
	FenceEarly                      // due in Wait
	FenceLost                       // the lease is another's, or ended by a client's write
	FenceTooLate                    // executed more than Limit after it was first asked for
)

// Outcome is what became of a claim.
type Outcome int

// What became of a claim.
const (
	OutcomeRelease Outcome = iota // not called back: due again, Delay from now at the earliest
	OutcomeDone                   // no pop is left
	OutcomeNext                   // on to the next pop; one that is overdue is looked at Offset from now
	OutcomeAgain                  // the callback failed: again in Delay
	OutcomeDead                   // given up: to the dead letters with Reason
	OutcomeLetter                 // to the dead letters with Reason, and the lease stays: done follows
)

// String names the outcome as metrics and scripts do.
func (o Outcome) String() string {
	switch o {
	case OutcomeDone:
		return "done"
	case OutcomeNext:
		return "next"
	case OutcomeAgain:
		return "again"
	case OutcomeDead:
		return "dead"
	case OutcomeLetter:
		return "letter"
	case OutcomeRelease:
	}
	return "release"
}

// Settlement ends a lease.
type Settlement struct {
	Lease   Lease
	Outcome Outcome
	Delay   time.Duration
	Offset  time.Duration // how long after a pop, or a retry, this copy is looked at
	// Reason is why the callback failed, in a few printable words; "" if it
	// succeeded or was not tried.
	Reason string
	// Keep is how long the tombstone of OutcomeDone and OutcomeDead stays; 0 for
	// none. Untold are the copies that must hear of it before it may go.
	Keep   time.Duration
	Untold []Away
}

// Settled is the answer to a Settlement.
type Settled struct {
	// Accepted says that the lease still held and the outcome is written. Sent
	// again, a settlement that was accepted before is not.
	Accepted bool
	// Holder is the node that has the lease now, if one has; it may be this one,
	// by a later claim.
	Holder string
	Err    error
}

// KeyState names a state of a timer.
type KeyState struct {
	Key   string
	State timer.State

	// RankFrom is the rank from which on a copy of this very state, if it is a live
	// one, differs too; 0 if its rank doesn't matter.
	RankFrom int
}

// Difference is where a shard's copy differs from a state asked about.
type Difference struct {
	Index   int           // into the states asked about
	Missing bool          // the shard has no copy; the rest is zero
	State   timer.State   // the shard's
	Firing  time.Duration // how long its firing mark still lasts, 0 if it has none
}

// Survey is what waits on a shard.
type Survey struct {
	Pending    int64         // timers
	Tombstones int64         // of timers that are over, not yet buried
	Letters    int64         // dead letters
	Overdue    time.Duration // how long the one that waits longest should have been looked at
	First      [Partitions]First
}

// First is what has to be looked at first in a partition; its zero value says that nothing
// waits there.
type First struct {
	Key     string
	Look    time.Time     // by the shard's clock
	Overdue time.Duration // negative before
}
