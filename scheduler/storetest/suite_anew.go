package storetest

import (
	"errors"

	"chronos/scheduler/store"
	"chronos/scheduler/timer"
)

// anewCases are creates from a stream, maybe repeated. The key is free again once the timer is over.
func anewCases() map[string]func(*rig) {
	return map[string]func(*rig){
		"anew creates where nothing is": func(r *rig) {
			if w := r.merge(anew("k", 1, "aa")); w.Status != store.WriteStored || w.BodyHash != "aa" {
				r.Errorf("stored %+v, want stored with its hash", w)
			}
			r.live("k")
		},
		"anew where a timer lives changes nothing": func(r *rig) {
			first := r.merge(anew("k", 1, "aa"))
			r.exists(anew("k", 1, "aa"), "aa", first)
			r.exists(anew("k", 2, "aa"), "aa", first)
			r.exists(anew("k", 3, "bb"), "aa", first)
		},
		"anew where a timer without a hash lives changes nothing": func(r *rig) {
			there := r.put("k", 1, oneShot(far/2))
			r.exists(anew("k", 2, "aa"), "", there)
		},
		"anew after its timer was done":     func(r *rig) { checkAnewOver(r, store.OutcomeDone) },
		"anew after its timer was given up": func(r *rig) { checkAnewOver(r, store.OutcomeDead) },
		"anew above another's tombstone is stored": func(r *rig) {
			r.put("k", 1, nil)
			r.merge(anew("k", 2, "aa"))
			r.live("k")
		},
		"anew below another's tombstone is older": func(r *rig) {
			r.put("k", 2, nil)
			if w := r.merge(anew("k", 1, "aa")); w.Status != store.WriteNewer {
				r.Errorf("status %d, want newer", w.Status)
			}
		},
		"anew without a timer is remembered": func(r *rig) {
			w := over("k", 1, "aa")
			first := r.merge(w)
			if first.Status != store.WriteStored || !errors.Is(r.read("k").Err, timer.ErrNotFound) {
				r.Errorf("answered %+v, want a tombstone", first)
			}
			r.exists(anew("k", 2, "aa"), "aa", first)
			r.merge(anew("k", 3, "bb"))
			if got := r.live("k").Record.BodyHash; got != "bb" {
				r.Errorf("hash %q, want bb: another message of the key is another timer", got)
			}
		},
		"anew without a timer ends nothing": func(r *rig) {
			there := r.merge(anew("k", 1, "aa"))
			r.exists(over("k", 2, "bb"), "aa", there)
			r.live("k")
		},
		"anew without a timer is forgotten": func(r *rig) {
			from, to := r.during(func() { r.merge(over("k", 1, "aa")) })
			r.awaitsEmpty(from.Add(brief), to.Add(brief))
		},
	}
}

func anew(key string, n int, hash string) store.Write {
	w := once(key, n, hash)
	w.Kind = store.WriteAnew
	return w
}

// over is the memory of a message that never was a timer.
func over(key string, n int, hash string) store.Write {
	w := anew(key, n, hash)
	w.Timer, w.DueIn, w.Life, w.Keep = nil, 0, 0, brief
	return w
}

// checkAnewOver: once a timer is over, a repeated message is refused, and another message is stored.
func checkAnewOver(r *rig, outcome store.Outcome) {
	w := anew("k", 1, "aa")
	w.Timer, w.DueIn = oneShot(0), 0
	first := r.merge(w)
	r.Pass(slack)
	c := r.claim(r.a, request())
	f := r.pass(c, 1, terms(far, far))
	r.accept(c, store.Settlement{Outcome: outcome, Reason: "status 500", Keep: far})
	first.State = f.State
	first.State.Ended = true
	r.exists(anew("k", 2, "aa"), "aa", first)
	if again := r.merge(anew("k", 3, "bb")); again.Status != store.WriteStored || again.BodyHash != "bb" {
		r.Errorf("another one: %+v, want stored with its own hash", again)
	}
	if got := r.live("k").Record.State; got != (timer.State{Version: version(3), Seq: 1}) {
		r.Errorf("state %+v, want version 3", got)
	}
}
