package history

import (
	"slices"
	"time"
)

// nothingLost is invariant 1: each obligatory pop was answered 2xx (or 410) within the limit; that it was in time is
// invariant 7's to say.
//
// A pop is obligatory if its write was acknowledged and its bound (boundHeld) lies before the end of the recording and before
// the invocation of any other write to the timer that overlaps or follows; a write with an unknown outcome may take
// effect at any time after its invocation, so nothing that is due later is obligatory.
//
// Not lost is a pop
//   - of a timer of which as many shards as it had copies were away or lost data at once, and one lost data, be it while the
//     next attempt was yet to come (lostBeforeRetry)
//   - of a timer whose earlier end or version may count as the later one (overruled)
//   - that was due, or could still come, when a 410 ended the timer
//   - that our receiver refused until the attempts were used up, or the next pop was due (givenUp)
//   - of a recurring timer that was left out in favour of a later one that came (gapExplained)
func nothingLost(r *run, f *Finding) {
	for _, w := range r.writes {
		r.eachObligatory(w, func(n int, bound time.Duration) {
			r.counts.Obligatory++
			if r.inWindow(w.latest(n), func(*Fault) bool { return true }) {
				r.counts.InWindows++
			}
			limit := r.h.Header.limit()
			switch c := w.heard(); {
			case c.delivered(n, limit):
			case r.givenUp(c, n, r.until(w)):
				r.counts.GivenUp++
			case len(c.pops[n]) == 0 && c.follows(n) && r.gapExplained(c, n):
				r.counts.Skipped++
			case r.lostBeforeRetry(c, n):
			case len(c.pops[n]) > 0:
				f.violation("timer %s (%s) pop %d: came %d times, never answered 2xx in time, and was not tried again",
					w.key, w.asked.URL, n, len(c.pops[n]))
			default:
				f.violation("timer %s (%s) pop %d: due by %s, did not come by %s", w.key, w.asked.URL, n, w.latest(n), bound)
			}
		})
	}
}

// lostBeforeRetry tells whether all copies may have been lost after the last attempt at pop n, before the next one was made.
func (r *run) lostBeforeRetry(w *write, n int) bool {
	calls := w.pops[n]
	if len(calls) == 0 {
		return false
	}
	last := calls[len(calls)-1]
	by := r.retryBy(w, last, last.Attempt)
	return r.lost(w.timer(), last.arrived(), by, r.copies(w, by))
}

// eachObligatory calls do for each obligatory pop of w, in order.
func (r *run) eachObligatory(w *write, do func(n int, bound time.Duration)) {
	if !w.ok || r.overruled(r.byKey[w.key], w.op) {
		return
	}
	until := r.until(w)
	gone := w.heard().goneAt(r.h.Header.limit())
	for n := 1; n <= w.asked.Pops && w.latest(n) <= until; n++ {
		bound := r.boundHeld(w, n)
		if gone <= bound || r.lost(w.timer(), w.invoked, bound, r.copies(w, bound)) {
			return
		}
		if bound <= until {
			do(n, bound)
		}
	}
}

// until is when the obligations of an acknowledged write end: when the recording does, or when another write to the timer
// was invoked that didn't certainly come before.
func (r *run) until(w *write) time.Duration {
	if w.until == 0 {
		w.until = r.untilOf(w)
	}
	return w.until
}

func (r *run) untilOf(w *write) time.Duration {
	until := r.end
	t := r.byKey[w.key]
	if t == nil {
		return until
	}
	for _, op := range t.ops {
		if op == w.op || !op.writes() || r.done(t, op) < w.invoked {
			continue
		}
		if o := t.byOp[op]; o != nil && (o.before != nil || o == w.root()) {
			continue // a repeat replaces nothing
		}
		until = min(until, op.invoked())
	}
	return until
}

// overruled tells whether something that was done to the timer before may count as done after the operation: a copy that
// this did not reach, by what its answer says, may have it, and those that it did reach knew nothing of it (they had not
// been told, or have given their copies away since, or it was over), so that the nodes' clocks alone order the two, and one
// of these had jumped. Where it was over while the shards changed, a node that had leased it before may have said so to
// a shard of which the others knew no more, and which is asked when it is swept.
func (r *run) overruled(t *timer, op *Operation) bool {
	if t == nil || op.Answer == nil || !r.jumped(t, op.invoked()) {
		return false
	}
	return slices.ContainsFunc(t.ops, func(before *Operation) bool {
		if before == op || !before.writes() || r.done(t, before) > op.invoked() || before.Answer == nil {
			return false
		}
		over := r.overBy(t.byOp[before], op.invoked())
		if op.Answer.Unreached == 0 {
			return over != nil && r.changing(over.arrived()-r.horizon(), over.arrived())
		}
		return over != nil || r.fewest(r.told(before), before.invoked(), op.invoked()) <= op.Answer.Unreached
	})
}

// jumped tells whether the wall clock of a node that wrote to the timer had jumped by then.
func (r *run) jumped(t *timer, by time.Duration) bool {
	wrote := func(node string) bool {
		return slices.ContainsFunc(t.ops, func(op *Operation) bool { return op.writes() && op.Node == node }) ||
			slices.ContainsFunc(t.writes, func(w *write) bool { return slices.Contains(w.nodes, node) })
	}
	return slices.ContainsFunc(r.h.Faults, func(f Fault) bool {
		return f.Class == NodeClock && f.started() <= by && wrote(f.Node)
	})
}

// overBy is the callback with which the last pop of a write may have been done by then, nil if none was.
func (r *run) overBy(w *write, by time.Duration) *Callback {
	if w == nil {
		return nil
	}
	for _, c := range w.calls {
		if (c.Seq == w.asked.Pops || c.gone(r.h.Header.limit())) && c.arrived() <= by {
			return c
		}
	}
	return nil
}
