package storetest

import (
	"fmt"
	"time"

	"chronos/scheduler/store"
)

// many pops, one every brief, last for longer than any test, also on a machine that is busy.
const many = 99_999

// overdueCases are a recurring timer that nobody looked at: one pop now, the latest, then back on the grid.
func overdueCases() map[string]func(*rig) {
	return map[string]func(*rig){
		"an overdue timer pops once, then is back on its grid": checkMissedPops,
		"an overdue timer never goes past its last pop": func(r *rig) {
			c, start := r.overdue("k", 4, 9)
			f := r.pass(c, 4, terms(far, far))
			if f.State.Seq != 4 || f.State.Attempt != 1 || !f.Due.Equal(start.Add(4*brief)) {
				r.Errorf("state %+v, due %v after start, want the last pop, 4", f.State, f.Due.Sub(start))
			}
		},
		"a one-shot timer keeps its pop however overdue": func(r *rig) {
			w := r.put("k", 1, oneShot(brief/4))
			r.Pass(2 * brief)
			f := r.pass(r.claim(r.a, request()), 1, terms(far, far))
			if f.State.Seq != 1 || !f.Due.Equal(w.Due) {
				r.Errorf("pop %d, due %v, want 1, %v", f.State.Seq, f.Due, w.Due)
			}
		},
		"a pop that is due keeps its number": func(r *rig) {
			c := r.leased("k", recurring(2*brief, 9), far)
			due := c.Record.Start.Add(2 * brief)
			var f store.Fenced
			var at time.Time
			r.awaits("passed", due, due, func() bool {
				_, at = r.during(func() { f = r.fence(c, 9, terms(far, far)) })
				return f.Status == store.FencePassed
			})
			if at.Before(due.Add(2*brief)) && (f.State.Seq != 1 || !f.Due.Equal(due)) {
				r.Errorf("pop %d, due %v, want 1, %v", f.State.Seq, f.Due, due)
			}
		},
		"a renewal keeps the pop that its fence went to": func(r *rig) {
			c, _ := r.overdue("k", many, 3)
			first := r.pass(c, many, terms(far, far))
			r.Pass(3 * brief)
			if again := r.pass(c, many, terms(far, far)); again.State != first.State || !again.Due.Equal(first.Due) {
				r.Errorf("state %+v, want %+v", again.State, first.State)
			}
		},
		"attempts begin anew with a new pop": func(r *rig) {
			c := r.leased("k", recurring(brief, many), far)
			due := c.Record.Start.Add(brief)
			r.awaits("passed", due, due, func() bool { return r.fence(c, many, terms(far, far)).Status == store.FencePassed })
			// As if the pop were the last: the retry may lie behind the next pop.
			r.accept(c, store.Settlement{Outcome: store.OutcomeAgain, Delay: 3 * brief})
			from := r.Now()
			r.Pass(4 * brief)
			c = r.claim(r.b, request())
			f := r.pass(c, many, terms(far, far))
			if f.State.Seq < 4 || f.State.Attempt != 1 {
				r.Errorf("state %+v %v after the retry was set, want the first attempt of a later pop", f.State, r.Now().Sub(from))
			}
		},
		"a next pop that is overdue is looked at from its settlement on": func(r *rig) {
			c, _ := r.overdue("k", many, 2)
			r.pass(c, many, terms(far, far))
			r.Pass(3 * brief)
			from, to := r.during(func() { r.accept(c, store.Settlement{Outcome: store.OutcomeNext, Offset: skewed}) })
			r.between("look", r.live("k").Look, from.Add(skewed), to.Add(skewed))
		},
		"a next pop that is overdue is looked at from when it is told on": func(r *rig) {
			for i, leased := range []bool{false, true} {
				w := outcome(store.WriteLive, fmt.Sprint("k", i), 5, 1, 0)
				w.Timer = recurring(brief, many)
				w.DueIn, w.Offset = 0, 0
				r.toldStored(w)
				r.Pass(3 * brief)
				if leased { // scripts write leased copies in a way of their own
					r.claim(r.a, request())
				}
				w.Kind, w.State.Seq, w.Offset = store.WriteNext, 2, skewed
				from, to := r.during(func() { r.toldStored(w) })
				r.between("look", r.live(w.Key).Look, from.Add(skewed), to.Add(skewed))
			}
		},
		"a next pop that has passed is claimed at once": func(r *rig) {
			c, start := r.overdue("k", many, 2)
			f := r.pass(c, many, terms(far, far))
			r.Pass(3 * brief)
			r.accept(c, store.Settlement{Outcome: store.OutcomeNext})
			c = r.claim(r.b, request())
			next := r.pass(c, many, terms(far, far))
			if next.State.Seq < f.State.Seq+3 || !next.Due.Equal(start.Add(time.Duration(next.State.Seq)*brief)) {
				r.Errorf("after pop %d comes %d, due %v after start, want the latest, on the grid", f.State.Seq, next.State.Seq, next.Due.Sub(start))
			}
		},
	}
}

// overdue claims a timer of pops pops, one every brief, after passed pops.
func (r *rig) overdue(key string, pops, passed int) (c store.Claimed, start time.Time) {
	r.Helper()
	start = r.put(key, 1, recurring(brief, pops)).Due.Add(-brief)
	for r.Now().Before(start.Add(time.Duration(passed)*brief + brief/2)) {
		r.Pass(brief / 4)
	}
	return r.claim(r.a, request()), start
}

// Pops 3 to 7 missed: 7 now, then 8.
func checkMissedPops(r *rig) {
	const pops = 9999 // more than pass on a slow machine
	c, start := r.overdue("k", pops, 2)
	f := r.pass(c, pops, terms(far, far))
	r.accept(c, store.Settlement{Outcome: store.OutcomeNext})
	if got := r.live("k"); got.Record.State.Seq != f.State.Seq+1 {
		r.Fatalf("next is pop %d, want %d", got.Record.State.Seq, f.State.Seq+1)
	}
	next := max(7, f.State.Seq+1) // a slow machine may be beyond
	for r.Now().Before(start.Add(time.Duration(next)*brief + brief/2)) {
		r.Pass(brief / 4)
	}
	c = r.claim(r.b, request())
	from, to := r.during(func() { f = r.pass(c, pops, terms(far, far)) })
	low, high := int(from.Sub(start)/brief), int(to.Sub(start)/brief)
	if f.State.Seq < low || f.State.Seq > high || f.State.Seq < 7 || f.State.Attempt != 1 {
		r.Errorf("state %+v, want the first attempt of the latest pop, %d", f.State, high)
	}
	if want := start.Add(time.Duration(f.State.Seq) * brief); !f.Due.Equal(want) {
		r.Errorf("due %v after start, want %v", f.Due.Sub(start), want.Sub(start))
	}
	r.between("late", f.Due.Add(f.Late), from, to)
	from, to = r.during(func() { r.accept(c, store.Settlement{Outcome: store.OutcomeNext}) })
	got, want := r.live("k"), f.Due.Add(brief)
	if got.Record.State.Seq != f.State.Seq+1 || !got.Due.Equal(want) {
		r.Errorf("next is pop %d, due %v after start, want %d, %v", got.Record.State.Seq, got.Due.Sub(start), f.State.Seq+1, want.Sub(start))
	}
	if from.Before(want) { // else a slow machine settled when the next pop was overdue
		from = want
	}
	if to.Before(want) {
		to = want
	}
	r.between("look", got.Look, from, to)
}
