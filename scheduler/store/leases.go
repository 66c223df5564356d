package store

import (
	"context"
	"time"

	"chronos/scheduler/timer"
)

// Leases are the right to fire, and the outcomes of callbacks.
type Leases interface {
	// Claim leases to this node up to Limit timers of a shard that are due within Horizon. Claim
	// removes tombstones whose life is over. But Claim leases a tombstone that names copies which
	// missed the end. Claim may return timers and an error, if a part of the shard has answered.
	Claim(ctx context.Context, shard string, req ClaimRequest) (ClaimResult, error)
	// Ask returns the given states that differ on the shard, or are firing on the shard, by index
	// into states, in rising order.
	Ask(ctx context.Context, shard string, states []KeyState) ([]Difference, error)
	// Fire is the fence: does the lease still hold, and is the timer due? Then the fence
	// counts the attempt and marks the timer as firing. Sent again with the same lease, the
	// fence renews the mark and does not count. A fence that the shard executes more than
	// Limit after the first request, Age ago, does nothing.
	Fire(ctx context.Context, shard string, terms FenceTerms, fences []Fence) []Fenced
	// Settle writes each outcome to the leased copy, if the lease still holds.
	Settle(ctx context.Context, shard string, settlements []Settlement) []Settled
}

// Lease is a node's claim on a timer of a shard.
type Lease struct {
	Shard     string
	Key       string
	Token     string // has the node, a counter and the time of the claim
	Partition int    // the timer's, on every shard
	Found     Found  // the copy at the time of the claim
}

// Found is a copy as a claim found the copy. Nobody changes the copy while the lease lasts, so
// the fence goes on from there and does not read the record.
type Found struct {
	ScoreMs             int64 // when somebody had to look at the copy
	State               timer.State
	StartMs, IntervalMs int64 // of the copy's grid
	FiringUntilMs       int64 // of an earlier state; 0 for no mark
	LeftOut             int   // pops of which no callback has told

	Tags string // that count on this shard, in the store's own form; "" for none
}

// ClaimRequest says what to claim.
type ClaimRequest struct {
	Horizon time.Duration // how far ahead of the due time
	Limit   int           // of timers, over all partitions
	// MaxBytes bounds the size of the records, roughly: the last record of each partition may
	// exceed the partition's share.
	MaxBytes int
	Grace    time.Duration // from the due time to the end of the lease
	// Partitions are the partitions to claim from, without repetition; nil for all.
	Partitions []int
	// Neglected restricts the claim to timers that another node, polling the same partitions, has
	// left: timers overdue by so long, due retries after another node's failed attempt, and
	// timers whose lease has ended. 0 for no restriction; otherwise Horizon does not count.
	Neglected time.Duration
	// KeepTombstones is how long tombstones are kept after the end of the life.
	KeepTombstones time.Duration
	// LeaveOwnRetries leaves a retry to other nodes for 1 s if this node's attempt failed
	// last, except in the last 0.5 s before the timer's next pop.
	LeaveOwnRetries bool
}

// ClaimResult is the result of a claim.
type ClaimResult struct {
	Claims []Claimed
	// More says that a bound was reached, and more timers may be due.
	More bool
	// PutOff counts the timers of a later format that no node able to read the format has claimed
	// in time.
	PutOff int
}

// Claimed is a leased timer.
type Claimed struct {
	Lease  Lease
	Record Record
	// DueIn is the time from the answer to when the timer is due; negative if overdue.
	DueIn time.Duration
	// Previous is the node whose lease had ended, "" for no earlier lease. PreviousFired says that the
	// fence of that lease had passed.
	Previous      string
	PreviousFired bool
	// Err says that the record can't be read: the timer can only be settled as dead.
	Err error
}

// FenceTerms hold for all fences of a call.
type FenceTerms struct {
	Limit time.Duration // from the fence to the last moment when a callback may start
	Hold  time.Duration // from the fence to when other nodes may take the timer over
	// CatchUp is how many overdue pops are called one after another; of more pops only the latest
	// is called. At least 1.
	CatchUp int
}

// Fence asks for leave to call back.
type Fence struct {
	Lease Lease
	Pops  int // of the timer in all
	// Age is how long ago the fence was first asked for.
	Age time.Duration
	// ExpiresAfter is how long after its due time a pop may be called back; 0 for no bound.
	ExpiresAfter time.Duration
}

