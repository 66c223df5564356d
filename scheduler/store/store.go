package store

import (
	"context"
	"time"

	"chronos/scheduler/timer"
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
	Placement
	Copies
	Leases
	Membership
	Sweeping
	Listing
	Counting
}

// Placement says where timers belong. It may change; its methods block on nothing.
type Placement interface {
	// Shards names the parts that fail independently, in list order.
	Shards() []string
	// Changed is closed when they are not what they were when it was called.
	Changed() <-chan struct{}
	// Writable is nil, or why this node must not write, nor say that a timer is unknown: where
	// timers belong may have changed without its knowing. Its error wraps ErrUnavailable.
	Writable() error
	// Rank orders the shards that take timers for one: its first copy, the primary,
	// belongs on the first, its backups on those that follow.
	Rank(key string) []string
	// Others are where else the first n copies of a timer may be, while the shards
	// that take timers change: where they are about to belong, and then where they did
	// before. A shard may be named more than once.
	Others(key string, n int) []Other
	// HintOf is the filter that names the shard.
	HintOf(shard string) timer.Hint
	// Hinted returns the shards that the filter may mean.
	Hinted(hint timer.Hint) []string
	// NewKey makes a key for a timer whose client chose none. Timers with keys that
	// were made one after another may cost less.
	NewKey() (string, error)
}

// Other is where a copy of a timer belonged before the shards changed, or soon will.
type Other struct {
	Shard  string
	Rank   int  // of the copy
	Coming bool // it soon will
}

// Copies are the timers as they are on the shards.
type Copies interface {
	// Merge makes each copy what the write says, if that is newer than what is
	// there (rules "order of states" and "merge keeps the firing mark"). Writes of many callers go to a shard together.
	Merge(ctx context.Context, writes []Write) []Written
	// Tell is Merge for what firing has to say: it shares no connection with
	// clients' writes and waits for none of them.
	Tell(ctx context.Context, shard string, writes []Write) []Written
	// Read returns copies as they are. An item's error wraps ErrNotFound if there is
	// no live one; of a tombstone it has the record.
	Read(ctx context.Context, spots []Spot) []ReadResult
}

// Leases are the right to fire, and what comes of it.
type Leases interface {
	// Claim leases to this node up to Limit timers of one shard that are due
	// within Horizon, and buries tombstones whose life has ended, but leases those
	// that name copies away. It may bring claims and an error, where only a part of
	// the shard answered.
	Claim(ctx context.Context, shard string, req ClaimRequest) (ClaimResult, error)
	// Take leases the named timers if they are due and unleased.
	Take(ctx context.Context, shard string, grace time.Duration, keys []string) []Taken
	// Ask returns those of the given states that differ on the shard or are
	// firing there, by index into states, in rising order.
	Ask(ctx context.Context, shard string, states []KeyState) ([]Difference, error)
	// Fire is the fence: still this lease, and due? Then it counts the attempt
	// and marks the timer as firing. Sent again with the same lease it renews
	// the mark and does not count. A fence that the shard executes more than
	// Limit after it was first asked for, Age ago, does nothing.
	Fire(ctx context.Context, shard string, terms FenceTerms, fences []Fence) []Fenced
	// Settle writes each outcome to the leased copy, if the lease still holds.
	Settle(ctx context.Context, shard string, settlements []Settlement) []Settled
}

// Sweeping is what it takes to bring copies where they belong.
type Sweeping interface {
	// Epoch is that of the topology for which a shard is to be swept, since where timers
	// belong changed, or it was given up; 0 for none. It isn't steady while another change is about to come, or while this node
	// may have missed one: nothing must be swept then.
	Epoch(shard string) (epoch int64, steady bool)
	// Scan lists some n of the timers that a partition of a shard has, live or ended,
	// from a cursor on: "" for the begin, and next is "" at the end. What is there
	// throughout is listed once at least.
	Scan(ctx context.Context, shard string, partition int, cursor string, n int) (keys []string, next string, err error)
	// Swept says how far the sweep of a shard is.
	Swept(ctx context.Context, shard string) (SweepState, error)
	// MarkSwept notes a partition. When all are swept that were to be, the shard misses
	// nothing any more.
	MarkSwept(ctx context.Context, shard string, partition int, mark SweepMark) error
	// WantSweep has all of a shard swept again: it, or another one, may lack copies. Missed
	// is how long ago it began to miss what it was to be told; 0 if it has been there all the time.
	WantSweep(ctx context.Context, shard string, missed time.Duration) error
	// Forget has where timers belonged before no longer count, if all shards have been
	// swept for this epoch, and it is the present one. It does nothing otherwise.
	Forget(ctx context.Context, epoch int64) error
	// Lost reports whether a shard is given up, since it was away for too long: no timer
	// belongs there. It blocks on nothing.
	Lost(shard string) bool
	// Lose gives a shard up, unless somebody else has: it is drained. Lose may do nothing,
	// while something else comes first.
	Lose(ctx context.Context, shard string) error
	// Regain has a shard that was given up join again, once it is swept. It may do nothing,
	// as Lose.
	Regain(ctx context.Context, shard string) error
}

