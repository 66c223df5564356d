package storetest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"chronos/scheduler/store"
	"chronos/scheduler/timer"
)

func settleCases() map[string]func(*rig) {
	return map[string]func(*rig){
		"settle done leaves nothing": func(r *rig) { r.checkEnds(store.Settlement{Outcome: store.OutcomeDone}) },
		"settle dead leaves nothing": func(r *rig) {
			r.checkEnds(store.Settlement{Outcome: store.OutcomeDead, Reason: "410 Gone: it said \"no more\""})
		},
		"settle next goes to the next pop on the grid": checkNext,
		"settle again waits and names who failed":      checkAgain,
		"settle keeps why the callback failed":         checkFailure,
		"settle again is as long as it says": func(r *rig) {
			c, _ := r.overdue("k", 3, 4)
			r.pass(c, 3, terms(far, far))
			from, to := r.during(func() { r.accept(c, store.Settlement{Outcome: store.OutcomeAgain, Delay: far}) })
			got := r.live("k")
			if want := (timer.State{Version: version(1), Seq: 3, Attempt: 1}); got.Record.State != want {
				r.Errorf("state %+v, want %+v", got.Record.State, want)
			}
			r.between("next look", got.Look, from.Add(far), to.Add(far))
		},
		"settle twice is accepted once":                checkSettleTwice,
		"settle of a lease that ended changes nothing": checkSettleLost,
		"settle of a lease taken over names the holder": func(r *rig) {
			c := r.leased("k", oneShot(0), far)
			from, to := r.during(func() { r.pass(c, 1, terms(brief, brief)) })
			r.awaits("taken over", from.Add(brief), to.Add(brief), func() bool { return len(r.claimAll(r.b, request())) == 1 })
			for range 2 {
				if s := r.settle(c, store.Settlement{Outcome: store.OutcomeDone}); s.Accepted || s.Holder != nodeB {
					r.Errorf("settled %+v, want not accepted, held by %q", s, nodeB)
				}
			}
		},
		"settle of what isn't there is not accepted": func(r *rig) {
			c := r.leased("k", oneShot(0), far)
			c.Lease.Key = "other"
			if s := r.settle(c, store.Settlement{Outcome: store.OutcomeNext}); s.Accepted || s.Holder != "" {
				r.Errorf("settled %+v, want not accepted, nobody", s)
			}
		},
		"settle without a fence": func(r *rig) {
			r.accept(r.leased("k", oneShot(far), far), store.Settlement{Outcome: store.OutcomeDead, Reason: "unreadable"})
			if n := r.pending(); n != 0 {
				r.Errorf("%d left, want nothing", n)
			}
		},
	}
}

// checkEnds fires a timer and checks that the outcome leaves nothing of the timer.
func (r *rig) checkEnds(o store.Settlement) {
	c := r.leased("k", oneShot(0), far)
	r.pass(c, 1, terms(far, far))
	r.accept(c, o)
	if !errors.Is(r.read("k").Err, timer.ErrNotFound) {
		r.Error("it can still be read")
	}
	if n := r.pending(); n != 0 {
		r.Errorf("%d left, want nothing", n)
	}
	if d, _ := r.ask(c.Lease.Shard, "k", timer.State{}); !d.Missing {
		r.Errorf("ask says %+v, want missing", d)
	}
	if w := r.put("k", 2, nil); w.Firing > 0 {
		r.Error("a delete afterwards is answered in flight")
	}
}

func checkNext(r *rig) {
	start := r.put("k", 1, recurring(far, 4)).Due.Add(-far)
	req := request()
	req.Horizon = 9 * far
	for seq := 2; seq <= 4; seq++ {
		r.Pass(3 * time.Millisecond) // the pause must not move the grid
		r.accept(r.claim(r.a, req), store.Settlement{Outcome: store.OutcomeNext, Offset: time.Minute})
		got := r.live("k")
		due := start.Add(time.Duration(seq) * far)
		if want := (timer.State{Version: version(1), Seq: seq}); got.Record.State != want {
			r.Errorf("state is %+v, want %+v", got.Record.State, want)
		}
		if !got.Look.Equal(due.Add(time.Minute)) || !got.Due.Equal(due) || !got.Record.Start.Equal(start) || got.Leased {
			r.Errorf("pop %d: %+v, want due %v after start and looked at a minute later, unleased", seq, got, due.Sub(start))
		}
	}
}

