package history

import "time"

func (r *run) dumped() time.Duration { return time.Duration(r.h.End.DumpNs) }

func (r *run) hasDump() bool { return r.h.End.DumpNs != -1 }

// noLeaks is invariant 8, judged once the run is drained: no shard has a raw key that nobody knows; no copy of a timer that
// is certainly over (fateOf), that nobody wrote, or whose last pop was due long ago; no tombstone whose time was over more
// than Limits.Bury ago or lies further ahead than one may live (1 h if the timer has an Idempotency-Key, else 2 min).
func noLeaks(r *run, f *Finding) {
	switch {
	case r.h.Header.Mode == Safety:
		f.excuse("faults last to the end")
		return
	case !r.hasDump() || !r.h.End.Drained:
		f.notJudged("the run was not drained and dumped")
		return
	}
	for _, s := range r.h.Strays {
		f.violation("shard %s: key %q belongs to nothing", s.Shard, s.Key)
	}
	for i := range r.h.Copies {
		c := &r.h.Copies[i]
		if c.Ended {
			r.judgeTombstone(f, c)
			continue
		}
		if reason := r.leaked(c); reason != "" {
			f.violation("shard %s: copy of timer %s (%s): %s", c.Shard, c.Key, c.state(), reason)
		}
	}
}

// leaked says why a copy should not be there; empty if it may be.
func (r *run) leaked(c *Copy) string {
	if c.look() < -r.l.Heal {
		return "it was due " + (-c.look()).String() + " ago"
	}
	t := r.byKey[c.Key]
	if t == nil {
		if w := r.finder.find(c.URL, c.BodyHash); w != nil && !w.ok && !w.refused {
			return "" // nobody was told of it
		}
		return "nobody wrote it"
	}
	if r.fateOf(t) == over {
		return "the timer is over"
	}
	return ""
}

func (r *run) judgeTombstone(f *Finding, c *Copy) {
	life := r.l.TombstoneLife
	if t := r.byKey[c.Key]; t == nil || t.idempotent() {
		life = r.l.IdempotencyLife
	}
	switch {
	case c.look() < -r.l.Bury:
		f.violation("shard %s: tombstone of timer %s should have been buried %s ago", c.Shard, c.Key, -c.look())
	case c.look() > life+r.l.Bury:
		f.violation("shard %s: tombstone of timer %s lives for %s more", c.Shard, c.Key, c.look())
	}
}

func (t *timer) idempotent() bool {
	for _, w := range t.writes {
		if w.op.IdempotencyKey != "" {
			return true
		}
	}
	return false
}
