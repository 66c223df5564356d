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

// Shard is this node's view of a shard: how the shard answers, since when the shard has missed
// writes, and which partitions this node looks after. Shard is safe for concurrent use.
type Shard struct {
	r     *Registry
	Index int // in list order
	Name  string
	Mask  timer.Hint // the filter that names the shard
	Log   *slog.Logger

	Answers *Answers

	// Instants are in ns on the clock of Answers; 0 for never.
	heard   atomic.Pointer[heard] // the announcements in the last answer to a beat; nil before the first answer
	unheard atomic.Int64          // since when beats got no answer, until the writes missed meanwhile are known
	health  atomic.Int32          // by the last claim; by the last beat, if the last claim was long ago
	claimed atomic.Int64          // when the last claim was answered, or failed
	refused atomic.Int64          // when the shard last refused a claim or a beat
	missing atomic.Int64          // since when the shard lacks writes, as far as is known; maybe before the clock began

	Ownership *ownership
	neglect   neglect
	removed   atomic.Bool // the shard is not among the shards any more
	gaveUp    time.Time   // when this node last tried to have the shard given up
}

// The health of a shard, as far as is known.
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
	// pokeGap is how long a poke waits for more pokes: many short timers share a poll.
	pokeGap = time.Millisecond
)

// PokeIfSoon has a timer claimed in time that may be due before the next poll finds the timer.
// A poke is only a hint.
func (sh *Shard) PokeIfSoon(partition int, due time.Duration) {
	if due < sh.r.config.Horizon() {
		sh.Ownership.poke(partition, time.Now().Add(max(due-pokeLead, pokeGap)))
	}
}

// Away reports whether nobody should wait for the shard: the shard is removed, down, or given up.
func (sh *Shard) Away() bool {
	return sh.Gone() || sh.Reach() == Down || sh.r.Store.Lost(sh.Name)
}

// AwayFor is Away about a timer whose callbacks may last so long: a shard with late answers is asked
// until earlier callbacks from the shard have ended.
func (sh *Shard) AwayFor(lasts time.Duration) bool {
	return sh.Gone() || sh.reach(lasts) == Down || sh.r.Store.Lost(sh.Name)
}

// OthersLive reports whether other nodes have announced themselves on the shard lately.
func (sh *Shard) OthersLive() bool {
	known := sh.heard.Load()
	return known != nil && len(known.others) > 0
}

// Worked reports whether other nodes have announced themselves on the shard within NodeLife, as far as this node has
// heard lately.
func (sh *Shard) Worked() bool {
	known := sh.heard.Load()
	return known != nil && len(known.others) > 0 && sh.r.config.SinceBoot()-known.sinceBoot <= timing.NodeLife
}

// OtherReaches reports whether this node does not reach the lacking shard, but another node on sh
// does (rule "do without silent shards").
func (sh *Shard) OtherReaches(lacking *Shard) bool {
	known := sh.heard.Load()
	if known == nil || lacking.Gone() || lacking.Reach() != Down || sh.r.Store.Lost(lacking.Name) || sh.r.config.SinceBoot()-known.sinceBoot > timing.NodeLife {
		return false
	}
	return slices.ContainsFunc(known.others, func(other store.LiveNode) bool { return !slices.Contains(other.Lacks, lacking.Name) })
}

// ClaimAnswered notes the outcome of a claim.
func (sh *Shard) ClaimAnswered(ctx context.Context, began Moment, err error) {
	sh.Answers.Heard(began, err)
	sh.claimed.Store(int64(sh.Answers.now()))
	sh.note(ctx, err)
}

// Usable reports whether the shard has answered a heartbeat and the last claim, and has refused no
// claim and no heartbeat lately. A shard that refuses writes still answers claims that find nothing.
func (sh *Shard) Usable() bool { return sh.health.Load() == healthUp && sh.heard.Load() != nil }

// Failed reports whether the last claim or heartbeat failed, or a claim or heartbeat was refused lately. A shard that has
// answered nothing since the node started has not failed.
func (sh *Shard) Failed() bool { return sh.health.Load() == healthSilent }

// note logs a line when a shard falls silent, and a line when the shard is back.
func (sh *Shard) note(ctx context.Context, err error) {
	now := sh.Answers.now()
	if errors.Is(err, timer.ErrRefused) && !errors.Is(err, syscall.ECONNREFUSED) { // if nothing listens, all calls fail
		sh.refused.Store(int64(now))
	}
	refused := time.Duration(sh.refused.Load())
	switch {
	case err == nil && refused > 0 && now-refused < sh.r.config.PollInterval+timing.BeatInterval: // every partition is polled meanwhile
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

// GapFor is how long ago the shard began to miss writes that nobody has repaired since, as far as
// is known; 0 if the shard is whole. A silence that is over counts for while longer.
func (sh *Shard) GapFor(while time.Duration) time.Duration {
	return max(sh.since(&sh.missing), sh.since(&sh.unheard), sh.Answers.lostFor(while))
}

// since is how long ago an instant of the clock of Answers was; 0 if at is 0.
func (sh *Shard) since(at *atomic.Int64) time.Duration {
	ns := at.Load()
	if ns == 0 {
		return 0
	}
	return max(sh.Answers.now()-time.Duration(ns), 1)
}

// MissesSince notes how long ago the shard began to miss writes that nobody has repaired since; 0
// for no such write. If no outage is pending, ago covers the time without answers, too.
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

// PerShard keeps a T for each shard that was asked for. PerShard is safe for concurrent use.
type PerShard[T any] struct {
	Make func(*Shard) *T
	all  sync.Map // *T by *Shard
}

// Of returns the T of the shard. The first call makes the T by Make.
func (p *PerShard[T]) Of(sh *Shard) *T {
	own, is := p.all.Load(sh)
	switch {
	case is:
	case sh.Gone():
		return p.Make(sh) // nobody would call Forget any more
	default:
		own, _ = p.all.LoadOrStore(sh, p.Make(sh))
	}
	return own.(*T) //nolint:errcheck,forcetypeassert // nothing else is in there
}

// Forget removes the T of a removed shard.
func (p *PerShard[T]) Forget(sh *Shard) { p.all.Delete(sh) }
