package store

import (
	"cmp"
	"context"
	"strings"
	"time"

	"chronos/scheduler/timer"
)

// Listing lists timers, for resynchronisation and for operators.
type Listing interface {
	// View names the present and the coming placement of timers. Nodes that place timers alike have
	// the same view, and nodes that place timers differently have different views.
	View() string
	// Formerly is Rank as Rank was before the last change of where timers belong. Once all
	// copies are at their owners, Formerly is Rank.
	Formerly(key string) []string
	// List returns the live copies on a shard behind a place that q.Pick picks, in the order in which
	// somebody must look at the copies. List looks at about q.N copies of each partition. If the place is not later than q.Hot from now,
	// List returns the leased copies instead, at any place. The heads are in no order.
	List(ctx context.Context, shard string, q ListQuery) (ListPage, error)
	// Heads returns the copies of the given timers on a shard, in the order of the keys, whether or not
	// pick picks the copies. The head of a missing copy has only the key.
	Heads(ctx context.Context, shard string, keys []string, pick Pick) ([]Head, error)
}

// ListQuery asks for copies behind a place.
type ListQuery struct {
	After Place
	N     int           // of each partition, at least 1
	Hot   time.Duration // see Listing.List
	Pick  Pick
}

// ListPage is a page of the copies on a shard.
type ListPage struct {
	Heads []Head
	// The heads are complete up to Until, or to the end if Until is nil.
	Until  *Place
	Looked int // copies that were looked at
}

// Pick has the conditions by which a shard picks copies; empty for no condition. The zero value picks all live
// copies. A shard picks more than the destination asks for: Host may be any part of the URI.
type Pick struct {
	State     CopyState
	KeyPrefix string
	Text      string // a part of the key or of the URI
	Host      string // of the destination, in lower case
	Tag       string // a type
}

// CopyState is what a live copy waits for.
type CopyState string

// The states of live copies.
const (
	CopyWaiting  CopyState = "waiting"  // for a pop
	CopyLeased   CopyState = "leased"   // a node has the copy leased
	CopyRetrying CopyState = "retrying" // for a retry
)

// Brief is a live copy's timer without the opaque and without what says how to call back.
type Brief struct {
	Picked    bool // the copy meets the conditions
	URI       string
	Tags      []timer.Tag
	Interval  time.Duration
	RepeatFor time.Duration
}

// Place is a place in the order of timers: an instant in whole milliseconds, then the key. A
// place with an empty key is before all timers of the instant.
type Place struct {
	At  time.Time
	Key string
}

// Compare is negative if p is before o, zero if the places are the same.
func (p Place) Compare(o Place) int { return cmp.Or(p.At.Compare(o.At), strings.Compare(p.Key, o.Key)) }

// Head is a copy of a timer without the timer's content.
type Head struct {
	Key      string
	State    timer.State
	Rank, RF int
	Look     time.Time // when somebody must next look at the copy; of a leased copy the end of the lease
	Due      time.Time // when the next pop is due, retry or not
	Taken    time.Time // when the copy was leased; zero for no lease
	Bytes    int       // of the whole record
	Brief    *Brief    // nil for a copy that is not live
}

// Leased reports whether a node has the copy leased.
func (h *Head) Leased() bool { return !h.Taken.IsZero() }

// Place is the place of the copy behind another place: the due time; or, if the due time is over or a
// retry waits, the time to look at the copy; or, for a leased copy, the last place of the copies that
// could be leased at the time of the lease. A timer that is behind a place then never moves to before
// the place, whatever happens to the timer (docs/decisions/listing.md).
func (h *Head) Place(after Place, hot time.Duration) Place {
	due, leased := Place{At: h.Due, Key: h.Key}, h.Leased()
	switch {
	case due.Compare(after) > 0 && (leased || h.State.Attempt == 0 && !h.Due.After(h.Look)):
		return due
	case leased:
		return Place{At: h.Taken.Add(hot), Key: h.Key}
	}
	return Place{At: h.Look, Key: h.Key}
}
