package history

// noDuplicates is invariant 6: no pop has two callbacks that were both certainly answered 2xx in time (the limit less
// Limits.AnswerMargin), unless one of them arrived in the window of a fault that explains duplicates. Those are counted.
func noDuplicates(r *run, f *Finding) {
	for _, w := range r.writes {
		first := make(map[int]*Callback)
		for _, c := range w.calls {
			before := first[c.Seq]
			switch {
			case !c.succeeded(r.surely()):
			case before == nil:
				first[c.Seq] = c
			case r.mayRepeat(before) || r.mayRepeat(c):
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
