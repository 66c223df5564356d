package history

import (
	"slices"
	"time"
)

// noneAfterAnswer is invariant 3: once a DELETE or PUT was acknowledged, no callback of an older version arrives. If
// the answer says in flight, callbacks may still arrive for 2 s (Limits.InFlight). Limits.Network is added in all
// cases.
//
// A write is certainly older in two cases (older):
//
//   - The write took effect, if ever, before the invocation of the DELETE or PUT.
//   - By the versions in the callbacks, the write is older, and the timer of the later write was not over meanwhile.
//
// A callback is excused in four cases:
//
//   - The callback was on its way: a mute node sent the callback in time, and the callback arrived within the timer's own
//     limit.
//   - As many owners may have lost the later write since as heard of the later write.
//   - The later write did not reach all copies. A moment before the callback, as many owners were faulty as heard of
//     the later write, or the calling node stood still.
//   - The older write may count as later (overruled).
func noneAfterAnswer(r *run, f *Finding) {
	for _, t := range r.timers {
		for _, op := range t.ops {
			if op.Outcome != OK || op.Kind == Get || op.Kind == Create {
				continue
			}
			last := op.returned() + r.l.Network
			if op.Answer != nil && op.Answer.InFlight {
				last += r.l.InFlight
			}
			if r.overruled(t, op) {
				continue
			}
			for _, w := range t.writes {
				if w.op != op && r.older(w, op, t) {
					r.judgeAfter(f, w, op, last)
				}
			}
		}
	}
}

func (r *run) judgeAfter(f *Finding, w *write, op *Operation, last time.Duration) {
	told, unreached := r.told(op), 0
	if op.Answer != nil && op.Answer.Unreached > 0 { // a DELETE that does not know the owners tells further shards
		unreached = op.Answer.Unreached
		told = min(told, max(w.rf-unreached, 1))
	}
	v := r.byKey[w.key].revisionOf(op)
	for _, c := range w.calls {
		if v != nil && !r.certainlyAfter(v, w, c) {
			continue
		}
		if c.arrived() <= last || r.onItsWay(w, c, last) || r.lost(w.timer(), op.invoked(), c.arrived(), told) {
			continue
		}
		if unreached == 0 || !r.faulty(w.timer(), c.arrived()-r.l.InFlight, c.arrived(), told) && !r.stoodStill(c) {
			f.violation("%s: %s later than the answer to a %s at %s allows", c, c.arrived()-last, op.Kind, op.returned())
		}
	}
}

// onItsWay tells whether a callback may have been sent at an instant and delayed since, as long as the timer's limit at
// most, since the calling node was mute.
func (r *run) onItsWay(w *write, c *Callback, sent time.Duration) bool {
	return c.arrived() <= sent+w.limit && slices.ContainsFunc(r.h.Faults, func(f Fault) bool {
		return f.Mute && f.Node == c.Node && f.started() <= sent && f.ended(r.end)+r.l.Network >= c.arrived()
	})
}

// stoodStill tells whether the node that called stood still a moment before. All shards were silent to the node then,
// also the shards that had heard of the write.
func (r *run) stoodStill(c *Callback) bool {
	return slices.ContainsFunc(r.h.Faults, func(f Fault) bool {
		return f.Class == NodeFreeze && (f.Node == c.Node || c.Node == "") && f.started() <= c.arrived() && later(f.ended(r.end), r.l.Silence+r.l.InFlight) >= c.arrived()
	})
}

// older tells whether w certainly took effect before op, a DELETE or PUT of the same timer. Versions say so only if
// op's timer was not over yet while w was under way: afterwards, w is a new timer.
func (r *run) older(w *write, op *Operation, t *timer) bool {
	if w.returned < op.invoked() {
		return true
	}
	o := t.byOp[op]
	return o != nil && w.invoked <= op.returned() && w.version() != "" && w.version() < o.version() && r.overBy(o, w.returned) == nil
}

// told is how many copies an acknowledged DELETE or PUT reached.
func (r *run) told(op *Operation) int {
	switch {
	case op.Answer == nil:
		return r.h.Header.RF
	case op.Answer.Copies > 0:
		return op.Answer.Copies
	}
	return max(r.h.Header.RF-op.Answer.Unreached, 1)
}
