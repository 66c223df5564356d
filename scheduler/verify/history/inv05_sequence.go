package history

import "slices"

// sequenceRises is invariant 5, about the callbacks of one write in the order of their arrival:
//
//   - Sequence numbers rise from 1 without gaps. A pop may be left out if an outage or a long callback held the pop
//     up until a later pop was due (gapExplained). A pop may also be left out if too many copies were lost.
//   - A lower number comes again only if a fault explains a duplicate (repeats).
//   - The webhook-id is key.version.sequence, so a repeat has the same webhook-id.
//   - A repeat of the same version has no lower attempt, unless the caller may not have heard of the higher attempt (forgot), or
//     called before the higher attempt, and the call was slow (underWay).
func sequenceRises(r *run, f *Finding) {
	for _, w := range r.writes {
		highest, last := (*Callback)(nil), make(map[int]*Callback) // by pop, the callback of the highest attempt
		for _, c := range w.calls {
			if !c.labelled() {
				f.violation("%s: webhook-id is not key.version.sequence of %s, %s, %d", c, c.Key, c.Version, c.Seq)
			}
			if c.Seq > w.asked.Pops {
				continue // invariant 4
			}
			r.judgeGap(f, w, c, highest)
			if highest != nil && c.Seq < highest.Seq && r.repeats(w, highest, c) == nil {
				f.violation("%s: %d came before", c, highest.Seq)
			}
			if before := last[c.Seq]; before != nil && c.Attempt < before.Attempt && c.Version == before.Version && !r.forgot(w, before, c) && !r.underWay(c, before) {
				f.violation("%s: attempt %d came before", c, before.Attempt)
			}
			if highest == nil || c.Seq > highest.Seq {
				highest = c
			}
			if before := last[c.Seq]; before == nil || c.Attempt > before.Attempt {
				last[c.Seq] = c
			}
		}
	}
}

// forgot tells whether a fault may have hidden the callback before from the caller of c, or whether all copies that
// knew of the callback were faulty at once.
func (r *run) forgot(w *write, before, c *Callback) bool {
	return r.repeats(w, before, c) != nil || r.faulty(w.timer(), w.invoked, c.arrived(), r.copies(w, c.arrived()))
}

// underWay tells whether c may have been under way when the other callback arrived: the calls of c's node were slow.
func (r *run) underWay(c, other *Callback) bool {
	return slices.ContainsFunc(r.h.Faults, func(f Fault) bool {
		return f.Class == Slow && f.Node == c.Node && f.overlaps(c.arrived()-ms(f.CallMs), c.arrived(), 0) && c.arrived()-ms(f.CallMs) <= other.arrived()
	})
}

func (r *run) judgeGap(f *Finding, w *write, c, highest *Callback) {
	high := 0
	if highest != nil {
		high = highest.Seq
	}
	for n := high + 1; n < c.Seq; n++ {
		if !r.gapExplained(w, n) && !r.lost(w.timer(), w.invoked, c.arrived(), r.copies(w, c.arrived())) {
			f.violation("%s: pop %d is left out for no reason", c, n)
			return
		}
	}
}
