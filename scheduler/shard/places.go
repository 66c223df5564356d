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
	Rank  int  // of the copy that belongs on the shard, or for which the shard stands in
	Home  bool // the shard is an owner: a copy belongs on the shard
	soon  bool // the shard will be an owner, once the shards have changed
}

// Vanished reports whether the shard was removed and was no owner. An owner is removed only by
// force, and then had a copy.
func (p Place) Vanished() bool { return !p.Home && p.Shard.Gone() }

// Spacing is how far apart the copies of a timer come due: the copies of this site after a delay, each a skew
// behind the copy of the rank before (rule "one home for each version").
type Spacing struct {
	Site time.Duration // 0 at the timer's home site, and without sites
	Skew time.Duration
}

// Spacing is the spacing of a timer's copies on the shards of the registry.
func (r *Registry) Spacing(of *store.Record) Spacing {
	return r.SpacingOf(of.ID.Key, of.Site, of.Timer.Interval, of.ID.RF)
}

// SpacingOf is Spacing of a timer that has no record yet.
func (r *Registry) SpacingOf(key, home string, interval time.Duration, replicationFactor int) Spacing {
	s := Spacing{Skew: r.config.Skew.Of(interval, replicationFactor)}
	if sites := r.Store.Sites(); sites.Own != home {
		s.Site = time.Duration(sites.Index(key, home)) * store.SiteDelay(s.Skew, replicationFactor)
	}
	return s
}

// Of is how long after a pop the copy of a rank is looked at.
func (s Spacing) Of(rank int) time.Duration { return s.Site + time.Duration(rank)*s.Skew }

// Offset is how long after a pop the copy is looked at. For so long the copy leaves the pop to
// better copies. No two copies of a timer are due at the same time.
func (p Place) Offset(s Spacing) time.Duration {
	if p.Home {
		return s.Of(p.Rank)
	}
	return s.Of(p.Rank) + s.Skew/2
}

// Tombstone is the end of a timer as the place remembers the end.
func (p Place) Tombstone(config *settings.Config, state timer.State, bodyHash string) store.Tombstone {
	t := store.Tombstone{State: state, Life: config.TombLife, Keep: config.IdempotencyLife, BodyHash: bodyHash}
	if !p.Home && !p.soon {
		t.Life, t.Keep = min(t.Life, timing.NonOwnerTombLife), min(t.Keep, timing.NonOwnerTombLife)
	}
	return t
}

// Copy names the copy of a timer at the place.
func (p Place) Copy(id timer.ID) store.Target {
	return store.Target{Shard: p.Shard.Name, Key: id.Key, RF: id.RF, Rank: p.Rank}
}

// Places are the shards on which copies of a timer may be (rule "look wherever a copy may be"):
// first the owners in rank order, then coming and former owners, then the shards to which the
// filter of the ID points, as a hint. A replication factor of 0 is unknown: a copy may belong on
// any shard.
func (r *Registry) Places(id timer.ID) []Place {
	all := r.Homes(id)
	homes := len(all)
	if homes == len(r.All()) {
		return all
	}
	others := id.RF // if more shards took timers, or will, a timer may have more copies than owners
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

// Drained reports whether the shard takes no timers and the sweep has passed over the shard since.
// Such a shard rarely has a copy, though records and IDs name the shard. An end that finds no copy
// must leave no tombstone, since a tombstone would hold up the shard's removal.
func (r *Registry) Drained(key, name string) bool { return !r.Takes(key, name) && !r.Changing(key) }

// Takes reports whether the shard takes timers.
func (r *Registry) Takes(key, name string) bool { return slices.Contains(r.Store.Rank(key), name) }

// Changing reports whether copies of a timer may be on former or coming owners.
func (r *Registry) Changing(key string) bool { return len(r.Store.Others(key, 1)) > 0 }

// Homes are the owners of a timer, in rank order.
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
		// A shard was removed meanwhile, and has no rank any more.
	}
}

// WithPlace adds a place, if the shard exists and is not yet among the places.
func WithPlace(all []Place, p Place) []Place {
	if p.Shard == nil || slices.ContainsFunc(all, func(o Place) bool { return o.Shard == p.Shard }) {
		return all
	}
	return append(all, p)
}

// Knows is nil if a shard has the name, and this node knows where timers belong.
func (r *Registry) Knows(shard string) error {
	if !slices.Contains(r.Store.Shards(), shard) {
		return timer.ErrShardUnknown
	}
	return r.Store.Writable()
}

// IsHome reports whether the shard is an owner of the timer.
func (r *Registry) IsHome(shard string, h *store.Head) bool {
	ranked := r.Store.Rank(h.Key)
	return slices.Contains(ranked[:min(max(h.RF, 1), len(ranked))], shard)
}
