package store

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"chronos/scheduler/timer"
)

// Attempt is an attempt at a callback, as the log of deliveries keeps the attempt. Headers and bodies
// are no part of the log.
type Attempt struct {
	Key   string      // of the timer
	State timer.State // Seq is the pop; Attempt counts the attempts at the pop, this attempt included
	Node  string      // that made the attempt
	// Due is when the pop was due, and Started when the attempt began, by the clock of the shard with the
	// lease, in whole milliseconds. Took is how long the attempt lasted, in whole milliseconds.
	Due, Started time.Time
	Took         time.Duration
	OK           bool   // the receiver has taken the pop
	Result       string // the answer, or why the attempt failed: printable, without secrets
	Destination  string // scheme://host:port; "" if unknown
}

// LogEntry is an entry of the log on a shard.
type LogEntry struct {
	Place   LogPlace
	Attempt Attempt // zero if Err is not nil
	Err     error   // wraps ErrUnreadable, if something else is in the place of an attempt
}

// LogPlace is a place in the log of all shards. Ms is when the outcome was settled, in ms since 1970 by
// the shard's clock, and Seq tells apart the entries of a millisecond.
type LogPlace struct {
	Ms, Seq   uint64
	Shard     string
	Partition int
}

// Compare is negative if p comes before o: newer entries come first.
func (p LogPlace) Compare(o LogPlace) int {
	return cmp.Or(cmp.Compare(o.Ms, p.Ms), cmp.Compare(o.Seq, p.Seq), strings.Compare(p.Shard, o.Shard), cmp.Compare(p.Partition, o.Partition))
}

// LogQuery asks a shard for a part of the log.
type LogQuery struct {
	Key   string    // only attempts at the pops of a timer; "" for all timers
	After *LogPlace // only entries behind the place; nil for all
	Since time.Time // only entries that are not older; zero for all
	Look  int       // how many entries of a partition are looked at, at most and about; at least 1
}

// LogPage is a part of the log, the newest entry first.
type LogPage struct {
	Entries []LogEntry
	Looked  int // how many entries were looked at
	// Until is the last place up to which Entries are complete; nil at the end of the log.
	Until *LogPlace
}

// MergeLog merges parts of the log that began at the same place. Entries behind the place up to which
// all parts are complete are left out.
func MergeLog(pages []LogPage) (all LogPage) {
	for _, p := range pages {
		all.Entries, all.Looked = append(all.Entries, p.Entries...), all.Looked+p.Looked
		if p.Until != nil && (all.Until == nil || p.Until.Compare(*all.Until) < 0) {
			all.Until = p.Until
		}
	}
	slices.SortFunc(all.Entries, func(a, b LogEntry) int { return a.Place.Compare(b.Place) })
	if all.Until != nil {
		all.Entries = slices.DeleteFunc(all.Entries, func(e LogEntry) bool { return e.Place.Compare(*all.Until) > 0 })
	}
	return all
}

// LogStore keeps the log of deliveries: Settle writes the attempt of an accepted settlement on the shard
// of the lease, unless the outcome is release or letter. A shard keeps about the newest attempts of each
// partition, and drops an attempt that the shard can't write. All methods are safe for concurrent use.
type LogStore interface {
	// Log reads a part of a shard's log. The error wraps timer.ErrUnavailable.
	Log(ctx context.Context, shard string, q LogQuery) (LogPage, error)
}
