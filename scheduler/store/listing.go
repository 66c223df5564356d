package store

import (
	"cmp"
	"context"
	"strings"
	"time"

	"chronos/scheduler/timer"
)

// Listing lists timers, for resynchronisation.
type Listing interface {
	// View names the present and the coming placement of timers. Nodes that place timers alike have
	// the same view, and nodes that place timers differently have different views.
	View() string
	// Formerly is Rank as Rank was before the last change of where timers belong. Once all
	// copies are at their owners, Formerly is Rank.
	Formerly(key string) []string
	// List returns copies on a shard behind a place, in the order in which somebody must look
	// at the copies: about n of each partition. If the place is not later than hot from now,
	// List returns the leased copies instead, at any place. The heads are in no order. The heads
	// are complete up to until, or to the end if until is nil.
	List(ctx context.Context, shard string, after Place, n int, hot time.Duration) (heads []Head, until *Place, err error)
	// Heads returns the copies of the given timers on a shard, in the order of the keys. The
	// head of a missing copy has only the key.
	Heads(ctx context.Context, shard string, keys []string) ([]Head, error)
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
}

// Place is the place of the copy behind another place: the due time; or, if the due time is over,
// the time to look at the copy; or, for a leased copy, the last place of the copies that could
// be leased at the time of the lease. A timer that is behind a place then never moves to before
// the place, whatever happens to the timer (docs/decisions/listing.md).
func (h *Head) Place(after Place, hot time.Duration) Place {
	due, leased := Place{At: h.Due, Key: h.Key}, !h.Taken.IsZero()
	switch {
	case due.Compare(after) > 0 && (leased || !h.Due.After(h.Look)):
		return due
	case leased:
		return Place{At: h.Taken.Add(hot), Key: h.Key}
	}
	return Place{At: h.Look, Key: h.Key}
}
