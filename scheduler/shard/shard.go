package shard

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"chronos/scheduler/store"
	"chronos/scheduler/timer"
	"chronos/scheduler/timing"
)

// Shard is one shard as this node sees it: how it answers, what it lacks, and which of its
// partitions this node looks after. It is safe for concurrent use.
type Shard struct {
	r     *Registry
	Index int // in list order
	Name  string
	Mask  timer.Hint // that names it
	Log   *slog.Logger

	Answers *Answers

	heard   atomic.Pointer[heard] // of its nodes by the last announcement; nil before that
	unheard atomic.Int64          // since when it has not answered this node's announcements, ns on the clock of Answers, until what it missed is known; 0 if it does
	health  atomic.Int32          // what the last claim said of the shard, or the last beat if that was long ago
	claimed atomic.Int64          // when that claim was, ns on the clock of Answers
	refused atomic.Int64          // when the shard refused a claim or a beat last, ns on the clock of Answers; 0 for never
	missing atomic.Int64          // since when it misses what nobody has told it since, ns on the clock of Answers, maybe before its begin; 0 if nothing

	Ownership *ownership
	neglect   neglect
	removed   atomic.Bool // it isn't among the shards any more
	gaveUp    time.Time   // when it was tried last to give the shard up
}

// What is known of a shard's health.
const (
	healthUnknown int32 = iota
	healthUp
	healthSilent
)

func newShard(r *Registry, index int, name string) *Shard {
	return &Shard{
		r: r, Index: index, Name: name, Mask: r.Store.HintOf(name), Log: r.config.Log.With("shard", name),
		Answers: newAnswers(r.config.Awake), Ownership: newOwnership(),
	}
}

const (
	// pokeLead is how long before due a poked poll begins.
	pokeLead = 20 * time.Millisecond
	// pokeGap is how long a poke waits for others: many short timers share a poll.
	pokeGap = time.Millisecond
)

// PokeIfSoon has a timer that is due before the next poll might find it claimed in
// time: a hint, nothing more.
func (sh *Shard) PokeIfSoon(partition int, due time.Duration) {
	if due < sh.r.config.Horizon() {
		sh.Ownership.poke(partition, time.Now().Add(max(due-pokeLead, pokeGap)))
	}
}

// Away reports whether nobody should wait for the shard: it is gone, down, or given up.
func (sh *Shard) Away() bool {
	return sh.Gone() || sh.Reach() == Down || sh.r.Store.Lost(sh.Name)
}

// OthersLive reports whether other nodes have announced themselves on the shard lately.
func (sh *Shard) OthersLive() bool {
	known := sh.heard.Load()
	return known != nil && len(known.others) > 0
}

// OtherReaches reports whether this node does not reach the lacking shard, and another node, which
// works on sh, does (rule "do without silent shards").
func (sh *Shard) OtherReaches(lacking *Shard) bool {
	known := sh.heard.Load()
	if known == nil || lacking.Gone() || lacking.Reach() != Down || sh.r.Store.Lost(lacking.Name) || sh.r.config.SinceBoot()-known.sinceBoot > timing.NodeLife {
		return false
	}
	return slices.ContainsFunc(known.others, func(other store.LiveNode) bool { return !slices.Contains(other.Lacks, lacking.Name) })
}

// ClaimAnswered takes the outcome of a claim.
func (sh *Shard) ClaimAnswered(ctx context.Context, began Moment, err error) {
	sh.Answers.Heard(began, err)
	sh.claimed.Store(int64(sh.Answers.now()))
	sh.note(ctx, err)
}

// Usable reports whether the shard has answered a heartbeat and the last claim, and refused
// none of late. A shard that refuses writes still answers claims that find nothing.
func (sh *Shard) Usable() bool { return sh.health.Load() == healthUp && sh.heard.Load() != nil }

// note keeps the log to one line when a shard falls silent and one when it is
// back.
func (sh *Shard) note(ctx context.Context, err error) {
	now := sh.Answers.now()
	if errors.Is(err, timer.ErrRefused) && !errors.Is(err, syscall.ECONNREFUSED) { // where nothing listens, nothing answers questions either
		sh.refused.Store(int64(now))
	}
	refused := time.Duration(sh.refused.Load())
	switch {
	case err == nil && refused > 0 && now-refused < sh.r.config.PollInterval+timing.BeatInterval: // every partition is polled in that time
	case err == nil:
		sh.r.gauges.up.WithLabelValues(sh.Name).Set(1)
		if sh.health.Swap(healthUp) == healthSilent {
			sh.Log.Info("shard is back")
		}
	case ctx.Err() == nil:
		sh.r.gauges.up.WithLabelValues(sh.Name).Set(0)
		if sh.health.Swap(healthSilent) != healthSilent {
			sh.Log.Warn("shard can't be used; timers without a copy elsewhere wait until the shard is back", "err", err)
		}
	}
}

// GapFor is how long ago the shard began to miss what nobody has told it since, as far as is
// known; 0 if the shard is whole. A silence that is over counts for a while.
func (sh *Shard) GapFor(while time.Duration) time.Duration {
	return max(sh.since(&sh.missing), sh.since(&sh.unheard), sh.Answers.lostFor(while))
}

// since is how long ago an instant of the clock of Answers is; 0 if there is none.
func (sh *Shard) since(at *atomic.Int64) time.Duration {
	ns := at.Load()
	if ns == 0 {
		return 0
	}
	return max(sh.Answers.now()-time.Duration(ns), 1)
}

// MissesSince notes how long ago the shard began to miss what nobody has told it since; 0
// for nothing. What the shard missed while it did not answer is known then.
func (sh *Shard) MissesSince(ago time.Duration) {
	since := int64(0)
	if ago > 0 {
		if since = int64(sh.Answers.now() - ago); since == 0 {
			since = -1
		}
	}
	sh.missing.Store(since)
	if !sh.Answers.Outage.Pending() {
		sh.unheard.Store(0)
	}
}

// PerShard keeps a T for each shard that is asked about. It is safe for concurrent use.
type PerShard[T any] struct {
	Make func(*Shard) *T
	all  sync.Map // *T by *shard
}

// Of is what belongs to the shard; Make makes it when it is asked for first.
func (p *PerShard[T]) Of(sh *Shard) *T {
	own, is := p.all.Load(sh)
	switch {
	case is:
	case sh.Gone():
		return p.Make(sh) // nobody would forget it any more
	default:
		own, _ = p.all.LoadOrStore(sh, p.Make(sh))
	}
	return own.(*T) //nolint:errcheck,forcetypeassert // nothing else is in there
}

// Forget is for a shard that is gone.
func (p *PerShard[T]) Forget(sh *Shard) { p.all.Delete(sh) }
