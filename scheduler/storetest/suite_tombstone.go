package storetest

import (
	"errors"
	"time"

	"chronos/scheduler/store"
	"chronos/scheduler/timer"
)

// tombstoneCases are tombstones of deletes: a late write can't bring the timer back.
func tombstoneCases() map[string]func(*rig) {
	return map[string]func(*rig){
		"delete of an unknown timer stops a late create": func(r *rig) {
			r.put("k", 2, nil)
			w := r.merge(write("k", 1, oneShot(0)))
			if w.Status != store.WriteNewer || !w.State.Ended || w.State.Version != version(2) {
				r.Errorf("late create: status %d, state %+v, want newer, the tombstone", w.Status, w.State)
			}
			if claims := r.claimAll(r.a, request()); len(claims) != 0 {
				r.Error("the late create was claimed")
			}
		},
		"delete of a known timer stops a late create": func(r *rig) {
			r.put("k", 1, oneShot(0))
			r.put("k", 3, nil)
			if w := r.merge(write("k", 2, oneShot(0))); w.Status != store.WriteNewer {
				r.Errorf("late create: status %d, want newer", w.Status)
			}
		},
		"delete again is stored, and sent twice is the same": func(r *rig) {
			for n := 1; n < 4; n++ {
				r.put("k", n, nil)
				if w := r.merge(write("k", n, nil)); w.Status != store.WriteSame {
					r.Errorf("sent twice: status %d, want same", w.Status)
				}
			}
		},
		"a create above a tombstone is stored": func(r *rig) {
			r.put("k", 1, nil)
			r.put("k", 2, oneShot(0))
			r.claim(r.a, request())
		},
		"a tombstone stays for its life": checkTombstoneLife,
		"a tombstone outlives the firing mark": func(r *rig) {
			c := r.leased("k", oneShot(0), far)
			from, to := r.during(func() { r.pass(c, 1, terms(brief, far)) })
			w := write("k", 2, nil)
			w.Life = 0
			_, merged := r.during(func() { r.merge(w) })
			r.awaitsEmpty(from.Add(brief), later(to.Add(brief), merged))
		},
		"a claim ahead buries no tombstone before its end": func(r *rig) {
			w := write("k", 2, nil)
			w.Life = far / 2
			r.merge(w)
			req := request()
			req.Horizon = 2 * far
			r.claimAll(r.a, req)
			if late := r.merge(write("k", 1, oneShot(0))); late.Status != store.WriteNewer {
				r.Errorf("late create: status %d, want newer", late.Status)
			}
		},
		"burying leaves what is alive": func(r *rig) {
			w := write("k", 1, nil)
			w.Life = 0
			r.merge(w)
			r.put("due", 1, oneShot(0))
			r.put("later", 1, oneShot(far))
			r.put("dead", 1, nil)
			r.claimAll(r.a, request())
			if n := r.pending(); n != 3 {
				r.Errorf("%d are left, want the two that live and the tombstone that stays", n)
			}
			if !r.live("due").Leased || r.live("later").Leased {
				r.Error("what was due is not leased, or what was not is")
			}
		},
		"a tombstone can't be claimed or fired": func(r *rig) {
			c := r.leased("k", oneShot(0), far)
			w := write("k", 2, nil)
			w.Life = brief
			r.merge(w)
			req := request()
			req.Horizon = 2 * far
			if claims := r.claimAll(r.b, req); len(claims) != 0 {
				r.Error("it was claimed")
			}
			if f := r.fence(c, 1, terms(far, far)); f.Status != store.FenceLost {
				r.Errorf("fence: status %d, want lost", f.Status)
			}
		},
	}
}

func checkTombstoneLife(r *rig) {
	w := write("k", 2, nil)
	w.Life = brief
	from, to := r.during(func() { r.merge(w) })
	r.awaitsEmpty(from.Add(brief), to.Add(brief))
	if !errors.Is(r.read("k").Err, timer.ErrNotFound) {
		r.Error("a buried timer was read")
	}
	if w := r.put("k", 1, oneShot(far)); w.Firing > 0 {
		r.Error("in flight after its tombstone was buried")
	}
	if left := r.live("k").Look.Sub(r.Now()); left < far-time.Minute {
		r.Errorf("next look in %v, want about %v", left, far)
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
