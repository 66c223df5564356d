package scheduler

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// shard is the engine's work on one shard. One shard's polls, fences and
// settlements never wait for another's; what they share are the slots.
type shard struct {
	s    *Scheduler
	name string
	log  *slog.Logger

	credit      *credit
	fences      *queue[*claim]
	settlements *queue[*claim]

	othersLive atomic.Bool  // other nodes announced themselves lately
	health     atomic.Int32 // what the last claim said of the shard

	pokes  chan struct{} // has a token when wanted was brought forward
	mu     sync.Mutex    // guards wanted
	wanted time.Time     // when something is due that the next regular poll might miss; zero for nothing
}

// What is known of a shard's health.
const (
	healthUnknown int32 = iota
	healthUp
	healthSilent
)

// maxClaimBytes is what one claim may bring: more might take longer than the
// shard may keep silent, and then for ever.
const maxClaimBytes = 8 << 20

func newShard(s *Scheduler, name string) *shard {
	return &shard{
		s: s, name: name, log: s.log.With("shard", name),
		// Room for those that wait for a slot beside those that have one.
		credit: newCredit(s.config.Slots + s.config.Slots/8),
		fences: newQueue[*claim](), settlements: newQueue[*claim](), pokes: make(chan struct{}, 1),
	}
}

// pokeLead is how long before due a poked poll begins.
const pokeLead = 20 * time.Millisecond

func (sh *shard) poke(due time.Duration) {
	at := time.Now().Add(due - pokeLead)
	sh.mu.Lock()
	earlier := sh.wanted.IsZero() || at.Before(sh.wanted)
	if earlier {
		sh.wanted = at
	}
	sh.mu.Unlock()
	if earlier {
		select {
		case sh.pokes <- struct{}{}:
		default:
		}
	}
}

// part is the share of a shard's timers that one poll looks at.
type part struct{ index, of int }

// pollParts is how many polls go over a shard in one interval: a few claims at a
// time keep what else the shard is asked from waiting behind many.
const pollParts = 4

func wholeShard() part { return part{of: 1} }

// poll claims what is due, a part of the shard at a time, until ctx ends. When
// there is more than one poll could take, or something was poked for, it looks at
// the whole shard.
func (sh *shard) poll(ctx context.Context) {
	next, p := 0, wholeShard()
	for ctx.Err() == nil {
		more := sh.pollOnce(ctx, p)
		if more && !sh.credit.scarce() {
			p = wholeShard()
			continue
		}
		if sh.pause(ctx, more) {
			p, next = part{index: next, of: pollParts}, (next+1)%pollParts
		} else {
			p = wholeShard()
		}
	}
}

// pause waits for the next regular poll, for what was poked for, or, when there
// is more to claim, for room. It reports whether it was the first.
func (sh *shard) pause(ctx context.Context, more bool) (regularly bool) {
	interval := sh.s.config.PollInterval / pollParts
	// Jitter keeps nodes that were started together from polling in unison.
	regular := time.Now().Add(interval - interval/10 + rand.N(interval/5))
	timer := time.NewTimer(time.Until(regular))
	defer timer.Stop()
	var room <-chan struct{}
	if more {
		room = sh.credit.free
	}
	for {
		wanted := sh.wantedAt()
		early := !wanted.IsZero() && wanted.Before(regular)
		if early {
			timer.Reset(time.Until(wanted))
		}
		select {
		case <-ctx.Done():
			return false
		case <-timer.C:
			return !early && !more
		case <-room:
			return false
		case <-sh.pokes:
		}
	}
}

func (sh *shard) wantedAt() time.Time {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return sh.wanted
}

// pollOnce claims of one part and puts what it got into the wheel. It reports whether
// more may be due.
func (sh *shard) pollOnce(ctx context.Context, p part) (more bool) {
	if p == wholeShard() {
		// What is poked for from here on may be missed by this poll.
		sh.mu.Lock()
		sh.wanted = time.Time{}
		sh.mu.Unlock()
	}
	room := sh.credit.left()
	if room <= 0 {
		return true
	}
	// A stop must not lose the answer: what it leased would wait for the lease's end.
	result, err := sh.s.store.Claim(context.WithoutCancel(ctx), sh.name, ClaimRequest{
		Horizon: sh.s.config.horizon(), Limit: room, MaxBytes: min(room*weightBytes, maxClaimBytes),
		Part: p.index, Parts: p.of, Grace: sh.s.config.Grace, LeaveOwnRetries: sh.othersLive.Load(),
	})
	answered := time.Now()
	sh.note(ctx, err)
	claims, weight := make([]*claim, len(result.Claims)), 0
	for i := range claims {
		claims[i] = &claim{Claimed: result.Claims[i], shard: sh, weight: weightOf(&result.Claims[i].Record.Timer)}
		weight += claims[i].weight
	}
	sh.credit.take(weight)
	for _, c := range claims {
		sh.accept(c, answered)
	}
	return result.More
}

// accept sends a claim on its way.
func (sh *shard) accept(c *claim, answered time.Time) {
	s := sh.s
	if c.Previous != "" && c.Previous != s.config.Node {
		s.metrics.takenOver.Inc()
		sh.log.Warn("suspected failure of "+c.Previous+" for timer "+c.Record.ID.String(),
			"node", c.Previous, "timer", c.Record.ID.String())
	}
	switch {
	case c.Err != nil:
		sh.log.Error("timer can't be read; it goes to the dead letters", "timer", c.Lease.Key, "err", c.Err)
		c.settle(Settlement{Outcome: OutcomeDead, Reason: "its record can't be read"})
	case c.Record.State.Attempt >= s.config.Attempts:
		// Every fence was passed and nothing settled: it may be what ends the nodes.
		c.settle(s.giveUp(c, "no attempt at it was ever settled"))
	default:
		c.destination = s.deliverer.Destination(c.Record.Timer.Callback)
		s.turnAt(answered.Add(c.DueIn), c)
	}
}

// note keeps the log to one line when a shard falls silent and one when it is
// back.
func (sh *shard) note(ctx context.Context, err error) {
	switch {
	case err == nil:
		sh.s.metrics.up.WithLabelValues(sh.name).Set(1)
		if sh.health.Swap(healthUp) == healthSilent {
			sh.log.Info("shard is back")
		}
	case ctx.Err() == nil:
		sh.s.metrics.up.WithLabelValues(sh.name).Set(0)
		if sh.health.Swap(healthSilent) != healthSilent {
			sh.log.Warn("shard can't be used; its timers wait until it is back", "err", err)
		}
	}
}
