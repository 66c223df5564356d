package history

import (
	"slices"
	"time"
)

// nothingLost is invariant 1: every obligatory pop was answered 2xx or 410 within the limit. Invariant 7 judges
// whether the callback came in time.
//
// A pop is obligatory if its write was acknowledged, and if the bound of the pop (boundHeld) lies before these
// instants:
//
//   - The end of the recording, and the time at which the pop expires.
//   - The invocation of any further write to the timer that overlaps or follows. A write with an unknown outcome may
//     take effect at any time after its invocation, so no pop that is due later is obligatory.
//
// A pop is not lost in these cases:
//
//   - As many shards as the timer had copies were faulty at once, and a shard lost data. The loss may also come while
//     the next attempt was yet to come (lostBeforeRetry).
//   - An earlier end or version of the timer may count as the later one (overruled).
//   - The pop was due, or could still come, when a 410 ended the timer.
//   - Our receiver refused the pop until the attempts were used up, the pop had expired, or the next pop was due
//     (givenUp).
//   - The pop of a recurring timer was left out in favour of a later pop that came (gapExplained).
func nothingLost(r *run, f *Finding) {
	for _, w := range r.writes {
		r.eachObligatory(w, func(n int, bound time.Duration) {
			r.counts.Obligatory++
			if r.inWindow(w.latest(n), func(*Fault) bool { return true }) {
				r.counts.InWindows++
			}
			switch c := w.heard(); {
			case c.delivered(n, 0):
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

// lostBeforeRetry tells whether all copies may have been lost after the last attempt at pop n, before the next
// attempt.
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
	gone := w.heard().goneAt()
	for n := 1; n <= w.asked.Pops && w.latest(n) <= until; n++ {
		bound := r.boundHeld(w, n)
		if gone <= bound || r.lost(w.timer(), w.invoked, bound, r.copies(w, bound)) {
			return
		}
		if bound <= until && !r.expiresBy(w, n, bound) {
			do(n, bound)
		}
	}
}

// until is when the obligations of an acknowledged write end. The end of the recording ends the obligations, and so
// does the invocation of another write that was not certainly done before.
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
		if op == w.op || !op.replaces() || r.done(t, op) < w.invoked {
			continue
		}
		if o := t.byOp[op]; o != nil && (o.before != nil || o == w.root()) {
			continue // a repeat replaces nothing
		}
		until = min(until, op.invoked())
	}
	return until
}

// overruled tells whether an earlier write or end of the timer may count as later than the operation. A node's wall
// clock must have jumped, and wall clocks alone must order the operation and the earlier change: the copies that the
// operation reached knew nothing of the earlier change. There are three cases:
//
//   - By its answer, the operation did not reach some copies. These copies may be the only copies with the earlier
//     write: the rest was never reached by the earlier write, or has been given away since.
//   - By its answer, the operation did not reach some copies, and the timer was over before.
//   - The timer was over while the shards changed. A node with an earlier lease may have written the end to a shard
//     that the rest did not know of any more. The sweep of the shard reads the end.
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

// overBy is the callback that may have ended the timer by then: at the last pop of the write, or by a 410. overBy is
// nil without such a callback.
func (r *run) overBy(w *write, by time.Duration) *Callback {
	if w == nil {
		return nil
	}
	for _, c := range w.calls {
		if (c.Seq == w.asked.Pops || c.gone(0)) && c.arrived() <= by {
			return c
		}
	}
	return nil
}
