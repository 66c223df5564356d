package history

import "time"

func (r *run) dumped() time.Duration { return time.Duration(r.h.End.DumpNs) }

func (r *run) hasDump() bool { return r.h.End.DumpNs != -1 }

// noLeaks is invariant 8, judged once the run is drained. No shard has any of these:
//
//   - An unknown raw key.
//   - A copy of a timer that is certainly over (fateOf), or that nobody wrote.
//   - A copy that has been due for longer than Limits.Heal.
//   - A tombstone whose time was over more than Limits.Bury ago.
//   - A tombstone that may live longer than 2 min, or than 1 h if the timer has an Idempotency-Key.
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

// leaked says why a copy is a leak; empty for a copy that may be there.
func (r *run) leaked(c *Copy) string {
	if c.look() < -r.l.Heal {
		return "it was due " + (-c.look()).String() + " ago"
	}
	t := r.byKey[c.Key]
	if t == nil {
		if w := r.finder.find(c.URL, c.BodyHash); w != nil && !w.ok && !w.refused {
			return "" // no client knows the key
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