func checkAgain(r *rig) {
	for i, pops := range []int{1, 99} {
		key := keys(2)[i]
		c, _ := r.overdue(key, pops, 1)
		f := r.pass(c, 1, terms(far, far)) // with a single pop the fence stays on the pop
		from, to := r.during(func() {
			r.accept(c, store.Settlement{Outcome: store.OutcomeAgain, Delay: brief / 4, Offset: brief / 4})
		})
		got := r.live(key)
		if got.Record.State != f.State || got.Record.State.Attempt != 1 || got.Record.Failure.Node != nodeA || got.Leased {
			r.Errorf("state %+v, failed by %q, leased %v, want %+v, %q, false", got.Record.State, got.Record.Failure.Node, got.Leased, f.State, nodeA)
		}
		r.between("next look", got.Look, from.Add(brief/2), to.Add(brief/2))
		if !got.Due.Equal(got.Look) {
			r.Errorf("due %v, want when the retry is, %v", got.Due, got.Look)
		}
		r.awaits("claimed", from.Add(brief/2), to.Add(brief/2), func() bool { return len(r.claimAll(r.b, request())) == 1 })
	}
}

// checkFailure: the last failure is known until an attempt succeeds.
func checkFailure(r *rig) {
	r.put("k", 1, recurring(far, 9))
	req := request()
	req.Horizon = 9 * far
	fails := func(outcome store.Outcome, reason string) {
		r.Helper()
		from, to := r.during(func() { r.accept(r.claim(r.a, req), store.Settlement{Outcome: outcome, Reason: reason}) })
		got := r.live("k").Record.Failure
		if got.Node != nodeA || got.Reason != reason {
			r.Errorf("%s: failure %+v, want by %q: %q", outcome, got, nodeA, reason)
		}
		r.between("failure", got.At, from, to)
	}
	fails(store.OutcomeAgain, "status 500")
	fails(store.OutcomeAgain, "no answer within 2 s: 100% -")
	fails(store.OutcomeNext, "status 503")
	fails(store.OutcomeAgain, "")
	r.accept(r.claim(r.a, req), store.Settlement{Outcome: store.OutcomeRelease})
	if got := r.live("k").Record.Failure; got.Node != nodeA {
		r.Errorf("after a release: failure %+v, want it kept", got)
	}
	r.accept(r.claim(r.a, req), store.Settlement{Outcome: store.OutcomeNext})
	if got := r.live("k").Record.Failure; got != (store.Failure{}) {
		r.Errorf("after a success: failure %+v, want none", got)
	}
}

func checkSettleTwice(r *rig) {
	for i, o := range []store.Settlement{
		{Outcome: store.OutcomeRelease, Delay: far}, {Outcome: store.OutcomeAgain, Delay: far}, {Outcome: store.OutcomeNext},
		{Outcome: store.OutcomeDone}, {Outcome: store.OutcomeDead},
	} {
		r.Run(fmt.Sprint("outcome ", o.Outcome), func(t *testing.T) {
			sub := &rig{T: t, Fixture: r.Fixture, a: r.a, b: r.b}
			key := keys(9)[i]
			asked := recurring(brief, 1000)
			sub.put(key, 1, asked)
			c := sub.claim(sub.a, store.ClaimRequest{Horizon: far, Limit: 99, Grace: far})
			sub.accept(c, o)
			before, pending := sub.read(key), sub.pending()
			for range 2 {
				if s := sub.settle(c, o); s.Accepted || s.Holder != "" {
					t.Errorf("sent again: %+v, want not accepted, nobody", s)
				}
			}
			after := sub.read(key)
			if before.Record.State != after.Record.State || !before.Look.Equal(after.Look) || pending != sub.pending() {
				t.Errorf("sent again it changed %+v into %+v", before, after)
			}
			sub.merge(write(key, 2, nil))
		})
	}
}

