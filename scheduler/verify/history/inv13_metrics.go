package history

// metricsAgree is invariant 13: what the nodes counted as delivered, gone and failed, in all, is what arrived and how it was
// answered. An answer that was perhaps not in time may be counted either way, and so may one in the window of a fault: the
// process may have died before it counted. Failed attempts may also be of callbacks that never arrived, so there is no upper
// bound to them but when no fault was declared. A process without a sample at its end takes the lower bounds away.
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

// tallied is how many of something there were: as many as are certain, and as may be.
type tallied struct{ least, most int64 }

func (r *run) tally() map[string]tallied {
	limit, surely := r.h.Header.limit(), r.surely()
	var delivered, gone, failed tallied
	for i := range r.h.Callbacks {
		c := &r.h.Callbacks[i]
		certain := c.over(limit) <= r.end && !r.inWindow(c.arrived(), (*Fault).explainsGaps)
		delivered.note(c.succeeded(surely) && certain, c.succeeded(limit))
		gone.note(c.gone(surely) && certain, c.gone(limit))
		may := !c.succeeded(surely) && !c.gone(surely)
		failed.note(may && !c.succeeded(limit) && !c.gone(limit) && certain, may)
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
