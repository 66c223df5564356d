package storetest

import (
	"time"

	"chronos/scheduler/store"
	"chronos/scheduler/timer"
)

// fireCases are the fence (rules "compare before firing" and "no late callbacks").
func fireCases() map[string]func(*rig) {
	return map[string]func(*rig){
		"the fence counts the attempt and marks": checkPass,
		"the fence does not pass before due":     checkEarly,
		"the fence passes in time though claimed ahead": func(r *rig) {
			c := r.leased("k", oneShot(brief), far)
			due := c.Record.Start.Add(brief)
			r.awaits("passed", due, due, func() bool { return r.fence(c, 1, terms(far, far)).Status == store.FencePassed })
		},
		"the fence sent again renews and does not count": checkRenew,
		"the fence is lost to another's lease":           checkLostToOther,
		"the fence is lost after settlement": func(r *rig) {
			c := r.leased("k", recurring(far, 3), far)
			r.accept(c, store.Settlement{Outcome: store.OutcomeRelease})
			r.fences(c, store.FenceLost)
			r.accept(r.claim(r.b, store.ClaimRequest{Horizon: 2 * far, Limit: 99, Grace: far}), store.Settlement{Outcome: store.OutcomeDone})
			r.fences(c, store.FenceLost)
		},
		"the fence is lost with a token that never was": func(r *rig) {
			c := r.leased("k", oneShot(0), far)
			good := c.Lease.Token
			for _, token := range []string{"", "-", nodeA, good + " 0", good + "0", good[:len(good)-1]} {
				c.Lease.Token = token
				r.fences(c, store.FenceLost)
			}
			c.Lease.Token, c.Lease.Key = good, "other"
			r.fences(c, store.FenceLost)
			c.Lease.Key = "k"
			r.pass(c, 1, terms(far, far))
		},
		"a fence that comes too late does nothing": checkTooLate,
		"others take over at the end of the hold":  checkHold,
		"a renewal moves the end of the hold": func(r *rig) {
			c := r.leased("k", oneShot(0), far)
			r.pass(c, 1, terms(brief, brief))
			from, to := r.during(func() { r.pass(c, 1, terms(brief, 3*brief)) })
			r.awaits("taken over", from.Add(3*brief), to.Add(3*brief), func() bool { return len(r.claimAll(r.b, request())) == 1 })
		},
		"attempts are counted over takeovers": checkAttempts,
		"a lease that ended passes while nobody took over": func(r *rig) {
			r.put("k", 1, oneShot(0))
			req := request()
			req.Grace = brief
			var c store.Claimed
			_, to := r.during(func() { c = r.claim(r.a, req) })
			for r.Now().Before(to.Add(2 * brief)) {
				r.Pass(brief)
			}
			r.pass(c, 1, store.FenceTerms{Limit: far, Hold: far})
			if claims := r.claimAll(r.b, request()); len(claims) != 0 {
				r.Error("it was claimed while it is firing")
			}
		},
	}
}

func (r *rig) fences(c store.Claimed, want store.FenceStatus) {
	r.Helper()
	if got := r.fence(c, 1, terms(far, far)); got.Status != want {
		r.Errorf("fence: status %d, want %d", got.Status, want)
	}
}

func checkPass(r *rig) {
	w := r.put("k", 1, oneShot(brief))
	r.Pass(2 * brief)
	c := r.claim(r.a, request())
	var f store.Fenced
	from, to := r.during(func() { f = r.pass(c, 1, terms(far, 2*far)) })
	if want := (timer.State{Version: version(1), Seq: 1, Attempt: 1}); f.State != want {
		r.Errorf("state is %+v, want %+v", f.State, want)
	}
	if !f.Due.Equal(w.Due) {
		r.Errorf("due %v, want %v", f.Due, w.Due)
	}
	r.between("late", f.Due.Add(f.Late), from, to)
	got := r.live("k")
	if got.Record.State != f.State || !got.Leased {
		r.Errorf("read as state %+v, leased %v, want %+v, true", got.Record.State, got.Leased, f.State)
	}
	r.between("next look", got.Look, from.Add(2*far), to.Add(2*far))
	if left := r.firing(r.shard(), "k"); left > far || left < far-time.Minute {
		r.Errorf("the mark lasts %v, want nearly %v", left, far)
	}
}

func checkEarly(r *rig) {
	c := r.leased("k", oneShot(far), far)
	due := c.Record.Start.Add(far)
	for range 2 {
		var f store.Fenced
		from, to := r.during(func() { f = r.fence(c, 1, terms(far, far)) })
		if f.Status != store.FenceEarly || f.State.Attempt != 0 {
			r.Errorf("status %d, attempt %d, want early, 0", f.Status, f.State.Attempt)
		}
		r.between("wait", from.Add(f.Wait), due.Add(-to.Sub(from)), due)
	}
	got := r.live("k")
	if got.Record.State.Attempt != 0 || !got.Leased || !got.Look.Equal(due.Add(far)) {
		r.Errorf("after early fences: %+v, want nothing changed", got)
	}
	if left := r.firing(c.Lease.Shard, "k"); left != 0 {
		r.Errorf("the mark lasts %v, want none", left)
	}
}

