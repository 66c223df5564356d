package shard

import (
	"sync/atomic"
	"time"

	"chronos/scheduler/store"
	"chronos/scheduler/timer"
	"chronos/scheduler/timing"
)

// latest is the highest version that a node has heard of. The node's own writes go above that
// version (rule "versions rise"; Kulkarni and others 2014). So two writes that no copy hears
// both of are ordered by what their nodes knew, however far apart their clocks are. The zero
// value has heard of none; it is safe for concurrent use.
type latest struct{ ms atomic.Int64 }

// heard notes a version that some copy has.
func (l *latest) heard(v timer.Version, wall func() time.Time) {
	ms := int64(v >> timer.VersionTagBits)
	for known := l.ms.Load(); ms > known; known = l.ms.Load() {
		if ms > wall().Add(timing.MaxClockAhead).UnixMilli() || l.ms.CompareAndSwap(known, ms) {
			return
		}
	}
}

// next is the version of a write at the given time, of the fastest clock.
func (l *latest) next(wall time.Time, tag uint16) timer.Version {
	v := timer.VersionAt(wall, tag)
	if known := timer.Version(l.ms.Load()) << timer.VersionTagBits; v < known {
		return known.Above(tag)
	}
	return v
}

// heard is what the nodes have announced on a shard, and when this node heard so. The fastest
// clock is late by the answer's way, so never ahead of what it shows.
type heard struct {
	others    []store.LiveNode
	fastest   time.Time
	sinceBoot time.Duration
}

// Clock is what the fastest clock of all nodes shows, as far as this one has heard: two
// writes that no copy hears both of are then in the order in which they were asked for,
// however far their nodes' clocks are apart.
func (r *Registry) Clock() time.Time {
	latest, now := r.config.Wall(), r.config.SinceBoot()
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

// NextTag is another one for each of this node's writes, rising but where it begins
// anew: two of one millisecond must not have one version, or copies that heard of
// one of them each would take it for the other.
func (r *Registry) NextTag() uint16 { return uint16(r.tags.Add(1)) }

// Heard notes a version that some copy has.
func (r *Registry) Heard(v timer.Version) { r.latest.heard(v, r.config.Wall) }

// NextVersion is above all versions that this node has heard of.
func (r *Registry) NextVersion() timer.Version { return r.latest.next(r.Clock(), r.NextTag()) }
