package history

// sequenceRises is invariant 5, about the callbacks of one write in the order of their arrival: sequence numbers rise from
// 1 without gaps, but for pops that an outage or a callback longer than an interval held up until a later one was due
// (gapExplained) or of which too many copies were lost. A lower number comes again only in the window of a fault that
// explains duplicates. A repeat has the same webhook-id, which is key.version.sequence, and no lower attempt, unless a
// fault that explains duplicates may show (the repeat may be by a copy that has not heard of the other attempts) or as many
// shards as there are copies were faulty at once.
func sequenceRises(r *run, f *Finding) {
	for _, w := range r.writes {
		high, attempts := 0, make(map[int]int)
		for _, c := range w.calls {
			if !c.labelled() {
				f.violation("%s: webhook-id is not key.version.sequence of %s, %s, %d", c, c.Key, c.Version, c.Seq)
			}
			if c.Seq > w.asked.Pops {
				continue // invariant 4
			}
			r.judgeGap(f, w, c, high)
			if c.Seq < high && !r.mayRepeat(c) {
				f.violation("%s: %d came before", c, high)
			}
			if c.Attempt < attempts[c.Seq] && !r.mayRepeat(c) && !r.unsure(w) && !r.faulty(w.invoked, c.arrived(), r.copies(w, c.arrived())) {
				f.violation("%s: attempt %d came before", c, attempts[c.Seq])
			}
			high, attempts[c.Seq] = max(high, c.Seq), max(attempts[c.Seq], c.Attempt)
		}
	}
}

func (r *run) judgeGap(f *Finding, w *write, c *Callback, high int) {
	for n := high + 1; n < c.Seq; n++ {
		if !r.gapExplained(w, n) && !r.lost(w.invoked, c.arrived(), r.copies(w, c.arrived())) {
			f.violation("%s: pop %d is left out for no reason", c, n)
			return
		}
	}
}