// Fenced is the answer to a Fence.
type Fenced struct {
	Status FenceStatus
	// State is the timer's state, with the attempt counted if the fence has passed. LeftOut is how
	// many pops were left out since a callback told of some. Both, and Due and Late, are zero unless
	// the fence has passed or the pop has expired.
	State   timer.State
	LeftOut int
	// Due is when the pop was due by the shard's clock. Late is the time from Due to the
	// fence.
	Due  time.Time
	Late time.Duration
	// Wait is the time from the fence to when the pop is due (FenceEarly).
	Wait time.Duration
	// Free says that nobody has a lease (FenceLost): a client's write or an outcome has ended the lease.
	Free bool
	Err  error
}

// Counts reports whether the shard keeps the State and the LeftOut of the answer.
func (f *Fenced) Counts() bool { return f.Status == FencePassed || f.Status == FenceExpired }

// FenceStatus is the result of a fence.
type FenceStatus int

// The results of a fence.
const (
	FenceFailed  FenceStatus = iota // Err says why
	FencePassed                     // call back now
	FenceEarly                      // the pop is due in Wait
	FenceLost                       // another node has the lease, or a client's write ended the lease
	FenceExpired                    // the pop, and every overdue pop behind, may be called back no longer
	FenceTooLate                    // the fence was executed too late, or on a shard that has just lost data
)

// Outcome is how a claim ends.
type Outcome int

// How a claim ends.
const (
	OutcomeRelease Outcome = iota // not called back: due again, at the earliest Delay from now
	OutcomeDone                   // no pop is left
	OutcomeNext                   // the next pop follows; if overdue, somebody looks at the copy Offset from now
	OutcomeAgain                  // the callback failed: a retry follows in Delay
	OutcomeDead                   // given up: to the dead letters, with Reason
	OutcomeLetter                 // to the dead letters, with Reason; the lease stays, and done follows
)

// String names the outcome as metrics and scripts do.
func (o Outcome) String() string {
	return [...]string{
		OutcomeRelease: "release", OutcomeDone: "done", OutcomeNext: "next", OutcomeAgain: "again", OutcomeDead: "dead", OutcomeLetter: "letter",
	}[o]
}

// Settlement ends a lease.
type Settlement struct {
	Lease   Lease
	Outcome Outcome
	Delay   time.Duration
	Offset  time.Duration // from a pop or a retry to when somebody must look at this copy
	// Reason is why the callback failed, in a few printable words; "" if the callback
	// succeeded or was not tried.
	Reason string
	// Keep is how long the tombstone of OutcomeDone and OutcomeDead stays; 0 for no tombstone.
	// Untold are the copies that must hear of the end before the tombstone may go.
	Keep   time.Duration
	Untold []Away
	// Attempt goes into the log of deliveries once the lease has ended; nil for no entry.
	Attempt *Attempt
}

// Settled is the answer to a Settlement.
type Settled struct {
	// Accepted says that the lease still held and the outcome is written. An accepted settlement
	// is not accepted a second time.
	Accepted bool
	// Holder is the node that has the lease now, "" for no lease. The node that settles may be
	// the holder, by a later claim.
	Holder string
	Err    error
}

// KeyState names a state of a timer.
type KeyState struct {
	Key   string
	State timer.State

	// RankFrom is the lowest rank with which a live copy of the same state counts as different; 0
	// if the rank does not matter.
	RankFrom int
	// Better says that the asker leaves the pop to the shard's copy: a live copy counts as
	// different in any case.
	Better bool
}

// Difference is where a shard's copy differs from a state that was asked about.
type Difference struct {
	Index   int           // into the states that were asked about
	Missing bool          // the shard has no copy; the rest is zero
	Later   bool          // the copy has a later format; only the version is known
	State   timer.State   // of the shard's copy
	Firing  time.Duration // how long the firing mark of the copy still lasts, 0 for no mark
	// LookIn is the time until the copy is looked at: until the end of a lease, or until the
	// copy is due; 0 if that is over, and negative while nothing fires from the shard.
	LookIn time.Duration
}