func checkSettleLost(r *rig) {
	c := r.leased("k", oneShot(0), far)
	r.accept(c, store.Settlement{Outcome: store.OutcomeRelease})
	again := r.claim(r.a, request()) // the same node, another lease
	before := r.live("k")
	for _, outcome := range []store.Outcome{
		store.OutcomeRelease, store.OutcomeAgain, store.OutcomeNext, store.OutcomeDead, store.OutcomeDone,
	} {
		if s := r.settle(c, store.Settlement{Outcome: outcome, Delay: brief}); s.Accepted {
			r.Errorf("outcome %d was accepted", outcome)
		}
	}
	if after := r.live("k"); after.Record.State != before.Record.State || !after.Look.Equal(before.Look) || !after.Leased {
		r.Errorf("they changed %+v into %+v", before, after)
	}
	r.pass(again, 1, terms(far, far))
}

// releaseCases are claims that came to nothing: the timers are due again as before.
func releaseCases() map[string]func(*rig) {
	return map[string]func(*rig){
		"release goes back to the due time": func(r *rig) {
			due := r.put("k", 1, oneShot(far)).Due
			req := request()
			req.Horizon = 2 * far
			for range 3 {
				r.accept(r.claim(r.a, req), store.Settlement{Outcome: store.OutcomeRelease})
				if got := r.live("k"); !got.Look.Equal(due) || got.Leased || got.Record.State.Attempt != 0 {
					r.Errorf("look %v before due, leased %v, attempt %d, want 0, false, 0", due.Sub(got.Look), got.Leased, got.Record.State.Attempt)
				}
			}
		},
		"release waits its delay": func(r *rig) {
			c := r.leased("k", oneShot(0), far)
			from, to := r.during(func() { r.accept(c, store.Settlement{Outcome: store.OutcomeRelease, Delay: brief}) })
			r.awaits("claimed", from.Add(brief), to.Add(brief), func() bool { return len(r.claimAll(r.a, leaving())) == 1 })
		},
		"release with a delay that ends before due keeps the due time": func(r *rig) {
			due := r.put("k", 1, oneShot(far)).Due
			req := request()
			req.Horizon = 2 * far
			for _, delay := range []time.Duration{far / 2, -far} {
				r.accept(r.claim(r.a, req), store.Settlement{Outcome: store.OutcomeRelease, Delay: delay})
				if got := r.live("k"); !got.Look.Equal(due) {
					r.Errorf("after a delay of %v: look %v before due", delay, due.Sub(got.Look))
				}
			}
		},
		"release after the fence is due again at once": func(r *rig) {
			c := r.leased("k", oneShot(0), far)
			r.pass(c, 1, terms(far, 3*far))
			r.accept(c, store.Settlement{Outcome: store.OutcomeRelease})
			again := r.claim(r.a, leaving())
			if again.Previous != "" || again.Record.Failure.Node != "" {
				r.Errorf("previous %q, failed by %q, want none", again.Previous, again.Record.Failure.Node)
			}
			if f := r.pass(again, 1, terms(far, far)); f.State.Attempt != 2 {
				r.Errorf("attempt %d, want 2: a fence that passed counts", f.State.Attempt)
			}
		},
		"release of a retry keeps who failed": func(r *rig) {
			r.failed(1, "k")
			r.accept(r.claim(r.b, request()), store.Settlement{Outcome: store.OutcomeRelease})
			if got := r.live("k").Record; got.Failure.Node != nodeA || got.State.Attempt != 1 {
				r.Errorf("failed by %q, attempt %d, want %q, 1", got.Failure.Node, got.State.Attempt, nodeA)
			}
		},
		"release of what was overdue is due at once": func(r *rig) {
			r.put("k", 1, oneShot(0))
			r.Pass(brief)
			r.accept(r.claim(r.a, request()), store.Settlement{Outcome: store.OutcomeRelease})
			r.claim(r.b, request())
		},
	}
}
