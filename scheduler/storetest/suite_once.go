package storetest

import (
	"errors"
	"sync"
	"time"

	"chronos/scheduler/store"
	"chronos/scheduler/timer"
)

// onceCases are creates with a body hash, which happen once, and the replication factor of a timer, which stays.
func onceCases() map[string]func(*rig) {
	return map[string]func(*rig){
		"once creates where nothing is": func(r *rig) {
			w := r.merge(once("k", 1, "aa"))
			if w.Status != store.WriteStored || w.BodyHash != "aa" {
				r.Errorf("stored %+v, want stored with its hash, one copy", w)
			}
			if got := r.live("k").Record; got.BodyHash != "aa" || got.State != (timer.State{Version: version(1), Seq: 1}) {
				r.Errorf("read %+v, want the hash aa and version 1", got)
			}
		},
		"once sent twice finds itself": func(r *rig) {
			first := r.merge(once("k", 1, "aa"))
			r.exists(once("k", 1, "aa"), "aa", first)
		},
		"once where a timer lives changes nothing": func(r *rig) {
			first := r.merge(once("k", 1, "aa"))
			r.exists(once("k", 2, "aa"), "aa", first)
			r.exists(once("k", 3, "bb"), "aa", first)
		},
		"once after a replace changes nothing": func(r *rig) {
			r.merge(once("k", 1, "aa"))
			replaced := r.put("k", 2, oneShot(far/2))
			r.exists(once("k", 3, "aa"), "aa", replaced)
		},
		"once after its timer was done":     func(r *rig) { checkOnceOver(r, store.OutcomeDone) },
		"once after its timer was given up": func(r *rig) { checkOnceOver(r, store.OutcomeDead) },
		"once after its timer was deleted":  checkOnceDeleted,
		"once by many at the same time":     checkOnceAtOnce,
		"once where a timer without a hash lives changes nothing": func(r *rig) {
			there := r.put("k", 1, oneShot(far/2))
			r.exists(once("k", 2, "aa"), "", there)
		},
		"once above a plain tombstone is stored": func(r *rig) {
			r.put("k", 1, nil)
			r.merge(once("k", 2, "aa"))
			r.live("k")
		},
		"once below a plain tombstone is older": func(r *rig) {
			r.put("k", 2, nil)
			if w := r.merge(once("k", 1, "aa")); w.Status != store.WriteNewer {
				r.Errorf("status %d, want newer", w.Status)
			}
		},
		"a hash outlives a replace after the end": func(r *rig) {
			r.merge(once("k", 1, "aa"))
			r.put("k", 2, nil)
			r.put("k", 3, oneShot(far))
			if got := r.live("k").Record.BodyHash; got != "aa" {
				r.Errorf("hash %q, want aa", got)
			}
		},
		"another replication factor is refused":             checkFactor,
		"another replication factor is fine after a delete": checkFactorAfterDelete,
	}
}

func once(key string, n int, hash string) store.Write {
	w := write(key, n, oneShot(far))
	w.Kind, w.BodyHash, w.Keep = store.WriteOnce, hash, 2*far
	return w
}

// exists checks that w does nothing, and is answered with the present state.
func (r *rig) exists(w store.Write, hash string, there store.Written) {
	r.Helper()
	before := r.read(w.Key)
	got := r.merge(w)
	if got.Status != store.WriteExists || got.BodyHash != hash || got.State != there.State {
		r.Errorf("answered %+v, want exists, hash %q, state %+v", got, hash, there.State)
	}
	if got.RF != there.RF || !got.Due.Equal(there.Due) {
		r.Errorf("answered id %v, due %v, want those of what is there, %v, %v", got.RF, got.Due, there.RF, there.Due)
	}
	if after := r.read(w.Key); after.Record.State != before.Record.State || !after.Look.Equal(before.Look) {
		r.Errorf("it changed %+v into %+v", before, after)
	}
}