func checkRenew(r *rig) {
	c := r.leased("k", oneShot(0), far)
	first := r.pass(c, 1, terms(brief, brief))
	for range 3 {
		f := r.pass(c, 1, terms(far, far))
		if f.State != first.State || !f.Due.Equal(first.Due) {
			r.Errorf("state %+v, due %v, want as at first: %+v, %v", f.State, f.Due, first.State, first.Due)
		}
	}
	if left := r.firing(c.Lease.Shard, "k"); left < far-time.Minute {
		r.Errorf("the mark lasts %v, want the renewed one, nearly %v", left, far)
	}
	if left := r.live("k").Look.Sub(r.Now()); left < far-time.Minute {
		r.Errorf("the hold lasts %v, want the renewed one, nearly %v", left, far)
	}
	r.accept(c, store.Settlement{Outcome: store.OutcomeDone})
	if n := r.pending(); n != 0 {
		r.Errorf("%d left after done, want nothing", n)
	}
}

func checkLostToOther(r *rig) {
	r.put("k", 1, oneShot(0))
	req := request()
	req.Grace = brief
	var first, second store.Claimed
	from, to := r.during(func() { first = r.claim(r.a, req) })
	r.awaits("claimed again", from.Add(brief), to.Add(brief), func() bool {
		claims := r.claimAll(r.b, request())
		if len(claims) == 1 {
			second = claims[0]
		}
		return len(claims) == 1
	})
	before := r.live("k")
	r.fences(first, store.FenceLost)
	if after := r.live("k"); after.Record.State != before.Record.State || !after.Look.Equal(before.Look) {
		r.Error("a lost fence changed the timer")
	}
	r.pass(second, 1, terms(far, far))
	r.fences(first, store.FenceLost)
	if s := r.settle(first, store.Settlement{Outcome: store.OutcomeDone}); s.Accepted || s.Holder != nodeB {
		r.Errorf("settlement of the lost lease: %+v, want not accepted, held by %q", s, nodeB)
	}
	r.accept(second, store.Settlement{Outcome: store.OutcomeDone})
}

func checkTooLate(r *rig) {
	c := r.leased("k", oneShot(0), far)
	before := r.live("k")
	late := store.Fence{Lease: c.Lease, Pops: 1, Age: 2 * time.Minute}
	if f := r.fire(late, terms(time.Minute, far)); f.Status != store.FenceTooLate {
		r.Errorf("status %d, want too late", f.Status)
	}
	if after := r.live("k"); after.Record.State != before.Record.State || !after.Look.Equal(before.Look) {
		r.Errorf("it changed %+v into %+v", before, after)
	}
	if left := r.firing(c.Lease.Shard, "k"); left != 0 {
		r.Errorf("the mark lasts %v, want none", left)
	}
	late.Age = time.Second
	if f := r.fire(late, terms(time.Minute, far)); f.Status != store.FencePassed || f.State.Attempt != 1 {
		r.Errorf("in time: status %d, attempt %d, want passed, 1", f.Status, f.State.Attempt)
	}
	// A renewal that comes too late leaves the mark unchanged.
	late.Age = 2 * far
	if f := r.fire(late, terms(far, far)); f.Status != store.FenceTooLate {
		r.Errorf("renewal: status %d, want too late", f.Status)
	}
	if left := r.firing(c.Lease.Shard, "k"); left > time.Minute {
		r.Errorf("the mark lasts %v, want the first one's minute", left)
	}
	r.accept(c, store.Settlement{Outcome: store.OutcomeDone})
}

func checkHold(r *rig) {
	c := r.leased("k", oneShot(0), far)
	from, to := r.during(func() { r.pass(c, 1, terms(brief/2, brief)) })
	var next store.Claimed
	r.awaits("taken over", from.Add(brief), to.Add(brief), func() bool {
		claims := r.claimAll(r.b, request())
		if len(claims) == 1 {
			next = claims[0]
		}
		return len(claims) == 1
	})
	if next.Previous != nodeA || next.Record.State.Attempt != 1 {
		r.Errorf("previous %q, attempt %d, want %q, 1", next.Previous, next.Record.State.Attempt, nodeA)
	}
	r.fences(c, store.FenceLost)
}

// A timer that kills nodes ends, too: attempts are counted even if nobody settles.
func checkAttempts(r *rig) {
	r.put("k", 1, oneShot(0))
	at, until := r.Now(), r.Now()
	for attempt := 1; attempt <= 4; attempt++ {
		r.awaits("claimed", at, later(until, at), func() bool {
			claims := r.claimAll([]store.Store{r.a, r.b}[attempt%2], request())
			if len(claims) != 1 {
				return false
			}
			at, until = r.during(func() {
				if f := r.pass(claims[0], 1, terms(brief/4, brief/4)); f.State.Attempt != attempt || f.State.Seq != 1 {
					r.Errorf("state %+v, want attempt %d of pop 1", f.State, attempt)
				}
			})
			at, until = at.Add(brief/4), until.Add(brief/4)
			return true
		})
	}
}
