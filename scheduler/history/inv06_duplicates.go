package history

import "time"

// noDuplicates is invariant 6: no pop has two callbacks that were both certainly answered 2xx in time (the limit less
// Limits.AnswerMargin), unless one of them arrived in the window of a fault that explains duplicates, or such a fault left
// open where the write was stored (unsure), or a shard's clock was put so far ahead that the first one's lease was over
// (cutShort). Those are counted.
func noDuplicates(r *run, f *Finding) {
	for _, w := range r.writes {
		first := make(map[int]*Callback)
		for _, c := range w.calls {
			before := first[c.Seq]
			switch {
			case !c.succeeded(r.surely()):
			case before == nil:
				first[c.Seq] = c
			case r.mayRepeat(before) || r.mayRepeat(c) || r.unsure(w) || r.cutShort(before, c):
				r.counts.ExplainedDuplicates++
			default:
				f.violation("%s: it was answered %d at %s before", c, before.Status, before.over(r.surely()))
			}
		}
	}
}

func (r *run) mayRepeat(c *Callback) bool {
	return r.inWindow(c.arrived(), (*Fault).explainsDuplicates)
}

// cutShort tells whether a shard's clock was put ahead during a callback, so far that its lease may have been over when the
// next one of the pop came.
func (r *run) cutShort(before, next *Callback) bool {
	var ahead time.Duration
	from, to := before.arrived()-r.l.Settle, before.over(r.h.Header.limit())+r.l.Settle
	for w := range r.during(from, to) {
		if w.Class == ClockStep && w.started() >= from && w.started() <= to {
			ahead += ms(max(w.StepMs, 0))
		}
	}
	return ahead > 0 && next.arrived()-before.arrived()+ahead+r.l.Settle >= r.h.Header.hold()
}

// unsure tells whether a fault that explains duplicates left open where the write was stored: what its answer says was not
// reached may have it all the same, and know nothing of the copy that stands in for it; so may any without an answer. No
// protocol can tell such a copy from one that was never made, as long as nobody who knows of both has seen it.
func (r *run) unsure(w *write) bool {
	return (!w.ok || w.unreached > 0) && r.inWindow(w.invoked, (*Fault).explainsDuplicates)
}