// checkOnceOver: a repeated create of a timer that is over is answered until the timer's tombstone is removed.
func checkOnceOver(r *rig, outcome store.Outcome) {
	w := once("k", 1, "aa")
	w.Timer, w.DueIn = oneShot(0), 0
	first := r.merge(w)
	r.Pass(slack)
	c := r.claim(r.a, request())
	if c.Record.BodyHash != "aa" {
		r.Errorf("claimed with hash %q, want aa", c.Record.BodyHash)
	}
	f := r.pass(c, 1, terms(far, far))
	from, to := r.during(func() { r.accept(c, store.Settlement{Outcome: outcome, Reason: "status 500", Keep: brief}) })
	if !errors.Is(r.read("k").Err, timer.ErrNotFound) {
		r.Error("it can still be read")
	}
	first.State = f.State
	first.State.Ended = true
	r.exists(once("k", 2, "aa"), "aa", first)
	r.exists(once("k", 3, "bb"), "aa", first)
	r.awaitsEmpty(from.Add(brief), to.Add(brief))
	if again := r.merge(once("k", 4, "bb")); again.Status != store.WriteStored {
		r.Errorf("after its life: status %d, want stored", again.Status)
	}
}

func checkOnceDeleted(r *rig) {
	first := r.merge(once("k", 1, "aa"))
	gone := write("k", 2, nil)
	gone.RF = 1 // as for an ID that is a bare key
	gone.Life, gone.Keep = 0, brief
	var w store.Written
	from, to := r.during(func() { w = r.merge(gone) })
	first.State = w.State
	r.exists(once("k", 3, "aa"), "aa", first)
	r.exists(once("k", 3, "bb"), "aa", first)
	r.awaitsEmpty(from.Add(brief), to.Add(brief))
	plain := write("k", 4, nil)
	plain.Life, plain.Keep = 0, far
	r.merge(plain)
	r.Pass(slack)
	r.claimAll(r.a, request())
	if n := r.pending(); n != 0 {
		r.Errorf("%d are left, want none: the tombstone of a timer without a hash has no longer life", n)
	}
}

func checkOnceAtOnce(r *rig) {
	const n = 8
	var wg sync.WaitGroup
	answers := make([]store.Written, n)
	for i := range n {
		wg.Go(func() { answers[i] = r.mergeBy(r.a, once("k", i+1, "aa"))[0] })
	}
	wg.Wait()
	there, stored := r.live("k").Record.State, 0
	for _, w := range answers {
		switch w.Status {
		case store.WriteStored:
			stored++
		case store.WriteExists:
		default:
			r.Errorf("status %d, want stored or exists", w.Status)
		}
		if w.State != there {
			r.Errorf("answered %+v, want %+v, the one that was stored", w.State, there)
		}
	}
	if stored != 1 {
		r.Errorf("%d were stored, want one", stored)
	}
}

func checkFactor(r *rig) {
	there := r.put("k", 5, oneShot(far))
	for n := 4; n <= 6; n++ {
		w := write("k", n, oneShot(time.Minute))
		w.RF, w.Timer.ReplicationFactor = replicas+1, replicas+1
		got := r.merge(w)
		if got.Status != store.WriteFactor || got.RF != replicas || got.State != there.State {
			r.Errorf("version %d: %+v, want another factor, %d, and the state that is there", n, got, replicas)
		}
	}
	if got := r.live("k"); got.Record.State != there.State || !got.Due.Equal(there.Due) {
		r.Errorf("it is now %+v, want it unchanged", got)
	}
}

func checkFactorAfterDelete(r *rig) {
	r.put("k", 1, oneShot(far))
	r.put("k", 2, nil)
	w := write("k", 3, oneShot(far))
	w.RF, w.Timer.ReplicationFactor = replicas+1, replicas+1
	if got := r.merge(w); got.Status != store.WriteStored || got.RF != replicas+1 {
		r.Errorf("%+v, want stored with its own factor", got)
	}
}
