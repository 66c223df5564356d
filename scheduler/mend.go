package scheduler

import (
	"context"
	"errors"
	"sync"
	"time"
)

// mending brings copies up to the newest of their timer after somebody has read
// it and found them uneven (rule "wait before repairing"). It waits, and reads
// them once more: a shard that has just lost its data has also lost the mark of a callback
// that may still start. Then only the missing copy tells of that callback.
type mending struct {
	mu      sync.Mutex
	pending []mend
	ready   chan struct{} // has a token when there is something pending
}

// mend is a timer whose copies were found uneven.
type mend struct {
	id    ID
	at    time.Time
	seen  map[*shard]State // zero where one was missing
	newer State
}

const (
	// mendDelay is longer than any callback that began before the first look may
	// still start.
	mendDelay = 3 * time.Second
	// quiet is how long before it is due a timer is left alone: what is about to fire,
	// or firing, tells its copies itself.
	quiet = 2 * time.Second
	// maxMends is how many may wait; what comes on top waits for the next who reads it.
	maxMends = 1000
)

func newMending() *mending { return &mending{ready: make(chan struct{}, 1)} }

// uneven reports whether a copy at home is older than the newest, or missing.
func uneven(found []finding, newest *finding) bool {
	for i := range found {
		if found[i].behind(newest.Record.State) {
			return true
		}
	}
	return false
}

// behind reports whether the copy should be brought up to a state: one that is
// there and older, or missing at home and not because the timer is over. What has ended
// where none belongs is not made anew: nobody would know of it.
func (f *finding) behind(state State) bool {
	switch {
	case f.there() && f.Record.State.Ended && !f.home:
		return false
	case f.there():
		return f.Record.State.Compare(state) < 0
	case errors.Is(f.Err, ErrNotFound):
		return f.home && !state.Ended
	}
	return false
}

func (m *mending) add(found []finding, newest *finding) {
	seen := make(map[*shard]State, len(found))
	for i := range found {
		if f := &found[i]; f.there() || errors.Is(f.Err, ErrNotFound) {
			seen[f.shard] = f.Record.State
		}
	}
	m.mu.Lock()
	if len(m.pending) < maxMends {
		m.pending = append(m.pending, mend{id: newest.Record.ID, at: time.Now().Add(mendDelay), seen: seen, newer: newest.Record.State})
	}
	m.mu.Unlock()
	select {
	case m.ready <- struct{}{}:
	default:
	}
}

// next waits for the mend that has waited long enough.
func (m *mending) next(ctx context.Context) (mend, bool) {
	for {
		m.mu.Lock()
		wait := time.Hour
		if len(m.pending) > 0 {
			first := m.pending[0]
			if wait = time.Until(first.at); wait <= 0 {
				m.pending = m.pending[1:]
				m.mu.Unlock()
				return first, true
			}
		}
		m.mu.Unlock()
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-m.ready:
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil {
			return mend{}, false
		}
	}
}

// mend brings up copies until ctx ends.
func (s *Scheduler) mend(ctx context.Context) {
	for {
		m, ok := s.mending.next(ctx)
		if !ok {
			return
		}
		bounded, cancel := context.WithTimeout(ctx, answerLimit)
		s.mendOne(bounded, m)
		cancel()
	}
}

// mendOne brings up those copies that are as they were found, if nobody is about
// to fire any: what a shard has lost meanwhile waits for another look.
func (s *Scheduler) mendOne(ctx context.Context, m mend) {
	found, newest := s.find(ctx, m.id)
	if newest == nil || newest.Record.State != m.newer || s.store.Writable() != nil {
		return
	}
	for i := range found {
		f := &found[i]
		if f.there() && !f.Record.State.Ended && (f.Leased || f.soon(s.config.Skew)) {
			return
		}
	}
	for i := range found {
		f := &found[i]
		if !f.home && !s.takes(m.id.Key, f.shard.name) {
			continue // the sweep may just have removed it
		}
		if was, looked := m.seen[f.shard]; looked && was == f.Record.State && f.behind(m.newer) {
			s.store.Tell(ctx, f.shard.name, []Write{s.copyOf(&newest.ReadResult, f.place)})
		}
	}
}

// soon reports whether the timer's first copy is due within the quiet.
func (f *finding) soon(skew Skew) bool {
	timer := &f.Record.Timer
	return f.LookIn-f.offset(skew.Of(timer.Interval, f.Record.ID.RF)) < quiet
}