// SweepMark says for what a partition has been swept.
type SweepMark struct {
	Epoch int64
	AtMs  int64 // when that began, by the shard's clock
}

// SweepState is how far the sweep of a shard is.
type SweepState struct {
	Marks    [Partitions]SweepMark
	NowMs    int64         // by the shard's clock, as all here
	WantedMs int64         // when it was wanted last; 0 if it never was
	Missed   time.Duration // how long ago the shard began to miss what nobody has told it since; 0 if it lacks nothing
	// Restarted says that it may have lost what it was told last, or all, and that nobody
	// has wanted it swept since.
	Restarted bool
}

// Done reports whether a partition is swept for an epoch, and since it was wanted.
func (s *SweepState) Done(partition int, epoch int64) bool {
	mark := s.Marks[partition]
	return mark.Epoch >= epoch && mark.AtMs >= s.WantedMs
}

// Membership is who works on the shards, and how much waits there.
type Membership interface {
	// Beat announces this node, and what its clock shows, on the shard. It returns the
	// nodes that announced themselves there within the last 3 s, this one among them,
	// and what the fastest clock shows now of all that were announced and are not more
	// than MaxClockAhead ahead of this one; that of a node that is gone has stood still
	// since it was.
	Beat(ctx context.Context, shard string, clock time.Time) (nodes []string, fastest time.Time, err error)
	// Leave withdraws the announcement.
	Leave(ctx context.Context, shard string) error
	// Survey counts what waits on the shard.
	Survey(ctx context.Context, shard string) (Survey, error)
}

// Counting is what the timers represent, as their tags say it. A timer counts where
// its live copy of rank 0 is, so once whatever its copies.
type Counting interface {
	// Tags sums up the tags that count on the shard. Of a partition with more than
	// most types it may read that many alone, and then says so.
	Tags(ctx context.Context, shard string, most int) (TagSums, error)
	// Recount has the sums of a partition made from its timers anew where they differ,
	// and reports whether they are right: not if it was written to all the while.
	Recount(ctx context.Context, shard string, partition int) (right bool, err error)
}

// TagSums are sums of tags, by type.
type TagSums struct {
	ByType map[string]int64 // each at least 1
	// Partial says that there are more types than were to be read: some are missing,
	// and sums may be too small.
	Partial bool
}

// Partitions is how many groups a shard's timers fall into, by their keys.
const Partitions = 16

// Spot is where a copy of a timer is.
type Spot struct{ Shard, Key string }

// Away is a shard that could not be told of the end of a timer of which it may have a copy.
type Away struct {
	Shard string
	Rank  int // of the copy
}

// WriteKind says what a Write makes of a copy.
type WriteKind string

