package storetest

import (
	"errors"
	"time"

	"chronos/scheduler/store"
	"chronos/scheduler/timer"
)

// markCases are rule "merge keeps the firing mark": a merge ends a lease, never a firing mark. Only the settle call
// of the token that set a mark clears the mark.
func markCases() map[string]func(*rig) {
	return map[string]func(*rig){
		"a replace ends a lease":                func(r *rig) { r.checkLeaseEnds(oneShot(far), false) },
		"a delete ends a lease":                 func(r *rig) { r.checkLeaseEnds(nil, false) },
		"a replace ends a lease that has fired": func(r *rig) { r.checkLeaseEnds(oneShot(far), true) },
		"a delete ends a lease that has fired":  func(r *rig) { r.checkLeaseEnds(nil, true) },
		"a refused merge leaves the lease":      checkRefusedLeavesLease,
		"what is due after a merge can be claimed at once": func(r *rig) {
			c := r.leased("k", oneShot(0), far)
			r.pass(c, 1, terms(far, far))
			r.put("k", 2, oneShot(0))
			if again := r.claim(r.b, request()); again.Previous != "" || again.Record.State.Attempt != 0 {
				r.Errorf("claimed with previous %q, attempt %d, want none, 0", again.Previous, again.Record.State.Attempt)
			}
		},
		"every merge keeps the mark":                  checkMarkKept,
		"in flight only from the fence on":            checkInFlightFrom,
		"in flight until the mark ends":               checkInFlightUntil,
		"the settlement of its fence clears the mark": checkOwnMarkCleared,
		"a settlement that is not accepted leaves it": func(r *rig) {
			c := r.leased("k", oneShot(0), far)
			r.pass(c, 1, terms(far, far))
			r.put("k", 2, oneShot(far))
			r.settle(c, store.Settlement{Outcome: store.OutcomeDone})
			if r.firing(r.shard(), "k") == 0 || r.put("k", 3, nil).Firing <= 0 {
				r.Error("the mark of the earlier state is gone")
			}
		},
		"another lease's settlement restores the mark it found": checkForeignMark,
		"a shorter fence leaves the longer mark": func(r *rig) {
			r.pass(r.leased("k", oneShot(0), far), 1, terms(far, far))
			r.put("k", 2, oneShot(0))
			r.pass(r.claim(r.a, request()), 1, terms(brief, far))
			if left := r.firing(r.shard(), "k"); left < far-time.Minute {
				r.Errorf("the mark lasts %v, want about %v", left, far)
			}
		},
		"done leaves a tombstone while an earlier mark lasts": checkDoneUnderMark,
	}
}

func (r *rig) checkLeaseEnds(then *timer.Timer, fired bool) {
	c := r.leased("k", oneShot(0), far)
	if fired {
		r.pass(c, 1, terms(brief, far))
	}
	r.put("k", 2, then)
	if f := r.fence(c, 1, terms(far, far)); f.Status != store.FenceLost {
		r.Errorf("fence of the ended lease: status %d, want lost", f.Status)
	}
	for _, outcome := range []store.Outcome{
		store.OutcomeRelease, store.OutcomeAgain, store.OutcomeNext, store.OutcomeDead, store.OutcomeDone,
	} {
		if s := r.settle(c, store.Settlement{Outcome: outcome}); s.Accepted || s.Holder != "" {
			r.Errorf("outcome %d of the ended lease: %+v, want not accepted, nobody", outcome, s)
		}
	}
	got := r.read("k")
	switch {
	case then == nil && !errors.Is(got.Err, timer.ErrNotFound):
		r.Errorf("read: %v, want not found", got.Err)
	case then != nil && (got.Err != nil || got.Leased || got.Record.State != timer.State{Version: version(2), Seq: 1}):
		r.Errorf("read: %+v, want version 2 as written, unleased", got)
	}
}

func checkRefusedLeavesLease(r *rig) {
	r.put("k", 5, oneShot(0))
	c := r.claim(r.a, request())
	r.merge(write("k", 4, nil))
	r.merge(write("k", 4, oneShot(0)))
	r.merge(write("k", 5, oneShot(0)))
	r.merge(write("k", 5, oneShot(far)))
	if !r.live("k").Leased {
		r.Error("the lease is gone")
	}
	r.pass(c, 1, terms(far, far))
	r.accept(c, store.Settlement{Outcome: store.OutcomeDone})
}

func checkMarkKept(r *rig) {
	c := r.leased("k", oneShot(0), far)
	r.pass(c, 1, terms(far, far))
	for i, asked := range []*timer.Timer{oneShot(far), recurring(far, 2), nil, nil, oneShot(0), nil} {
		if w := r.put("k", i+2, asked); w.Firing <= 0 {
			r.Errorf("merge %d: not in flight", i)
		}
		if left := r.firing(c.Lease.Shard, "k"); left <= far-time.Minute || left > far {
			r.Errorf("after merge %d the mark lasts %v, want nearly %v", i, left, far)
		}
	}
	for _, w := range []store.Write{write("k", 7, nil), write("k", 2, nil)} {
		if r.merge(w).Firing <= 0 {
			r.Error("a merge that is the same, or older, is not answered in flight")
		}
	}
}

