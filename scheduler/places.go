package scheduler

import (
	"errors"
	"slices"
	"time"

	"chronos/scheduler/store"
	"chronos/scheduler/timer"
)

// place is where a copy of a timer may be.
type place struct {
	shard *shard
	rank  int  // of the copy that belongs there, or is there in another's stead
	home  bool // one belongs there
	soon  bool // one will, once the shards have changed
}

// vanished reports whether the place is there no more: its shard is gone, and no copy
// belonged on it. Where one did, its shard is gone by force, and had it.
func (p place) vanished() bool { return !p.home && p.shard.gone() }

// offset is how long after a pop the copy is looked at: so long does it leave the
// pop to the better ones. No two of a timer are due at the same time.
func (p place) offset(skew time.Duration) time.Duration {
	if p.home {
		return time.Duration(p.rank) * skew
	}
	return time.Duration(p.rank)*skew + skew/2
}

// strayLife is how long a tombstone stays where no copy belongs: it is the homes'
// that guard against what comes late.
const strayLife = 10 * time.Second

// tombLife is how long a tombstone stays there.
func (p place) tombLife(config *Config) time.Duration {
	if p.home || p.soon {
		return config.TombLife
	}
	return min(config.TombLife, strayLife)
}

// keepFor is how long what an idempotency key remembers stays there.
func (p place) keepFor(config *Config) time.Duration {
	if p.home || p.soon {
		return config.IdempotencyLife
	}
	return min(config.IdempotencyLife, strayLife)
}

// places are where the copies of a timer belong, in rank order, and then where
// else some may be (rule "look wherever a copy may be"): where they belonged before the
// shards changed, or are about to, and where the filter of its ID points, which is a hint.
// With a replication factor of 0, which is not known, a copy may belong anywhere.
func (r *registry) places(id timer.ID) []place {
	all := r.homes(id)
	homes := len(all)
	if homes == len(r.load()) {
		return all
	}
	others := id.RF // where more shards took timers, or will, it may have more copies than it has homes
	if others == 0 {
		others = len(r.load())
	}
	for _, o := range r.store.Others(id.Key, others) {
		all = withPlace(all, place{shard: r.shard(o.Shard), rank: o.Rank, soon: o.Coming})
	}
	if !id.Hint.Empty() {
		for _, name := range r.store.Hinted(id.Hint) {
			all = withPlace(all, place{shard: r.shard(name), rank: homes})
		}
	}
	return all
}

// drained reports whether the shard takes no timers, and the sweep has been over it since:
// a copy is there by exception, though records and IDs name the shard, and an end that
// finds none must leave nothing, which would hold up the shard's removal.
func (r *registry) drained(key, name string) bool { return !r.takes(key, name) && !r.changing(key) }

// takes reports whether the shard takes timers.
func (r *registry) takes(key, name string) bool { return slices.Contains(r.store.Rank(key), name) }

// changing reports whether copies of a timer may be where they belonged before the
// shards changed, or will belong.
func (r *registry) changing(key string) bool { return len(r.store.Others(key, 1)) > 0 }

// homes are where the copies of a timer belong.
func (r *registry) homes(id timer.ID) []place {
	for {
		ranked := r.store.Rank(id.Key)
		if id.RF > 0 {
			ranked = ranked[:min(id.RF, len(ranked))]
		}
		all := make([]place, 0, len(ranked))
		for rank, name := range ranked {
			if sh := r.shard(name); sh != nil {
				all = append(all, place{shard: sh, rank: rank, home: true})
			}
		}
		if len(all) == len(ranked) {
			return all
		}
		// One of them was removed meanwhile: it has no rank any more.
	}
}

// withPlace adds a place, if there is such a shard and it isn't among them.
func withPlace(all []place, p place) []place {
	if p.shard == nil || placed(all, p.shard) {
		return all
	}
	return append(all, p)
}

func placed(all []place, sh *shard) bool {
	for _, p := range all {
		if p.shard == sh {
			return true
		}
	}
	return false
}

// hintOf is the filter of an ID whose timer has copies at these places.
func (r *registry) hintOf(all []place) (hint timer.Hint) {
	for _, p := range all {
		hint |= p.shard.mask
	}
	return hint
}

// ErrShardUnknown says that no shard has the name.
var ErrShardUnknown = errors.New("shard unknown")

// knows is nil if a shard has this name, and this node knows where timers belong.
func (r *registry) knows(shard string) error {
	if !slices.Contains(r.store.Shards(), shard) {
		return ErrShardUnknown
	}
	return r.store.Writable()
}

// isHome reports whether a copy of the timer belongs on the shard.
func (r *registry) isHome(shard string, h *store.Head) bool {
	ranked := r.store.Rank(h.Key)
	return slices.Contains(ranked[:min(max(h.RF, 1), len(ranked))], shard)
}
