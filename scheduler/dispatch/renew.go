package dispatch

import (
	"context"
	"slices"
	"sync"
	"time"

	"chronos/scheduler/awake"
	"chronos/scheduler/store"
)

// renewals are the callbacks of a shard whose fences are renewed as long as the callback lasts. A
// deliverer needs renewals if it can't take back a sent message, and has to wait for the result.
type renewals struct {
	mu    sync.Mutex
	under map[*claim]*renewal
}

// renewal is the renewal of one callback.
type renewal struct {
	bounded *fenceContext
	fenced  time.Duration // since boot, when the last fence that passed was asked for
}

func newRenewals() *renewals { return &renewals{under: make(map[*claim]*renewal)} }

// keep has the fence of c renewed until end is called.
func (r *renewals) keep(c *claim, bounded *fenceContext) (end func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.under[c] = &renewal{bounded: bounded, fenced: c.began}
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.under, c)
	}
}

// How often a fence is renewed within the limit: two of three renewals may fail.
const renewalsPerLimit = 4

// renew renews the fences until ctx ends.
func (l *lane) renew(ctx context.Context) {
	config := l.d.config
	for awake.Sleep(ctx, config.Limit/(2*renewalsPerLimit)) {
		now := config.SinceBoot()
		l.renewals.lengthen(now, config.Limit, l.d.slots)
		l.warnOfLost(l.renewals.endOverdue(now, config.Limit))
		var batches sync.WaitGroup
		for batch := range slices.Chunk(l.renewals.due(now, config.Limit/renewalsPerLimit), maxSettlements) {
			batches.Go(func() { l.renewFences(ctx, batch) })
		}
		batches.Wait()
	}
}

// endOverdue ends the callbacks whose fences could not be renewed within limit, and returns how many
// there were.
func (r *renewals) endOverdue(now, limit time.Duration) (ended int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for c, own := range r.under {
		if now-own.fenced >= limit {
			delete(r.under, c)
			own.bounded.end()
			ended++
		}
	}
	return ended
}

func (l *lane) warnOfLost(callbacks int) {
	if callbacks > 0 {
		l.shard.Log.Warn("callbacks under way have lost their leases: other nodes may call back too", "count", callbacks)
	}
}

// lengthen has callbacks with a time limit of their own count double once they have lasted for longer
// than limit.
func (r *renewals) lengthen(now, limit time.Duration, slots *slots) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for c, own := range r.under {
		if !c.long && now-c.began > limit && !own.bounded.deadline.IsZero() {
			slots.lengthen(c)
		}
	}
}

// due are the claims whose fence is as old as age, or older.
func (r *renewals) due(now, age time.Duration) (all []*claim) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for c, own := range r.under {
		if now-own.fenced >= age {
			all = append(all, c)
		}
	}
	return all
}

func (l *lane) renewFences(ctx context.Context, batch []*claim) {
	config := l.d.config
	now := config.SinceBoot()
	fences := make([]store.Fence, len(batch))
	for i, c := range batch {
		fences[i] = c.fence(0)
	}
	bounded, cancel := context.WithTimeout(ctx, config.Limit/renewalsPerLimit)
	defer cancel()
	began := l.shard.Answers.Begin()
	answers := l.d.store.Fire(bounded, l.shard.Name, config.Terms(), fences)
	l.shard.Answers.Heard(began, answers[0].Err)
	lost := 0
	for i, c := range batch {
		if l.renewals.renewed(c, now, config.Limit, &answers[i]) {
			continue
		}
		lost++
		l.shard.Log.Debug("callback under way has lost its lease", "timer", c.Lease.Key) // the record may be on the way to settlement
	}
	l.warnOfLost(lost)
}

// renewed takes the answer to a renewal, and reports whether the callback may go on. If a client's
// write has ended the lease, a callback with a time limit goes on to the limit: nobody else calls back
// for the version.
func (r *renewals) renewed(c *claim, now, limit time.Duration, answer *store.Fenced) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	own := r.under[c]
	switch {
	case own == nil: // the callback has ended meanwhile
		return true
	case answer.Status == store.FencePassed:
		own.fenced = now
		own.bounded.ends.Store(int64(now + limit))
		return true
	case answer.Status == store.FenceLost && answer.Free && !own.bounded.deadline.IsZero():
		delete(r.under, c)
		own.bounded.ends.Store(int64(now + time.Until(own.bounded.deadline)))
		return true
	case answer.Status != store.FenceLost && now-own.fenced < limit:
		return true
	}
	delete(r.under, c)
	own.bounded.end()
	return false
}

// last is the latest deadline of the callbacks under way; the zero time without deadlines.
func (r *renewals) last() (latest time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, own := range r.under {
		if own.bounded.deadline.After(latest) {
			latest = own.bounded.deadline
		}
	}
	return latest
}

func (r *renewals) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.under)
}
