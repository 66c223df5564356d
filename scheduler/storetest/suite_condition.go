package storetest

import (
	"time"

	"chronos/scheduler/store"
	"chronos/scheduler/timer"
)

// conditionCases are writes that a newer copy refuses (rule "conditions").
func conditionCases() map[string]func(*rig) {
	return map[string]func(*rig){
		"a condition lets a write through where nothing is": func(r *rig) {
			if w := r.merge(write("k", 2, oneShot(far)).If(store.Newest{})); w.Status != store.WriteStored || !w.New {
				r.Errorf("answered %+v, want stored as new", w)
			}
		},
		"a condition lets a write through onto the version it names": func(r *rig) {
			r.put("k", 1, oneShot(far))
			r.takes(write("k", 3, oneShot(far)).If(newest(1)))
			r.takes(write("k", 4, nil).If(newest(3)))
			r.takes(write("k", 6, oneShot(far)).If(newest(5)))
		},
		"a condition refuses a write onto a newer version": func(r *rig) {
			r.put("k", 2, oneShot(far))
			r.refuses(write("k", 3, oneShot(far)).If(newest(1)), 2)
			r.refuses(write("k", 3, nil).If(newest(1)), 2)
			r.refuses(write("k", 3, oneShot(far)).If(store.Newest{}), 2)
		},
		"a condition refuses a write onto a newer tombstone": func(r *rig) {
			r.put("k", 2, nil)
			r.refuses(write("k", 3, oneShot(far)).If(newest(1)), 2)
		},
		"a write on a condition that comes twice finds itself": func(r *rig) {
			r.put("k", 1, oneShot(far))
			w := write("k", 3, oneShot(far)).If(newest(1))
			r.takes(w)
			if again := r.merge(w); again.Status != store.WriteSame {
				r.Errorf("the second time answered %+v, want the same", again)
			}
			end := write("k", 5, nil).If(newest(3))
			r.takes(end)
			if again := r.merge(end); again.Status != store.WriteSame {
				r.Errorf("the second end answered %+v, want the same", again)
			}
		},
		"a write on a condition ends the lease and keeps the mark": func(r *rig) {
			c := r.leased("k", oneShot(0), far)
			r.pass(c, 1, terms(far, far))
			if w := r.merge(write("k", 3, oneShot(far)).If(store.Newest{Version: c.Record.State.Version})); w.Status != store.WriteStored || w.Firing < far-time.Minute {
				r.Errorf("answered %+v, want stored, and firing", w)
			}
		},
	}
}

// newest allows a copy of version n.
func newest(n int) store.Newest { return store.Newest{Version: version(n)} }

// takes has the copy take a write on a condition.
func (r *rig) takes(w store.Write) {
	r.Helper()
	if got := r.merge(w); got.Status != store.WriteStored {
		r.Errorf("a write of version %v if the copy has at most %v answered %+v, want stored", w.State.Version, *w.IfNewest, got)
	}
}

// refuses has the copy, which has version n, refuse a write on a condition.
func (r *rig) refuses(w store.Write, n int) {
	r.Helper()
	before := r.spot(w.Key)
	got := r.merge(w)
	if got.Status != store.WriteNewer || got.State.Version != version(n) {
		r.Errorf("a write of version %v if the copy has at most %v answered %+v, want newer, version %v", w.State.Version, *w.IfNewest, got, version(n))
	}
	if after := r.spot(w.Key); after.Version != before.Version || after.Ended != before.Ended {
		r.Errorf("the copy has %+v, want %+v as before", after, before)
	}
}

// spot is the state of a copy.
func (r *rig) spot(key string) timer.State {
	r.Helper()
	return r.a.Read(r.Context(), r.spots([]string{key}))[0].Record.State
}
