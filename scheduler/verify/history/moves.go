package history

import (
	"slices"
	"time"
)

// measured is how much a delay may add to what the delay asks for: the node reads when the pop is due, and
// then writes.
const measured = time.Second

// move is a fire or a delay that may have moved a write's pops.
type move struct {
	*Operation
	by    time.Duration // when the move is in force at the latest
	ahead time.Duration // by how much pops may have come early by then, because of clocks
}

// indexMoves notes in each write the fires and delays that may have moved the write's pops.
func (r *run) indexMoves() {
	for _, t := range r.timers {
		for _, w := range t.writes {
			for _, op := range t.moves {
				by := op.done(r.l.TakesEffect)
				switch {
				case by < w.invoked:
				case op.Kind == Fire:
					w.fires = append(w.fires, move{op, by, r.steps(w, by)})
				default:
					w.delays = append(w.delays, move{op, by, 0})
				}
			}
		}
	}
}

// hastened is the instant before which pop n is not due, given the fires; due is the instant without fires.
func (w *write) hastened(n int, due time.Duration) time.Duration {
	for i := range w.fires {
		at := max(w.fires[i].invoked(), w.invoked)
		if at >= due {
			break
		}
		if w.highest(at) >= n {
			return at
		}
	}
	return due
}

// highest is the highest pop that may have come by an instant, given the fires that were asked for until then: each fire
// has the next pop come, after the pops that had come in time or by an earlier fire.
func (w *write) highest(by time.Duration) (n int) {
	for i := range w.fires {
		f := &w.fires[i]
		if max(f.invoked(), w.invoked) > by {
			break
		}
		n = max(n, w.inTime(min(f.by, by)+f.ahead)) + 1
	}
	return n
}

// inTime is how many pops are due on the grid at an instant, at most.
func (w *write) inTime(at time.Duration) (n int) {
	for n < w.asked.Pops && w.onGrid(n+1) <= at {
		n++
	}
	return n
}

// first is the arrival of the first callback of pop n, or of a later pop; the constant never without a callback.
func (w *write) first(n int) time.Duration {
	for _, c := range w.calls {
		if c.Seq >= n {
			return c.arrived()
		}
	}
	return never
}

// delayedFor is by how much delays have put pop n off for certain: the delays that were acknowledged before the
// pop came. In virtual time a delay of the next pop may be acknowledged at the instant at which the pop comes.
func (w *write) delayedFor(n int) (by time.Duration) {
	for _, op := range w.delays {
		if op.Outcome == OK && op.returned() < w.first(n) {
			by += ms(op.ByMs)
		}
	}
	return by
}

// delayedUpTo is by how much delays have put pop n off at most; the constant never if nobody knows, since the pop may
// have waited for a retry when the delay came.
func (w *write) delayedUpTo(n int) (by time.Duration) {
	for i := range w.delays {
		op := &w.delays[i]
		if op.invoked() > w.first(n) {
			continue
		}
		if w.retriedAt(op) {
			return never
		}
		by += ms(op.ByMs) + measured
	}
	return by
}

// retriedAt tells whether the pop that a delay put off, or the pop before, had a callback that failed or was repeated.
func (w *write) retriedAt(delay *move) bool {
	last := 0
	for _, c := range w.calls {
		if c.arrived() <= delay.by {
			last = max(last, c.Seq)
		}
	}
	return slices.ContainsFunc(w.calls, func(c *Callback) bool {
		return (c.Seq == last || c.Seq == last+1) && (c.Attempt > 1 || !c.succeeded(0))
	})
}

// renewedBy tells whether a delay explains another version than that of the write's first callback.
func (w *write) renewedBy(c *Callback) bool {
	return slices.ContainsFunc(w.delays, func(op move) bool {
		return op.invoked() <= c.arrived() && (op.Answer == nil || op.Answer.Version == "" || op.Answer.Version == c.Version)
	})
}

// delayLost tells whether all copies that knew of a delay may have been lost before the callback.
func (r *run) delayLost(w *write, c *Callback) bool {
	return slices.ContainsFunc(w.delays, func(op move) bool {
		return op.Outcome == OK && r.lost(w.timer(), op.invoked(), c.arrived(), r.told(op.Operation))
	})
}

// judgeFires demands that a callback follows on each fire that was acknowledged: at once, or later by the
// allowances for faults (allowance), by the turn of a backup where a copy was not reached, and by the time for
// which a retry is left to other nodes (Limits.OtherNode). A callback that was under way counts. These fires are not judged:
//
//   - The timer was written to, ended by a 410 or perhaps lost before the callback must have come.
//   - The pops of the timer expire.
//   - A mute node may have made the callback.
func (r *run) judgeFires(f *Finding, t *timer) {
	for _, op := range t.moves {
		if op.Kind != Fire || op.Outcome != OK {
			continue
		}
		for _, w := range t.writes {
			by := r.firedBy(w, op)
			switch {
			case !w.ok, w.returned > op.invoked(), w.expires != never, by > r.until(w), w.goneAt() <= by, r.overruled(t, w.op):
			case r.lost(w.timer(), op.invoked(), by, r.told(op)), r.swallowed(w, op.invoked(), by) > 0:
			case !slices.ContainsFunc(w.heard().calls, func(c *Callback) bool { return c.over() >= op.invoked() && c.arrived() <= by }):
				f.violation("timer %s (%s): no callback by %s after a fire at %s", t.key, w.asked.URL, by, op.returned())
			}
		}
	}
}

// firedBy is when a callback must have come after a fire.
func (r *run) firedBy(w *write, op *Operation) time.Duration {
	at := later(op.returned(), r.l.OtherNode)
	if op.Answer != nil && op.Answer.Unreached > 0 {
		at = later(at, time.Duration(w.rf)*w.skew)
	}
	return later(at, r.allowance(w, op.invoked(), at)) + r.outranked(w, op.invoked(), at)
}
