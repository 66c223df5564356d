package shard

import (
	"slices"
	"time"

	"chronos/scheduler/settings"
	"chronos/scheduler/store"
	"chronos/scheduler/timer"
	"chronos/scheduler/timing"
)

// Place is where a copy of a timer may be.
type Place struct {
	Shard *Shard
	Rank  int  // of the copy that belongs there, or is there in another's stead
	Home  bool // one belongs there
	soon  bool // one will, once the shards have changed
}

// Vanished reports whether the place is there no more: its shard is gone, and no copy
// belonged on it. Where one did, its shard is gone by force, and had it.
func (p Place) Vanished() bool { return !p.Home && p.Shard.Gone() }

// Offset is how long after a pop the copy is looked at: so long does it leave the
// pop to the better ones. No two of a timer are due at the same time.
func (p Place) Offset(skew time.Duration) time.Duration {
	if p.Home {
		return time.Duration(p.Rank) * skew
	}
	return time.Duration(p.Rank)*skew + skew/2
}

// Tombstone is the end of a timer as the place remembers the end.
func (p Place) Tombstone(config *settings.Config, state timer.State, bodyHash string) store.Tombstone {
	t := store.Tombstone{State: state, Life: config.TombLife, Keep: config.IdempotencyLife, BodyHash: bodyHash}
	if !p.Home && !p.soon {
		t.Life, t.Keep = min(t.Life, timing.NonOwnerTombLife), min(t.Keep, timing.NonOwnerTombLife)
	}
	return t
}

// Copy names the copy of a timer there.
func (p Place) Copy(id timer.ID) store.Target {
	return store.Target{Shard: p.Shard.Name, Key: id.Key, RF: id.RF, Rank: p.Rank}
}

// Places are where the copies of a timer belong, in rank order, and then where
// else some may be (rule "look wherever a copy may be"): where they belonged before the
// shards changed, or are about to, and where the filter of its ID points, which is a hint.
// With a replication factor of 0, which is not known, a copy may belong anywhere.
func (r *Registry) Places(id timer.ID) []Place {
	all := r.Homes(id)
	homes := len(all)
	if homes == len(r.All()) {
		return all
	}
	others := id.RF // where more shards took timers, or will, it may have more copies than it has homes
	if others == 0 {
		others = len(r.All())
	}
	for _, o := range r.Store.Others(id.Key, others) {
		all = WithPlace(all, Place{Shard: r.Shard(o.Shard), Rank: o.Rank, soon: o.Coming})
	}
	if !id.Hint.Empty() {
		for _, name := range r.Store.Hinted(id.Hint) {
			all = WithPlace(all, Place{Shard: r.Shard(name), Rank: homes})
		}
	}
	return all
}

// Drained reports whether the shard takes no timers, and the sweep has been over it since:
// a copy is there by exception, though records and IDs name the shard, and an end that
// finds none must leave nothing, which would hold up the shard's removal.
func (r *Registry) Drained(key, name string) bool { return !r.Takes(key, name) && !r.Changing(key) }

// Takes reports whether the shard takes timers.
func (r *Registry) Takes(key, name string) bool { return slices.Contains(r.Store.Rank(key), name) }

// Changing reports whether copies of a timer may be where they belonged before the
// shards changed, or will belong.
func (r *Registry) Changing(key string) bool { return len(r.Store.Others(key, 1)) > 0 }

// Homes are where the copies of a timer belong.
func (r *Registry) Homes(id timer.ID) []Place {
	for {
		ranked := r.Store.Rank(id.Key)
		if id.RF > 0 {
			ranked = ranked[:min(id.RF, len(ranked))]
		}
		all := make([]Place, 0, len(ranked))
		for rank, name := range ranked {
			if sh := r.Shard(name); sh != nil {
				all = append(all, Place{Shard: sh, Rank: rank, Home: true})
			}
		}
		if len(all) == len(ranked) {
			return all
		}
		// One of them was removed meanwhile: it has no rank any more.
	}
}

// WithPlace adds a place, if there is such a shard and it isn't among them.
func WithPlace(all []Place, p Place) []Place {
	if p.Shard == nil || slices.ContainsFunc(all, func(o Place) bool { return o.Shard == p.Shard }) {
		return all
	}
	return append(all, p)
}

// Knows is nil if a shard has this name, and this node knows where timers belong.
func (r *Registry) Knows(shard string) error {
	if !slices.Contains(r.Store.Shards(), shard) {
		return timer.ErrShardUnknown
	}
	return r.Store.Writable()
}

// IsHome reports whether a copy of the timer belongs on the shard.
func (r *Registry) IsHome(shard string, h *store.Head) bool {
	ranked := r.Store.Rank(h.Key)
	return slices.Contains(ranked[:min(max(h.RF, 1), len(ranked))], shard)
}
