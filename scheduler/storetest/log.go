package storetest

import (
	"context"
	"slices"
	"time"

	"chronos/scheduler/store"
)

var _ store.LogStore = (*view)(nil)

// KeepDeliveries has each partition of each shard keep so many entries of the log of deliveries; 0 for no log.
func (m *Model) KeepDeliveries(entries int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.logs = entries
}

// note puts the attempt of an accepted settlement into the log.
func (s *shard) note(now time.Time, o *store.Settlement, most int) {
	if most == 0 || o.Attempt == nil || o.Outcome == store.OutcomeRelease || o.Outcome == store.OutcomeLetter {
		return
	}
	e := store.LogEntry{Place: store.LogPlace{Ms: uint64(now.UnixMilli()), Shard: s.name, Partition: PartitionOf(o.Lease.Key)}, Attempt: *o.Attempt} //nolint:gosec // clocks show no time before 1970
	e.Attempt.Due, e.Attempt.Started = e.Attempt.Due.Truncate(time.Millisecond).UTC(), e.Attempt.Started.Truncate(time.Millisecond).UTC()
	e.Attempt.Took = e.Attempt.Took.Truncate(time.Millisecond)
	same := func(other store.LogEntry) bool { return other.Place.Partition == e.Place.Partition }
	oldest, n := -1, 0
	for i, other := range s.log {
		if !same(other) {
			continue
		}
		if n++; oldest < 0 {
			oldest = i
		}
		if last := other.Place; last.Ms >= e.Place.Ms {
			e.Place.Ms, e.Place.Seq = last.Ms, last.Seq+1
		}
	}
	if s.log = append(s.log, e); n >= most {
		s.log = slices.Delete(s.log, oldest, oldest+1)
	}
}

// Log is store.LogStore's.
func (v *view) Log(ctx context.Context, name string, q store.LogQuery) (store.LogPage, error) {
	var pages [store.Partitions]store.LogPage
	err := v.m.call(ctx, v.node, "log", name, func(s *shard, _ time.Time) {
		for _, e := range slices.Backward(s.log) {
			at, page := e.Place, &pages[e.Place.Partition]
			switch {
			case q.Key != "" && at.Partition != PartitionOf(q.Key), q.After != nil && at.Compare(*q.After) <= 0:
				continue
			case !q.Since.IsZero() && at.Ms < uint64(q.Since.UnixMilli()): //nolint:gosec // clocks show no time before 1970
				continue
			case page.Looked == max(q.Look, 1):
				continue
			}
			if page.Looked++; page.Looked == max(q.Look, 1) {
				page.Until = &at
			}
			if q.Key == "" || q.Key == e.Attempt.Key {
				page.Entries = append(page.Entries, e)
			}
		}
	})
	if err != nil {
		return store.LogPage{}, err
	}
	return store.MergeLog(pages[:]), nil
}
