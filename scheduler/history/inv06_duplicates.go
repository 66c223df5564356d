package history

// noDuplicates is invariant 6: no pop has two callbacks that were both certainly answered 2xx in time (the limit less
// Limits.AnswerMargin), unless one of them arrived in the window of a fault that explains duplicates, or such a fault left
// open where the write was stored (unsure). Those are counted.
func noDuplicates(r *run, f *Finding) {
	for _, w := range r.writes {
		first := make(map[int]*Callback)
		for _, c := range w.calls {
			before := first[c.Seq]
			switch {
			case !c.succeeded(r.surely()):
			case before == nil:
				first[c.Seq] = c
			case r.mayRepeat(before) || r.mayRepeat(c) || r.unsure(w):
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

// unsure tells whether a fault that explains duplicates left open where the write was stored: what its answer says was not
// reached may have it all the same, and know nothing of the copy that stands in for it; so may any without an answer. No
// protocol can tell such a copy from one that was never made, as long as nobody who knows of both has seen it.
func (r *run) unsure(w *write) bool {
	return (!w.ok || w.unreached > 0) && r.inWindow(w.invoked, (*Fault).explainsDuplicates)
}
