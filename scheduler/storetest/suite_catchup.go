package storetest

import (
	"time"

	"chronos/scheduler/store"
	"chronos/scheduler/timer"
)

// catchUpCases are several overdue pops of a recurring timer.
func catchUpCases() map[string]func(*rig) {
	return map[string]func(*rig){
		"overdue pops are called one after another": func(r *rig) {
			c, start := r.overdue("k", plenty, 3)
			for seq := 1; seq <= 3; seq++ {
				if seq > 1 {
					c = r.claim(r.b, request())
				}
				f := r.pass(c, plenty, catchingUp(plenty))
				if want := start.Add(time.Duration(seq) * brief); f.State.Seq != seq || f.State.Attempt != 1 || f.LeftOut != 0 || !f.Due.Equal(want) {
					r.Errorf("state %+v, due %v after start, %d left out, want pop %d, on the grid, none", f.State, f.Due.Sub(start), f.LeftOut, seq)
				}
				r.accept(c, store.Settlement{Outcome: store.OutcomeNext})
			}
		},
		"of more overdue pops the latest alone is called": func(r *rig) {
			c, _ := r.overdue("k", 4, 6)
			if f := r.pass(c, 4, catchingUp(3)); f.State.Seq != 4 || f.LeftOut != 3 {
				r.Errorf("state %+v, %d left out, want pop 4, 3", f.State, f.LeftOut)
			}
		},
		"as many overdue pops as are made up for are all called": func(r *rig) {
			c, _ := r.overdue("k", 4, 6)
			if f := r.pass(c, 4, catchingUp(4)); f.State.Seq != 1 || f.LeftOut != 0 {
				r.Errorf("state %+v, %d left out, want pop 1, 0", f.State, f.LeftOut)
			}
		},
		"a pop that had an attempt makes room for the next": func(r *rig) {
			c, _ := r.overdue("k", plenty, 3)
			r.pass(c, plenty, catchingUp(plenty))
			r.accept(c, store.Settlement{Outcome: store.OutcomeAgain, Reason: "status 503"})
			if f := r.pass(r.claim(r.b, request()), plenty, catchingUp(plenty)); f.State.Seq != 2 || f.State.Attempt != 1 || f.LeftOut != 0 {
				r.Errorf("state %+v, %d left out, want the first attempt of pop 2, 0", f.State, f.LeftOut)
			}
		},
		"pops left out are kept until a callback has told of them": checkLeftOutKept,
		"pops left out outlive the node that left them out": func(r *rig) {
			c, _ := r.overdue("k", 4, 6)
			brieflyHeld := catchingUp(1)
			brieflyHeld.Limit, brieflyHeld.Hold = brief/4, brief/4
			r.pass(c, 4, brieflyHeld)
			r.Pass(brief / 2)
			if next := r.claim(r.b, request()); next.Record.LeftOut != 3 || next.Previous != nodeA {
				r.Errorf("%d left out, previous %q, want 3, %q", next.Record.LeftOut, next.Previous, nodeA)
			}
		},
		"pops left out are told to other copies with a failure": checkLeftOutTold,
	}
}

// plenty are more pops than pass on a slow machine.
const plenty = 9999

// catchingUp are terms that fit request's grace, with the given number of overdue pops to make up for.
func catchingUp(pops int) store.FenceTerms {
	t := terms(far, far)
	t.CatchUp = pops
	return t
}

func checkLeftOutKept(r *rig) {
	c, _ := r.overdue("k", 4, 3)
	first := r.pass(c, 4, catchingUp(1)).LeftOut
	if again := r.pass(c, 4, catchingUp(1)); again.LeftOut != first || first < 2 {
		r.Errorf("%d left out, and %d when the fence was sent again, want 2 or 3, the same", first, again.LeftOut)
	}
	r.accept(c, store.Settlement{Outcome: store.OutcomeAgain, Reason: "status 503"})
	if got := r.live("k").Record.LeftOut; got != first {
		r.Errorf("%d left out after a failure, want %d", got, first)
	}
	c = r.claim(r.b, request())
	if f := r.pass(c, 4, catchingUp(1)); f.LeftOut < first {
		r.Errorf("%d left out at the next fence, want %d at least", f.LeftOut, first)
	}
	// As if the pop were not the last.
	r.accept(c, store.Settlement{Outcome: store.OutcomeNext})
	if got := r.live("k").Record.LeftOut; got != 0 {
		r.Errorf("%d left out after a callback, want 0", got)
	}
}

func checkLeftOutTold(r *rig) {
	r.toldStored(outcome(store.WriteLive, "k", 5, 1, 0))
	for i, kind := range []store.WriteKind{store.WriteAgain, store.WriteNext} {
		w := outcome(kind, "k", 5, i+1, 1-i)
		w.Failure, w.LeftOut = store.Failure{Node: nodeA, Reason: "status 503"}, 7
		r.toldStored(w)
		if got := r.live("k").Record; got.LeftOut != 7 {
			r.Errorf("%s: %d left out, want 7", kind, got.LeftOut)
		}
	}
	copied := outcome(store.WriteLive, "k2", 5, 3, 0)
	copied.LeftOut = 7
	r.toldStored(copied)
	if got := r.live("k2").Record.LeftOut; got != 7 {
		r.Errorf("%d left out in a copy, want 7", got)
	}
	w := outcome(store.WriteNext, "k", 5, 3, 0)
	r.toldStored(w)
	if got := r.live("k").Record; got.LeftOut != 0 || got.State != (timer.State{Version: version(5), Seq: 3}) {
		r.Errorf("%d left out in state %+v after a callback, want 0", got.LeftOut, got.State)
	}
}
