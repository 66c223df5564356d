package history

import "slices"

// onTime is invariant 7, about acknowledged writes: the first callback of a pop arrives by its bound (bound). The
// bound counts from the latest of three instants:
//
//   - The pop was certainly due (answer + n × interval, or `at`).
//   - 2 s have passed since an answer that says in flight.
//   - The callbacks of earlier pops were over.
//
// A fire that was acknowledged is followed by a callback (judgeFires).
//
// No callback arrives after its pop has expired, beyond the time that a fence is good for.
//
// Faults add their allowance (allowance). The callback after a failed callback arrives by retryBy. Three kinds of
// callbacks have no bound:
//
//   - Repeats after a success. Invariant 6 judges repeats.
//   - Repeats of a pop after a callback of a later pop. Invariant 5 judges these repeats.
//   - Callbacks after an acknowledged later write that did not reach all copies. Invariant 3 judges whether the
//     callbacks may come at all.
func onTime(r *run, f *Finding) {
	for _, w := range r.writes {
		if !w.ok {
			continue
		}
		var before held // by the callbacks before c
		last, highest := make(map[int]*Callback), 0
		for _, c := range w.calls {
			if c.Seq < 1 || c.Seq > w.asked.Pops {
				continue // invariant 4
			}
			if r.replacedBefore(w, c) {
				continue // invariant 3
			}
			if by := later(w.latest(c.Seq), w.expires); w.expires != never && c.arrived() > later(by, r.h.Header.limit()+r.l.Network)+r.steps(w, c.arrived()) {
				f.violation("%s: expired at %s, and came %s later", c, by, c.arrived()-by)
			}
			if previous := last[c.Seq]; previous == nil {
				r.judgeFirst(f, w, c, before)
			} else if c.Seq == highest && !previous.succeeded(0) && !previous.gone(0) {
				if by := r.retryBy(w, previous, max(previous.Attempt, c.Attempt-1)); c.arrived() > by {
					f.violation("%s: %s too late after attempt %d", c, c.arrived()-by, previous.Attempt)
				}
			}
			last[c.Seq], highest = c, max(highest, c.Seq)
			before = before.and(r.holds(w, c))
		}
	}
	for _, t := range r.timers {
		r.judgeFires(f, t)
	}
}

// replacedBefore tells whether a later write than w was acknowledged before the callback came, and did not reach all
// copies.
func (r *run) replacedBefore(w *write, c *Callback) bool {
	t := r.byKey[w.key]
	return t != nil && slices.ContainsFunc(t.ops, func(op *Operation) bool {
		return op != w.op && op.Outcome == OK && (op.Kind == Replace || op.Kind == Delete) && op.Answer != nil && op.Answer.Unreached > 0 &&
			op.returned() <= c.arrived() && r.older(w, op, t)
	})
}

func (r *run) judgeFirst(f *Finding, w *write, c *Callback, before held) {
	due := max(w.latest(c.Seq), w.busyUntil)
	late := c.arrived() - due
	r.counts.WorstLateNs = max(r.counts.WorstLateNs, late)
	if !r.explained(due, c.arrived(), func(*Fault) bool { return true }) {
		r.counts.WorstLateQuietNs = max(r.counts.WorstLateQuietNs, late)
	}
	if by := r.boundAfter(w, c.Seq, before); c.arrived() > by {
		f.violation("%s: due by %s, %s late, %s more than allowed", c, due, late, c.arrived()-by)
	}
}
