package scheduler

import (
	"context"
	"time"
)

// Store keeps timers on shards that fail independently of each other. All
// methods are safe for concurrent use, take many timers a call, and answer item
// by item in the order of the request: one item's error says nothing about the
// others. They block until the store has answered or ctx has ended, and never
// longer than a second or so for a silent shard.
//
// Errors of items wrap ErrUnavailable when the shard could not be reached, was
// too slow, or refused to write: the effect is then unknown unless the method
// says otherwise. Every call is safe to send again.
//
// The clock of all times is the shard's own; instants never cross from one
// machine to another except where a client gave one.
type Store interface {
	// Shards names the parts that fail independently, in list order.
	Shards() []string

	// NewKey makes a key for a timer whose client chose none. Timers with keys that
	// were made one after another may cost less.
	NewKey() (string, error)

	// Merge makes the copies of each timer what the write says, if that is newer
	// than what is there (rules P1 and P2), on every shard where copies belong.
	Merge(ctx context.Context, writes []Write) []Written
	// Read returns the newest copy of each timer. An item's error wraps
	// ErrNotFound if no shard has a live one; of a tombstone it has the state.
	Read(ctx context.Context, ids []ID) []ReadResult

	// Claim leases to this node up to Limit timers of one shard that are due
	// within Horizon, and buries tombstones whose life has ended. It may bring
	// claims and an error, where only a part of the shard answered.
	Claim(ctx context.Context, shard string, req ClaimRequest) (ClaimResult, error)
	// Take leases the named timers if they are due and unleased.
	Take(ctx context.Context, shard string, grace time.Duration, keys []string) []Taken
	// Fire is the fence: still this lease, and due? Then it counts the attempt
	// and marks the timer as firing. Sent again with the same lease it renews
	// the mark and does not count. A fence that the shard executes more than
	// Limit after it was first asked for, Age ago, does nothing.
	Fire(ctx context.Context, shard string, terms FenceTerms, fences []Fence) []Fenced
	// Settle writes each outcome to the leased copy, if the lease still holds.
	Settle(ctx context.Context, shard string, settlements []Settlement) []Settled
	// Ask returns those of the given states that differ on the shard or are
	// firing there, by index into states, in rising order.
	Ask(ctx context.Context, shard string, states []KeyState) ([]Difference, error)

	// Beat announces this node on the shard and returns the nodes that
	// announced themselves there within the last 3 s, this one among them.
	Beat(ctx context.Context, shard string) (nodes []string, err error)
	// Leave withdraws the announcement.
	Leave(ctx context.Context, shard string) error
	// Survey counts what waits on the shard.
	Survey(ctx context.Context, shard string) (Survey, error)
}

// Partitions is how many groups a shard's timers fall into, by their keys.
const Partitions = 16

// Write is a state that copies shall become if it is newer than theirs.
type Write struct {
	ID      ID // the hint widens where the write goes; the rf, at least 1, says to how many shards
	Version Version
	// Timer is the new specification, nil to end the timer.
	Timer *Timer
	// Skew is how long each further copy waits for the one before it.
	Skew time.Duration
	// Life is how long the tombstone of an ended timer stays; Keep how long that
	// of one with a body hash does, if that is longer.
	Life, Keep time.Duration
	// BodyHash makes the write a create that happens once: where a live timer or a
	// body hash is, it does nothing (WriteExists). It has no space.
	BodyHash string
}

// Written is the answer to a Write.
type Written struct {
	Status WriteStatus
	// ID is valid from now on; its hint may differ from the one given. With
	// WriteFactor and WriteExists its RF is that of the timer that is there.
	ID ID
	// State is what is there now, BodyHash the hash that is kept with it.
	State    State
	BodyHash string
	// Due is when the next pop is due, by the clock of the primary's shard.
	Due time.Time
	// Wait is how long after the answer that is; negative if it is overdue.
	Wait time.Duration
	// Shard is the primary's, Partition where the timer is on every shard.
	Shard     string
	Partition int
	// Copies is how many shards hold the state; Unreached how many could not be told.
	Copies, Unreached int
	// InFlight says that a callback of an earlier state may still start, at most
	// 2 s after the answer.
	InFlight bool
	Err      error
}

// WriteStatus says what a merge did.
type WriteStatus int

// What a merge did.
const (
	WriteFailed   WriteStatus = iota // Err says why
	WriteStored                      // it is there now
	WriteSame                        // it was there already: the write was sent twice
	WriteNewer                       // State is there, which is newer: nothing was written
	WriteConflict                    // State is the same but says something else: nothing was written
	WriteFactor                      // a live timer with another replication factor is there: nothing was written
	WriteExists                      // a live timer, or BodyHash of one that was, is there: nothing was written
)

// Record is one copy of a timer.
type Record struct {
	ID    ID
	State State
	Timer Timer
	Rank  int    // 0 is the primary
	Site  string // home site, "" if there are none
	// Start is when this copy was written, by its shard's clock; pop n is due at
	// Start + n·Interval.
	Start time.Time
	// Failure is why the callback attempt before failed, at this pop or at the one
	// before; zero if it succeeded.
	Failure Failure
	// BodyHash is that of the request, if it had an idempotency key.
	BodyHash string
}

// Failure is a callback attempt that failed.
type Failure struct {
	Node   string
	At     time.Time // by the shard's clock
	Reason string    // printable, without secrets
}

// IsZero reports whether nothing failed.
func (f Failure) IsZero() bool { return f == Failure{} }

// ReadResult is the newest copy of one timer and how it stands.
type ReadResult struct {
	Record Record
	Look   time.Time // when someone must next look at it
	Due    time.Time // when its next pop is due; Look, while a retry waits
	Leased bool      // a node is about to fire it, or firing it
	Err    error
}

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
	State               State
	StartMs, IntervalMs int64 // of its grid
	FiringUntilMs       int64 // of an earlier state; 0 if none
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
	// LeaveOwnRetries leaves a retry to other nodes for 1 s when this node's
	// attempt failed last.
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
	State State
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
	OutcomeNext                   // on to the next pop
	OutcomeAgain                  // the callback failed: again in Delay, or on to the next pop if that comes first
	OutcomeDead                   // given up: to the dead letters with Reason
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
	case OutcomeRelease:
	}
	return "release"
}

// Settlement ends a lease.
type Settlement struct {
	Lease   Lease
	Outcome Outcome
	Delay   time.Duration
	Pops    int           // of the timer in all
	Skew    time.Duration // of its copies, for the next pop
	// Reason is why the callback failed, in a few printable words; "" if it
	// succeeded or was not tried.
	Reason string
	// Keep is how long the tombstone of OutcomeDone and OutcomeDead stays; 0 for
	// none.
	Keep time.Duration
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
	State State
}

// Difference is where a shard's copy differs from a state asked about.
type Difference struct {
	Index   int           // into the states asked about
	Missing bool          // the shard has no copy; the rest is zero
	State   State         // the shard's
	Firing  time.Duration // how long its firing mark still lasts, 0 if it has none
}

// Survey is what waits on a shard.
type Survey struct {
	Pending int64         // timers, and tombstones not yet buried
	Overdue time.Duration // how long the one that waits longest should have been looked at
}
