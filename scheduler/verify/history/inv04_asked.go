package history

import (
	"slices"
	"time"
)

// onlyWhatWasTold is invariant 4: every callback was asked for.
//
//   - URL and body belong to one write, and the write was not refused.
//   - The key is the key of the timer and of the id.
//   - The version is the same in all callbacks of the write, and belongs to no further write. A delay makes a new version.
//   - The version is above the version of every write acknowledged before. The version may be lower if no copy
//     remembered the earlier write (forgotten), or if the write did not reach the copies that remembered
//     (overruled).
//   - The sequence number is the number of a pop.
//   - Attempts count from 1.
//   - After a callback that was certainly answered 410 in time, only possible duplicates follow.
func onlyWhatWasTold(r *run, f *Finding) {
	for _, c := range r.unasked {
		f.violation("%s: no write asked for it", c)
	}
	for _, w := range r.writes {
		for _, c := range w.calls {
			reason := w.unlike(c)
			switch {
			case reason != "":
				f.violation("%s: %s", c, reason)
			case c.Version != w.version() && !w.renewedBy(c):
				f.violation("%s: before, the version was %s", c, w.version())
			}
		}
		r.judgeGone(f, w)
	}
	for _, t := range r.timers {
		r.judgeVersions(f, t)
	}
}

// unlike says how a callback differs from the request; empty without a difference.
func (w *write) unlike(c *Callback) string {
	key := w.key
	if key == "" {
		key = w.calls[0].Key
	}
	switch {
	case w.refused:
		return "its write was refused"
	case c.revision != nil && c.revision.op.refused():
		return "its PATCH was refused"
	case c.URL != w.asksOf(c).URL:
		return "its body belongs to " + w.asked.URL
	case c.BodyHash != w.asksOf(c).BodyHash:
		return "its body is not what was asked"
	case !c.ofKey(key):
		return "it is about timer " + c.ID + ", key " + c.Key + ", instead of " + key
	case c.Version == "":
		return "there is no version"
	case c.Seq < 1 || c.Seq > w.asked.Pops:
		return "there is no such pop"
	case c.Attempt < 1:
		return "attempts count from 1"
	}
	return ""
}

func (r *run) judgeGone(f *Finding, w *write) {
	for i, c := range w.calls {
		if !c.gone(r.l.AnswerMargin) {
			continue
		}
		for _, next := range w.calls[i+1:] {
			if next.arrived() > c.over() && r.repeats(w, c, next) == nil {
				f.violation("%s: the timer was ended by a 410 at %s", next, c.over())
			}
		}
		return
	}
}

// judgeVersions demands that the versions of a timer's writes rise in the order in which the writes were certainly
// done.
func (r *run) judgeVersions(f *Finding, t *timer) {
	for _, a := range t.writes {
		for _, b := range t.writes {
			if a == b || a.version() == "" || b.version() == "" || a.returned >= b.invoked {
				continue
			}
			if a.version() >= b.version() && !r.forgotten(t, a, b) && !r.overruled(t, b.op) {
				f.violation("timer %s: version %s of %s is not below %s of %s, which was written later",
					t.key, a.version(), a.asked.URL, b.version(), b.asked.URL)
			}
		}
	}
}

// forgotten tells whether, when b was written, perhaps no shard knew any more of a or of anything after a. The
// version of b then came from a wall clock alone. In addition, a wall clock behind the versions must have jumped by
// then. A create with an Idempotency-Key is remembered longer, and so is a delete.
func (r *run) forgotten(t *timer, a, b *write) bool {
	by := min(b.returned, b.calls[0].arrived())
	if !r.jumped(t, by) {
		return false
	}
	life := time.Duration(0)
	if slices.ContainsFunc(t.writes, func(w *write) bool { return w.op.IdempotencyKey != "" && w.invoked <= by }) {
		life = r.l.IdempotencyLife
	}
	over := func(w *write) bool {
		return w != b && w.version() >= a.version() && slices.ContainsFunc(w.calls, func(c *Callback) bool {
			return (c.Seq == w.asked.Pops || c.gone(0)) && later(c.arrived(), life) <= by
		})
	}
	deleted := func(op *Operation) bool {
		return op.Kind == Delete && later(op.invoked(), max(life, r.l.TombstoneLife)) <= by
	}
	return slices.ContainsFunc(t.writes, over) || slices.ContainsFunc(t.ops, deleted)
}
