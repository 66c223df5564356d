package dispatch

import (
	"context"
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
	interval := l.d.config.Limit / (2 * renewalsPerLimit)
	for awake.Sleep(ctx, interval) {
		now := l.d.config.SinceBoot()
		due := l.renewals.due(now, l.d.config.Limit/renewalsPerLimit)
		for len(due) > 0 {
			n := min(len(due), maxSettlements)
			l.renewFences(ctx, now, due[:n])
			due = due[n:]
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

func (l *lane) renewFences(ctx context.Context, now time.Duration, batch []*claim) {
	config := l.d.config
	fences := make([]store.Fence, len(batch))
	for i, c := range batch {
		fences[i] = store.Fence{Lease: c.Lease, Pops: c.pops(), Age: config.SinceBoot() - now}
	}
	bounded, cancel := context.WithTimeout(ctx, config.Limit/renewalsPerLimit)
	defer cancel()
	began := l.shard.Answers.Begin()
	answers := l.d.store.Fire(bounded, l.shard.Name, config.Terms(), fences)
	l.shard.Answers.Heard(began, answers[0].Err)
	lost := 0
	for i, c := range batch {
		if l.renewals.renewed(c, now, config.Limit, answers[i].Status) {
			continue
		}
		lost++
		l.shard.Log.Debug("callback under way has lost its lease", "timer", c.Lease.Key) // the record may be on the way to settlement
	}
	if lost > 0 {
		l.shard.Log.Warn("callbacks under way have lost their leases: other nodes may call back too", "count", lost)
	}
}

// renewed takes the answer to a renewal, and reports whether the callback may go on.
func (r *renewals) renewed(c *claim, now, limit time.Duration, status store.FenceStatus) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	own := r.under[c]
	switch {
	case own == nil: // the callback has ended meanwhile
		return true
	case status == store.FencePassed:
		own.fenced = now
		own.bounded.ends.Store(int64(now + limit))
		return true
	case status != store.FenceLost && now-own.fenced < limit:
		return true
	}
	delete(r.under, c)
	own.bounded.end()
	return false
}

func (r *renewals) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.under)
}