// What a Write makes of a copy. All but put, once, anew, gone, look and onto are outcomes
// and repairs: they come from nodes, not from clients.
const (
	// WritePut is this state: a client's create or replace; refused if a live timer has
	// another RF.
	WritePut  WriteKind = "put"
	WriteOnce WriteKind = "once" // this state, unless a live timer or a body hash is there
	// WriteAnew is this state, unless a live timer or the same body hash is there; without
	// a Timer it is a tombstone.
	WriteAnew WriteKind = "anew"
	// WriteGone is a client's delete. Where its tombstone is there already, it adds to the
	// places that have not heard of the end.
	WriteGone WriteKind = "gone"
	WriteBury WriteKind = "bury" // gone, onto a copy that is there
	WriteLook WriteKind = "look" // nothing: the answer says what is there
	WriteLive WriteKind = "live" // this state: adopt, restore
	// WriteOnto is this state onto a live copy where none belongs: the copy's rank
	// stays, and Offset is that of rank 0 (half a skew).
	WriteOnto WriteKind = "onto"
	// WriteDone is an outcome that leaves no pop: it removes exactly its predecessor,
	// and leaves a tombstone on what is older and on nothing.
	WriteDone WriteKind = "done"
	// WriteNext and WriteAgain are outcomes that leave a pop: the state goes on, the
	// rest is as it was. What is of an earlier version, or missing, stays so. A next pop
	// that is overdue is looked at Offset from now.
	WriteNext  WriteKind = "next"
	WriteAgain WriteKind = "again"
	// WriteLeave removes exactly this state, and WriteRank gives exactly this state
	// another rank: both do nothing where a lease or a mark lasts.
	WriteLeave WriteKind = "leave"
	WriteRank  WriteKind = "rank"
	WriteDrop  WriteKind = "drop" // removes the same version if that isn't further on, and leaves nothing
)

// Write is a state that one copy shall become if it is newer than what is there.
type Write struct {
	Kind  WriteKind
	Shard string
	Key   string
	State timer.State  // Ended follows the kind, but of leave
	Timer *timer.Timer // of put, once, anew, live and onto, and of rank for its interval
	RF    int          // at least 1
	Rank  int
	Away  []Away // of an end: the places that have not heard, besides those that are noted there
	// DueIn is how long until pop State.Seq is due (put, once, anew, live, onto), if Timer.At
	// doesn't say when; Retry how long until someone must look at a copy that waits
	// for a retry (again; live, if State has an attempt; rank, if it isn't 0 and State has
	// an attempt, negative for at once).
	DueIn, Retry time.Duration
	Offset       time.Duration // how long after its pops the copy is looked at; Retry has it in it
	// Life is how long the tombstone of an ended timer stays; Keep how long that
	// of one with a body hash does, if that is longer.
	Life, Keep time.Duration
	// BodyHash is that of a request with an idempotency key, or says which of several
	// with the same key it is. It has no space.
	BodyHash string
	// Failure is why the attempt before failed; its time is the shard's if it is zero.
	Failure Failure
	// Token makes it a leased write, which does nothing unless the lease holds (rule
	// "leased writes need the lease").
	Token string
}

// Written is the answer to a Write.
type Written struct {
	Status WriteStatus
	// New says that nothing was there.
	New bool
	// State is what is there now, or was removed; RF and BodyHash are kept with it.
	State    timer.State
	RF       int
	BodyHash string
	// Due is when the copy's next pop is due by the shard's clock, without its rank's
	// skew; Wait how long after the answer that is, negative if it is overdue.
	Due  time.Time
	Wait time.Duration
	// Partition is where the timer is, on every shard.
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
	WriteStored                      // it is there now, or what was to be removed is
	WriteSame                        // it was there already: the write was sent twice
	WriteNewer                       // State is there, which is newer: nothing was written
	WriteConflict                    // State is the same but says something else: nothing was written
	WriteFactor                      // a live timer with another replication factor is there: nothing was written
	WriteExists                      // a live timer, or BodyHash of one that was, is there: nothing was written
	WriteLeased                      // a lease or a mark lasts: nothing was written
	WriteLost                        // the lease is gone: nothing was written
	WriteNone                        // nothing is there that it could go on from: nothing was written
	WriteOlder                       // State is there, of an earlier version that it can't go on from: nothing was written
)

// Record is one copy of a timer.
type Record struct {
	ID    timer.ID
	State timer.State
	Timer timer.Timer
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
	Away     []Away
}

// Failure is a callback attempt that failed.
type Failure struct {
	Node   string
	At     time.Time // by the shard's clock
	Reason string    // printable, without secrets
}

// IsZero reports whether nothing failed.
func (f Failure) IsZero() bool { return f == Failure{} }

// ReadResult is one copy of a timer and how it stands.
type ReadResult struct {
	Record Record
	Look   time.Time     // when someone must next look at it
	LookIn time.Duration // how long after the answer that is
	Due    time.Time     // when its next pop is due; Look, while a retry waits
	DueIn  time.Duration // how long after the answer its next pop is due, retry or not
	Leased bool          // a node is about to fire it, or firing it
	Err    error
}
