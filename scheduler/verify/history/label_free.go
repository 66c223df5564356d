package history

import (
	"net/http"
	"slices"
	"time"
)

// labelFree is the second check, which looks at no label. The arrivals of a write that were answered 2xx in time are
// taken in order. Every arrival gets the pop that has come due and whose bound is next (earliest deadline first).
//
// An arrival without a pop is a violation, unless a fault explains a duplicate (repeats), maybe an earlier duplicate
// that got a pop (earlierRepeats), or may have cut the lease of an earlier callback short (cutShort). Obligatory pops without an arrival are violations, too, beyond the number
// that these excuses account for:
//
//   - Pops of a recurring timer that a fault, or a long callback, may have held up until the next pop was due.
//   - All failed callbacks of a recurring timer, since the next pop ends the attempts.
//   - As many failed callbacks of a one-shot timer as there are attempts. Fewer are enough if a fault may have taken
//     the rest, or the next attempt is yet to come.
//   - Pops whose attempts mute nodes may all have made (allSwallowed).
//   - Pops of a recurring timer that may have expired (perhapsExpired).
//
// After a failed callback, no bound is held against an arrival.
func labelFree(r *run, f *Finding) {
	for _, w := range r.writes {
		if w.refused {
			continue
		}
		m := r.match(w)
		repeats := r.earlierRepeats(w, &m)
		for _, c := range m.unmatched {
			switch {
			case slices.ContainsFunc(w.retryOf(c), func(of *Callback) bool { return r.mayRepeat(w, of) }):
			case repeats > 0:
				repeats--
			default:
				f.violation("arrival at %s at %s: no pop was due for it", w.asked.URL, c.arrived())
			}
		}
		if len(m.missing) == 0 {
			continue
		}
		for _, n := range m.missing[min(r.excuses(w, &m), len(m.missing)):] {
			f.violation("timer at %s: no arrival for pop %d, due by %s", w.asked.URL, n, w.latest(n))
		}
	}
}

// mayRepeat tells whether a fault explains that a callback repeats an earlier callback.
func (r *run) mayRepeat(w *write, c *Callback) bool {
	return slices.ContainsFunc(w.calls, func(o *Callback) bool {
		return o.arrived() <= c.arrived() && (r.repeats(w, o, c) != nil || o != c && r.cutShort(o, c))
	})
}

// earlierRepeats is the number of matched arrivals that may repeat an earlier callback. While pops are
// overdue, such a repeat gets a pop, and the arrival for the last pop gets none.
func (r *run) earlierRepeats(w *write, m *matching) (n int) {
	if len(m.unmatched) == 0 || w.asked.Pops == 1 {
		return 0
	}
	for _, c := range w.calls {
		if c.succeeded(0) && !slices.Contains(m.unmatched, c) && r.mayRepeat(w, c) {
			n++
		}
	}
	return n
}

// retryOf are the callback and the failed callbacks right before, of which the callback may be a retry.
func (w *write) retryOf(c *Callback) []*Callback {
	all := []*Callback{c}
	for i := slices.Index(w.calls, c) - 1; i >= 0 && w.calls[i].Status >= http.StatusMultipleChoices; i-- {
		all = append(all, w.calls[i])
	}
	return all
}

// matching is the rest after every arrival got a pop.
type matching struct {
	unmatched, failed []*Callback
	missing           []int
}

func (r *run) match(w *write) (m matching) {
	heard := w.heard()
	var open []int // pops that have come due, in the order of their bounds
	var before held
	taken, due := make(map[int]bool), 1
	for _, c := range heard.calls {
		early := r.l.Early + r.steps(heard, c.arrived())
		for ; due <= w.asked.Pops && heard.earliest(due)-early <= c.arrived(); due++ {
			open = append(open, due)
		}
		open = slices.DeleteFunc(open, func(n int) bool { return len(m.failed) == 0 && c.arrived() > r.boundAfter(heard, n, before) })
		before = before.and(r.holds(heard, c))
		switch {
		case !c.succeeded(0):
			m.failed = append(m.failed, c)
		case len(open) > 0:
			taken[open[0]], open = true, open[1:]
		case heard == w && c.succeeded(r.l.AnswerMargin):
			m.unmatched = append(m.unmatched, c)
		}
	}
	r.eachObligatory(w, func(n int, _ time.Duration) {
		if !taken[n] {
			m.missing = append(m.missing, n)
		}
	})
	return m
}

// excuses is the number of pops whose missing arrival is accounted for.
func (r *run) excuses(w *write, m *matching) int {
	if w.asked.Pops == 1 && !r.allSwallowed(w, 1) {
		return r.excusesOnce(w, m.failed)
	}
	n := len(m.failed) + r.perhapsExpired(w)
	r.eachObligatory(w, func(pop int, _ time.Duration) {
		ranInto := func(c *Callback) bool { return c.arrived() < w.earliest(pop) && r.ranInto(w, c, pop) }
		if pop < w.asked.Pops && (r.heldUp(w, pop) || slices.ContainsFunc(w.calls, ranInto)) || r.allSwallowed(w, pop) {
			n++
		}
	})
	return n
}

// perhapsExpired is the number of pops that may have expired. No such pop is obligatory, but an arrival may
// have been taken for the pop's.
func (r *run) perhapsExpired(w *write) (pops int) {
	for n := 1; n <= w.asked.Pops && w.expires != never && w.latest(n) <= r.until(w); n++ {
		if r.expiresBy(w, n, r.boundHeld(w, n)) {
			pops++
		}
	}
	return pops
}

func (r *run) excusesOnce(w *write, failed []*Callback) int {
	if len(failed) == 0 {
		return 0
	}
	last := failed[len(failed)-1]
	by := r.retryBy(w, last, len(failed))
	switch {
	case last.gone(0), len(failed) >= w.attempts, r.swallowed(w, failed[0].arrived(), by) > 0, r.expiresBy(w, 1, by),
		r.explained(failed[0].arrived(), by, (*Fault).explainsDuplicates), by > r.until(w):
		return 1
	}
	return 0
}