func checkInFlightFrom(r *rig) {
	if r.put("k", 1, oneShot(0)).Firing > 0 || r.put("k", 2, oneShot(0)).Firing > 0 {
		r.Error("in flight before any fence")
	}
	r.claim(r.a, request())
	if r.put("k", 3, oneShot(far)).Firing > 0 {
		r.Error("in flight from the claim on")
	}
	req := request()
	req.Horizon = 2 * far
	c := r.claim(r.a, req)
	if f := r.fence(c, 1, terms(far, far)); f.Status != store.FenceEarly {
		r.Fatalf("fence: status %d, want early", f.Status)
	}
	if r.put("k", 4, nil).Firing > 0 {
		r.Error("in flight after a fence that did not pass")
	}
}

func checkInFlightUntil(r *rig) {
	c := r.leased("k", oneShot(0), far)
	from, to := r.during(func() { r.pass(c, 1, terms(brief, far)) })
	if left := r.firing(c.Lease.Shard, "k"); left > brief {
		r.Errorf("the mark lasts %v, want at most %v", left, brief)
	}
	n := 1
	for ; ; r.Pass(brief / 8) {
		n++
		var w store.Written
		at, _ := r.during(func() { w = r.put("k", n, nil) })
		switch {
		case w.Firing > 0 && at.After(to.Add(brief+slack)):
			r.Fatalf("in flight %v after the mark ended", at.Sub(to.Add(brief)))
		case w.Firing <= 0 && r.Now().Before(from.Add(brief-slack)):
			r.Fatalf("not in flight %v before the mark ends", from.Add(brief).Sub(r.Now()))
		case w.Firing <= 0:
			return
		}
	}
}

func checkOwnMarkCleared(r *rig) {
	for i, outcome := range []store.Outcome{
		store.OutcomeRelease, store.OutcomeAgain, store.OutcomeNext, store.OutcomeDone, store.OutcomeDead,
	} {
		key := keys(9)[i]
		c := r.leased(key, oneShot(0), far)
		r.pass(c, 1, terms(far, far))
		if r.firing(c.Lease.Shard, key) == 0 {
			r.Fatalf("outcome %d: no mark after the fence", outcome)
		}
		r.accept(c, store.Settlement{Outcome: outcome, Delay: far})
		if left := r.firing(c.Lease.Shard, key); left != 0 {
			r.Errorf("after outcome %d the mark lasts %v", outcome, left)
		}
		if r.put(key, 2, nil).Firing > 0 {
			r.Errorf("after outcome %d a delete is answered in flight", outcome)
		}
	}
}

func checkForeignMark(r *rig) {
	r.pass(r.leased("k", oneShot(0), far), 1, terms(far, far))
	r.put("k", 2, oneShot(0))
	c := r.claim(r.b, request())
	r.accept(c, store.Settlement{Outcome: store.OutcomeRelease})
	if r.firing(r.shard(), "k") == 0 {
		r.Error("a release without fence cleared the earlier state's mark")
	}
	c = r.claim(r.b, request())
	r.pass(c, 1, terms(2*far, far))
	r.pass(c, 1, terms(2*far, far))
	if left := r.firing(r.shard(), "k"); left <= far {
		r.Errorf("the mark lasts %v, want the longer one of its own fence", left)
	}
	r.accept(c, store.Settlement{Outcome: store.OutcomeAgain, Delay: far})
	if left := r.firing(r.shard(), "k"); left == 0 || left > far {
		r.Errorf("the mark lasts %v, want the earlier state's, nearly %v", left, far)
	}
}

func checkDoneUnderMark(r *rig) {
	r.pass(r.leased("k", oneShot(0), far), 1, terms(far, far))
	r.put("k", 2, oneShot(0))
	c := r.claim(r.b, request())
	r.pass(c, 1, terms(brief, far))
	r.accept(c, store.Settlement{Outcome: store.OutcomeDone})
	if !errors.Is(r.read("k").Err, timer.ErrNotFound) {
		r.Error("the timer is done, and read")
	}
	if d, _ := r.ask(r.shard(), "k", timer.State{}); d.Missing || !d.State.Ended || d.State.Version != version(2) || d.Firing == 0 {
		r.Errorf("there is %+v, want a tombstone that is firing", d)
	}
	if again := r.merge(write("k", 2, oneShot(0))); again.Status != store.WriteNewer || again.Firing <= 0 {
		r.Errorf("the write again: status %d, in flight %v, want newer, true", again.Status, again.Firing > 0)
	}
	if r.merge(write("k", 2, nil)).Firing <= 0 {
		r.Error("a delete is not answered in flight")
	}

	from, to := r.during(func() { r.pass(r.leased("short", oneShot(0), far), 1, terms(8*brief, far)) })
	r.put("short", 2, oneShot(0))
	r.accept(r.claim(r.b, request()), store.Settlement{Outcome: store.OutcomeDone})
	r.awaits("buried", from.Add(8*brief), later(to.Add(8*brief), r.Now()), func() bool {
		r.claimAll(r.a, request())
		return r.pending() == 1
	})
}
