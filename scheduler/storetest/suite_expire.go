package storetest

import (
	"time"

	"chronos/scheduler/store"
	"chronos/scheduler/timer"
)

// expireCases are the fences of timers whose pops expire.
func expireCases() map[string]func(*rig) {
	return map[string]func(*rig){
		"a pop that has expired does not pass, nor when asked again": func(r *rig) {
			c := r.lateBy("k", oneShot(far), time.Minute)
			want := timer.State{Version: version(1), Seq: 1}
			for range 2 {
				f := r.fenceWithin(c, 1, time.Second)
				if f.Status != store.FenceExpired || f.State != want || f.LeftOut != 0 || f.Late < time.Minute-time.Second {
					r.Errorf("fence: %+v, want expired in the state %+v", f, want)
				}
			}
			if left := r.firing(c.Lease.Shard, "k"); left != 0 {
				r.Errorf("the mark lasts %v, want none", left)
			}
			r.accept(c, store.Settlement{Outcome: store.OutcomeDone})
			if n := r.pending(); n != 0 {
				r.Errorf("%d left after done, want nothing", n)
			}
		},
		"a pop that has not expired passes": func(r *rig) {
			c := r.lateBy("k", oneShot(far), time.Minute)
			if f := r.fenceWithin(c, 1, far); f.Status != store.FencePassed || f.State.Attempt != 1 {
				r.Errorf("fence: %+v, want passed", f)
			}
			if f := r.fenceWithin(c, 1, time.Second); f.Status != store.FencePassed || f.State.Attempt != 1 {
				r.Errorf("fence again: %+v, want renewed", f)
			}
		},
		"a retry that comes after the pop has expired does not pass": func(r *rig) {
			c := r.lateBy("k", oneShot(far), time.Minute)
			r.fenceWithin(c, 1, far)
			r.accept(c, store.Settlement{Outcome: store.OutcomeAgain, Reason: "status 503"})
			again := r.claim(r.a, request())
			if f := r.fenceWithin(again, 1, time.Second); f.Status != store.FenceExpired || f.State.Attempt != 1 {
				r.Errorf("fence: %+v, want expired after one attempt", f)
			}
		},
		"the pops of a recurring timer that have expired are left out": func(r *rig) {
			c := r.lateBy("k", recurring(time.Minute, 50), 4*time.Minute+time.Second) // pops 1 to 5 are due
			f := r.fenceWithin(c, 50, 90*time.Second)
			if want := (timer.State{Version: version(1), Seq: 4, Attempt: 1}); f.Status != store.FencePassed || f.State != want || f.LeftOut != 3 {
				r.Errorf("fence: %+v, want passed in the state %+v, 3 left out", f, want)
			}
		},
		"a recurring timer goes on after a pop that has expired": func(r *rig) {
			c := r.lateBy("k", recurring(far, 3), time.Minute)
			f := r.fenceWithin(c, 3, time.Second)
			if want := (timer.State{Version: version(1), Seq: 1}); f.Status != store.FenceExpired || f.State != want || f.LeftOut != 0 {
				r.Errorf("fence: %+v, want expired in the state %+v, none left out before", f, want)
			}
			r.accept(c, store.Settlement{Outcome: store.OutcomeNext, Reason: "expired"})
			got := r.live("k")
			if want := (timer.State{Version: version(1), Seq: 2}); got.Record.State != want || got.Record.LeftOut != 1 {
				r.Errorf("afterwards: state %+v, %d left out; want %+v, 1", got.Record.State, got.Record.LeftOut, want)
			}
		},
		"of many expired pops the latest is left out, too": func(r *rig) {
			c := r.lateBy("k", recurring(time.Minute, 4), far)
			f := r.fenceWithin(c, 4, time.Second)
			if want := (timer.State{Version: version(1), Seq: 4}); f.Status != store.FenceExpired || f.State != want || f.LeftOut != 3 {
				r.Errorf("fence: %+v, want expired in the state %+v, 3 left out before", f, want)
			}
		},
		"a pop that was called and then expired is not left out": func(r *rig) {
			c := r.lateBy("k", recurring(far, 3), time.Minute)
			r.fenceWithin(c, 3, far)
			r.accept(c, store.Settlement{Outcome: store.OutcomeAgain, Reason: "status 503"})
			again := r.claim(r.a, request())
			if f := r.fenceWithin(again, 3, time.Second); f.Status != store.FenceExpired || f.State.Attempt != 1 || f.LeftOut != 0 {
				r.Errorf("fence: %+v, want expired after one attempt, none left out", f)
			}
			r.accept(again, store.Settlement{Outcome: store.OutcomeNext, Reason: "expired"})
			if got := r.live("k"); got.Record.State.Seq != 2 || got.Record.LeftOut != 0 {
				r.Errorf("afterwards: state %+v, %d left out; want pop 2, 0", got.Record.State, got.Record.LeftOut)
			}
		},
		"a pop that has expired is left out once, however often the fence is asked for": func(r *rig) {
			c := r.lateBy("k", recurring(far, 3), time.Minute)
			for range 3 {
				r.fenceWithin(c, 3, time.Second)
				r.accept(c, store.Settlement{Outcome: store.OutcomeRelease})
				c = r.claim(r.a, request())
			}
			r.fenceWithin(c, 3, time.Second)
			r.accept(c, store.Settlement{Outcome: store.OutcomeNext, Reason: "expired"})
			if got := r.live("k"); got.Record.LeftOut != 1 {
				r.Errorf("%d left out, want 1", got.Record.LeftOut)
			}
		},
		"pops that have expired leave room for pops that are made up for": func(r *rig) {
			c := r.lateBy("k", recurring(time.Minute, 50), 14*time.Minute+time.Second) // pops 1 to 15 are due
			limits := terms(far, far)
			limits.CatchUp = 10
			f := r.fire(store.Fence{Lease: c.Lease, Pops: 50, ExpiresAfter: 150 * time.Second}, limits)
			if f.Status != store.FencePassed || f.State.Seq != 13 || f.LeftOut != 12 {
				r.Errorf("fence: %+v, want pop 13, 12 left out", f)
			}
		},
		"the mark of an earlier version outlasts a pop that has expired": func(r *rig) {
			r.pass(r.lateBy("k", oneShot(far), time.Minute), 1, terms(far, far))
			w := write("k", 2, oneShot(far))
			w.DueIn = -time.Minute
			r.merge(w)
			c := r.claim(r.a, request())
			for range 2 {
				if f := r.fenceWithin(c, 1, time.Second); f.Status != store.FenceExpired {
					r.Errorf("fence: %+v, want expired", f)
				}
				if left := r.firing(c.Lease.Shard, "k"); left < far-time.Minute {
					r.Errorf("the mark lasts %v, want nearly %v", left, far)
				}
			}
			r.accept(c, store.Settlement{Outcome: store.OutcomeRelease})
			if left := r.firing(c.Lease.Shard, "k"); left < far-time.Minute {
				r.Errorf("after the settlement the mark lasts %v, want nearly %v", left, far)
			}
		},
	}
}

// lateBy stores and claims a timer whose first pop is overdue by so much.
func (r *rig) lateBy(key string, t *timer.Timer, by time.Duration) store.Claimed {
	r.Helper()
	w := write(key, 1, t)
	w.DueIn = -by
	r.merge(w)
	return r.claim(r.a, request())
}

// fenceWithin is the fence of a timer whose pops expire; all overdue pops are made up for.
func (r *rig) fenceWithin(c store.Claimed, pops int, expires time.Duration) store.Fenced {
	r.Helper()
	limits := terms(far, far)
	limits.CatchUp = plenty
	return r.fire(store.Fence{Lease: c.Lease, Pops: pops, ExpiresAfter: expires}, limits)
}
