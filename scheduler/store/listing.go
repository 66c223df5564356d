package store

import (
	"cmp"
	"context"
	"strings"
	"time"

	"chronos/scheduler/timer"
)

// Listing is what it takes to tell which timers there are, for resynchronisation.
type Listing interface {
	// View names what decides where timers belong, now and soon: it is the same on
	// nodes that place timers alike, and another where they don't.
	View() string
	// Formerly is Rank as it was before where timers belong changed last; Rank, once
	// all copies are where they belong.
	Formerly(key string) []string
	// List tells of the next copies on a shard behind a place, in the order of when
	// they are looked at: some n of each partition; of leased ones instead, wherever
	// they are, if the place isn't later than hot from now. In no order; up to until it
	// is complete, to the end if that is nil.
	List(ctx context.Context, shard string, after Place, n int, hot time.Duration) (heads []Head, until *Place, err error)
	// Heads tells of the given timers' copies on a shard, in their order; of one that
	// isn't there, the key alone.
	Heads(ctx context.Context, shard string, keys []string) ([]Head, error)
}

// Place is one in the order of timers: an instant, in whole milliseconds, and at one
// instant by key. The one with an empty key is before all timers of its instant.
type Place struct {
	At  time.Time
	Key string
}

// Compare is negative if p is before o, zero if they are the same.
func (p Place) Compare(o Place) int { return cmp.Or(p.At.Compare(o.At), strings.Compare(p.Key, o.Key)) }

// Head is what a copy of a timer stands for, without what it says.
type Head struct {
	Key      string
	State    timer.State
	Rank, RF int
	Look     time.Time // when someone must next look at it; the end of its lease, if it is leased
	Due      time.Time // when its next pop is due, retry or not
	Taken    time.Time // when it was leased; zero if it isn't
	Bytes    int       // of the whole
}

// Place is where the copy stands behind a place: at its due time, or, if that is
// over, where it is looked at, or where all were that could be leased when it was. So
// whatever is done to a timer, it never comes to stand before a place that it was
// behind (docs/decisions/listing.md).
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
