package scheduler

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"chronos/scheduler/timer"
)

// shard is one shard as this node sees it: how it answers, what it lacks, and which of its
// partitions this node looks after. It is safe for concurrent use.
type shard struct {
	r     *registry
	index int // in list order
	name  string
	mask  timer.Hint // that names it
	log   *slog.Logger

	silence *silence

	fastest    atomic.Pointer[fastestClock] // of its nodes; nil until that is known
	unheard    atomic.Int64                 // since when it has not answered this node's announcements, ns on the clock of silence, until what it missed is known; 0 if it does
	othersLive atomic.Bool                  // other nodes announced themselves lately
	health     atomic.Int32                 // what the last claim said of the shard, or the last beat if that was long ago
	claimed    atomic.Int64                 // when that claim was, ns on the clock of silence
	missing    atomic.Int64                 // since when it misses what nobody has told it since, ns on the clock of silence, maybe before its begin; 0 if nothing

	ownership *ownership
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

func newShard(r *registry, index int, name string) *shard {
	return &shard{
		r: r, index: index, name: name, mask: r.store.HintOf(name), log: r.config.Log.With("shard", name),
		silence: newSilence(r.config.Awake), ownership: newOwnership(),
	}
}

const (
	// pokeLead is how long before due a poked poll begins.
	pokeLead = 20 * time.Millisecond
	// pokeGap is how long a poke waits for others: many short timers share a poll.
	pokeGap = time.Millisecond
)

// pokeIfSoon has a timer that is due before the next poll might find it claimed in
// time: a hint, nothing more.
func (sh *shard) pokeIfSoon(partition int, due time.Duration) {
	if due < sh.r.config.horizon() {
		sh.poke(partition, due)
	}
}

func (sh *shard) poke(partition int, due time.Duration) {
	sh.ownership.poke(partition, time.Now().Add(max(due-pokeLead, pokeGap)))
}

// away reports whether nobody should wait for the shard: it is gone, silent, too slow, or
// given up.
func (sh *shard) away() bool {
	return sh.gone() || sh.silence.lasts() || sh.tooSlow() || sh.r.store.Lost(sh.name)
}

// claimAnswered takes the outcome of a claim.
func (sh *shard) claimAnswered(ctx context.Context, began moment, err error) {
	sh.silence.heard(began, err)
	sh.claimed.Store(int64(sh.silence.now()))
	sh.note(ctx, err)
}

// answers reports whether the shard has answered a heartbeat, and the last claim.
func (sh *shard) answers() bool { return sh.health.Load() == healthUp && sh.fastest.Load() != nil }

// note keeps the log to one line when a shard falls silent and one when it is
// back.
func (sh *shard) note(ctx context.Context, err error) {
	switch {
	case err == nil:
		sh.r.gauges.up.WithLabelValues(sh.name).Set(1)
		if sh.health.Swap(healthUp) == healthSilent {
			sh.log.Info("shard is back")
		}
	case ctx.Err() == nil:
		sh.r.gauges.up.WithLabelValues(sh.name).Set(0)
		if sh.health.Swap(healthSilent) != healthSilent {
			sh.log.Warn("shard can't be used; timers without a copy elsewhere wait until the shard is back", "err", err)
		}
	}
}

// missedFor is how long ago the shard began to miss what nobody has told it since.
func (sh *shard) missedFor() time.Duration {
	since := sh.missing.Load()
	if since == 0 {
		return 0
	}
	return max(sh.silence.now()-time.Duration(since), 1)
}

// missesSince notes how long ago the shard began to miss what nobody has told it since; 0
// for nothing. What the shard missed while it did not answer is known then.
func (sh *shard) missesSince(ago time.Duration) {
	since := int64(0)
	if ago > 0 {
		if since = int64(sh.silence.now() - ago); since == 0 {
			since = -1
		}
	}
	sh.missing.Store(since)
	if !sh.silence.outage.pending() {
		sh.unheard.Store(0)
	}
}

// perShard keeps a T for each shard that is asked about. It is safe for concurrent use.
type perShard[T any] struct {
	make func(*shard) *T
	all  sync.Map // *T by *shard
}

func (p *perShard[T]) of(sh *shard) *T {
	own, is := p.all.Load(sh)
	if !is {
		own, _ = p.all.LoadOrStore(sh, p.make(sh))
	}
	return own.(*T) //nolint:errcheck,forcetypeassert // nothing else is in there
}

// forget is for a shard that is gone.
func (p *perShard[T]) forget(sh *shard) { p.all.Delete(sh) }

// ails reports whether a new timer is better stored elsewhere: the shard has not answered
// the last call, or is slow.
func (sh *shard) ails() bool { return sh.silence.suspect.Load() }
