package store

import (
	"context"
	"time"

	"chronos/scheduler/timer"
)

// Store keeps timers on shards that fail independently. All methods are safe for concurrent use.
// Most methods take many timers in a call, and answer item by item in the order of the request;
// the error of an item says nothing about the rest of the items. A method blocks until the store
// has answered or ctx has ended, and never for longer than about a second on a silent shard.
//
// The error of an item wraps timer.ErrUnavailable when the shard could not be reached, was
// too slow, or refused to write. The effect is then unknown, unless the method says
// otherwise. Every call is safe to send again.
//
// All times are of the shard's own clock. No instant crosses from machine to machine, except an
// instant given by a client.
type Store interface {
	Placement
	Copies
	Leases
	Membership
	Sweeping
	Listing
	Counting
	Marking
}

// Placement says where timers belong. The answers may change at any time. No method blocks.
type Placement interface {
	// Shards names the shards, in the order of the list.
	Shards() []string
	// Changed returns a channel that is closed once the shards differ from the shards at the
	// time of the call.
	Changed() <-chan struct{}
	// Writable is nil, or the reason why this node must not write and must not report a timer
	// as unknown: the node may have missed a change of where timers belong. The error wraps
	// timer.ErrUnavailable.
	Writable() error
	// Rank orders the shards that take timers for a key. The first copy, the primary,
	// belongs on the first shard, the backups on the next shards.
	Rank(key string) []string
	// Others are the further places where the first n copies of a timer may be while the
	// shards change: first the places where the copies will belong, then the places where
	// the copies belonged before. A shard may be named more than once.
	Others(key string, n int) []Other
	// HintOf is the filter that names the shard.
	HintOf(shard string) timer.Hint
	// Hinted returns the shards that the filter may mean.
	Hinted(hint timer.Hint) []string
	// NewKey makes a key that begins with prefix, for a timer whose client chose no key. A prefix has at
	// most 64 of the characters of keys. Timers with keys from successive calls may cost less.
	NewKey(prefix string) (string, error)
}

// Other is a place where a copy of a timer belonged before the shards changed, or will
// belong after the change.
type Other struct {
	Shard  string
	Rank   int  // of the copy
	Coming bool // a copy will belong there
}

// Membership says which nodes work on the shards, how much waits on the shards, and what operators
// have decided for all nodes.
type Membership interface {
	// Beat announces this node on the shard, and returns the announcements of all nodes.
	Beat(ctx context.Context, shard string, own Announcement) (Announced, error)
	// Told are the texts that the nodes have announced on the shard lately, by node. A node that has
	// announced no text for timing.StatusLife is gone.
	Told(ctx context.Context, shard string) (map[string]Told, error)
	// Leave withdraws the announcement.
	Leave(ctx context.Context, shard string) error
	// Decide has the shard keep decisions about destinations, and returns for each decision the
	// latest decision that the shard has about the destination. Beat returns the decisions to all
	// nodes. A zero Decision says that the shard has refused the decision: too many pauses are in
	// force, the shard has too many decisions, or the stamp is older than timing.DecisionLife or
	// more than timing.MaxClockAhead ahead.
	Decide(ctx context.Context, shard string, decisions []Decision) ([]Decision, error)
	// Survey counts what waits on the shard.
	Survey(ctx context.Context, shard string) (Survey, error)
}

// Announcement is what a node announces.
type Announcement struct {
	Clock  time.Time // of the node
	Lacks  []string  // the shards that the node does not reach, by name
	Format int       // the last format of stored timers that the node reads
	Guest  bool      // the node is of another site: the node is not among the nodes, and only the clock counts
	Text   string    // what the node tells of itself (package pulse); "" for nothing
}

// Told is the text that a node has announced.
type Told struct {
	Text string        // as package pulse has the text; anybody may have changed the text
	Ago  time.Duration // how long ago the node announced the text
}

// Announced is what the nodes have said on a shard.
type Announced struct {
	// Nodes are the nodes with an announcement in the last 3 s, this node included.
	Nodes []LiveNode
	// Fastest is the present time of the fastest clock. A clock more than timing.MaxClockAhead
	// ahead of this node's clock does not count. The clock of a node that is gone has stood
	// still since the node's last announcement.
	Fastest time.Time
	// Decisions are the decisions about destinations that the shard keeps, in no order.
	Decisions []Decision
}

// LiveNode is a node that works on a shard.
type LiveNode struct {
	Name   string
	Lacks  []string // the shards that the node does not reach, by name
	Format int      // the last format of stored timers that the node reads
}

// Survey is what waits on a shard.
type Survey struct {
	Pending    int64         // timers
	Tombstones int64         // not yet removed
	Letters    int64         // dead letters
	Due        int64         // copies that somebody should have looked at, and tombstones
	Overdue    time.Duration // of the copy that waits longest: since when somebody should have looked at the copy
	First      [Partitions]First
}

// First is the copy of a partition that somebody must look at first. The zero value says that
// nothing waits in the partition.
type First struct {
	Key     string
	Look    time.Time     // by the shard's clock
	Overdue time.Duration // negative before Look
}

// Counting is what the timers represent, by the tags of the timers, and how many timers there are. A
// timer counts on the shard of the live copy of rank 0, so a timer counts once, however many copies exist.
type Counting interface {
	// DueCounts counts copies and tombstones by when somebody must look at them, in buckets of equal
	// length from an instant on, by the shard's clock.
	DueCounts(ctx context.Context, shard string, from time.Time, step time.Duration, buckets int) ([]int64, error)
	// Sample looks at some random copies of each partition.
	Sample(ctx context.Context, shard string) (Sample, error)
	// Tags sums up the tags that count on the shard. If a partition has more than most types, Tags
	// may read only so many types, and then says so.
	Tags(ctx context.Context, shard string, most int) (TagSums, error)
	// Recount returns by how much sums of a partition differ from the timers, by type in the
	// store's own form. If a difference equals the difference before, from an earlier call, Recount
	// corrects the sum. Timers that are written during a count make differences that pass.
	Recount(ctx context.Context, shard string, partition int, before map[string]int64) (off map[string]int64, err error)
}

// Sample is what random copies say of all copies of a shard.
type Sample struct {
	Copies int64 // timers and tombstones on the shard
	Looked int   // copies that were looked at
	// Timers is about how many timers count on the shard: the copies, times the share of live copies of
	// rank 0.
	Timers float64
}

// TagSums are sums of tags, by type.
type TagSums struct {
	ByType map[string]int64 // each at least 1
	// Partial says that more types exist than were to be read: types are missing, and sums may
	// be too small.
	Partial bool
}

// Partitions is how many groups the timers of a shard fall into, by key.
const Partitions = 16
