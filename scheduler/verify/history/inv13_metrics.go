package history

// metricsAgree is invariant 13: the nodes' totals of delivered, gone and failed callbacks agree with the arrivals and
// their answers. An answer that was perhaps not in time may be counted either way. An answer in the window of a fault
// may be missing, since the process may have died before counting.
//
// Failed attempts may include callbacks that never arrived, so the total of failures has an upper bound only without
// faults. If a process has no sample at its end, no lower bound applies.
func metricsAgree(r *run, f *Finding) {
	counted := make(map[string]int64)
	type process struct {
		node   string
		number int
	}
	begun, finished := make(map[process]bool), make(map[process]bool)
	for i := range r.h.Samples {
		s := &r.h.Samples[i]
		p := process{s.Node, s.Process}
		if s.Phase == Begin {
			begun[p] = true
			continue
		}
		finished[p] = true
		for name, n := range s.Counters {
			counted[name] += n
		}
	}
	if len(finished) == 0 {
		f.notJudged("no process was sampled at the end")
		return
	}
	whole := true
	for p := range begun {
		whole = whole && finished[p]
	}
	bounds := r.tally()
	for _, name := range sortedKeys(bounds) {
		b, n := bounds[name], counted[name]
		if whole && n < b.least || n > b.most {
			f.violation("%s: the nodes counted %d; the history has from %d to %d", name, n, b.least, b.most)
		}
	}
}

// tallied bounds a number of callbacks: at least the certain callbacks, at most the possible callbacks.
type tallied struct{ least, most int64 }

func (r *run) tally() map[string]tallied {
	var delivered, gone, failed tallied
	for i := range r.h.Callbacks {
		c := &r.h.Callbacks[i]
		certain := c.over() <= r.end && !r.inWindow(c.arrived(), (*Fault).explainsGaps)
		delivered.note(c.succeeded(r.l.AnswerMargin) && certain, c.succeeded(0))
		gone.note(c.gone(r.l.AnswerMargin) && certain, c.gone(0))
		may := !c.succeeded(r.l.AnswerMargin) && !c.gone(r.l.AnswerMargin)
		failed.note(may && !c.succeeded(0) && !c.gone(0) && certain, may)
	}
	if len(r.windows) > 0 {
		failed.most = int64(never)
	}
	return map[string]tallied{CountDelivered: delivered, CountGone: gone, CountFailed: failed}
}

func (t *tallied) note(certain, possible bool) {
	if certain {
		t.least++
	}
	if possible {
		t.most++
	}
}
