package shard

import (
	"sync/atomic"
	"time"

	"chronos/scheduler/store"
	"chronos/scheduler/timer"
	"chronos/scheduler/timing"
)

// latest is the highest version that a node has heard of. The node's own writes get higher
// versions (rule "versions rise"; Kulkarni and others 2014). If two writes have no common
// copy, the write wins whose node knew of the earlier write, however far apart the nodes' clocks
// are. The zero value has heard of no version. latest is safe for concurrent use.
type latest struct{ ms atomic.Int64 }

// heard notes the version of some copy, but no version far ahead of the clock wall.
func (l *latest) heard(v timer.Version, wall func() time.Time) {
	ms := int64(v >> timer.VersionTagBits)
	for known := l.ms.Load(); ms > known; known = l.ms.Load() {
		if ms > wall().Add(timing.MaxClockAhead).UnixMilli() || l.ms.CompareAndSwap(known, ms) {
			return
		}
	}
}

// next is the version of a write at the time wall of the fastest clock.
func (l *latest) next(wall time.Time, tag uint16) timer.Version {
	v := timer.VersionAt(wall, tag)
	if known := timer.Version(l.ms.Load()) << timer.VersionTagBits; v < known {
		return known.Above(tag)
	}
	return v
}

// heard holds what the nodes have announced on a shard, and when this node read the announcements.
// The noted time is behind the fastest clock by the answer's way, and never ahead.
type heard struct {
	others    []store.LiveNode
	fastest   time.Time
	sinceBoot time.Duration
}

// Clock is the time on the fastest clock of all nodes, as far as this node has heard. Two
// writes without a common copy then keep the order of the requests, however far apart the nodes'
// clocks are.
func (r *Registry) Clock() time.Time {
	if r.host != nil {
		return r.host.Clock()
	}
	latest := r.fastest(r.config.Wall())
	if guests := r.guests.Load(); guests != nil {
		for _, guest := range *guests {
			latest = guest.fastest(latest)
		}
	}
	return latest
}

// fastest is the later of an instant and the time on the fastest clock that was heard of on the shards.
func (r *Registry) fastest(latest time.Time) time.Time {
	now := r.config.SinceBoot()
	for _, sh := range r.All() {
		known := sh.heard.Load()
		if known == nil || now-known.sinceBoot > timing.ClockLife {
			continue
		}
		if shows := known.fastest.Add(now - known.sinceBoot); shows.After(latest) {
			latest = shows
		}
	}
	return latest
}

// NextTag returns a new tag for each write of this node. Tags rise, and begin again after the
// highest tag. Two writes of a millisecond must differ in version: otherwise a copy with the first
// write and a copy with the second write look the same. Only writes with a
// condition have the lowest bit.
func (r *Registry) NextTag() uint16 {
	if r.host != nil {
		return r.host.NextTag()
	}
	return uint16(r.tags.Add(1) << 1)
}

// Heard notes the version of some copy.
func (r *Registry) Heard(v timer.Version) {
	if r.host != nil {
		r.host.Heard(v)
		return
	}
	r.latest.heard(v, r.config.Wall)
}

// NextVersion returns a version above all versions that this node has heard of.
func (r *Registry) NextVersion() timer.Version {
	if r.host != nil {
		return r.host.NextVersion()
	}
	return r.latest.next(r.Clock(), r.NextTag())
}
