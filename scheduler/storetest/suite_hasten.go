package storetest

import (
	"time"

	"chronos/scheduler/store"
	"chronos/scheduler/timer"
)

// hastenCases are rules "fire now" and "delay".
func hastenCases() map[string]func(*rig) {
	return map[string]func(*rig){
		"hasten has a copy come due and keeps the state and the grid": checkHasten,
		"hasten has a retry come due":                                 checkHastenedRetry,
		"hasten puts nothing off": func(r *rig) {
			r.put("k", 1, oneShot(0))
			before := r.live("k")
			r.hastens(hastening("k", 1, 1, 0, far))
			if after := r.live("k"); !after.Look.Equal(before.Look) {
				r.Errorf("the copy is looked at %v, want %v as before", after.Look, before.Look)
			}
		},
		"hasten changes no copy in another state": func(r *rig) {
			r.refusesHasten(hastening("k", 1, 1, 0, 0), store.WriteNone)
			r.put("k", 2, recurring(far, 9))
			for want, w := range map[store.WriteStatus]store.Write{
				store.WriteNewer: hastening("k", 1, 1, 0, 0),
				store.WriteOlder: hastening("k", 2, 1, 1, 0),
			} {
				r.refusesHasten(w, want)
			}
			r.refusesHasten(hastening("k", 3, 1, 0, 0), store.WriteOlder)
			r.toldStored(outcome(store.WriteNext, "k", 2, 2, 0))
			r.refusesHasten(hastening("k", 2, 1, 0, 0), store.WriteNewer)
			r.put("k", 3, nil)
			r.refusesHasten(hastening("k", 2, 2, 0, 0), store.WriteNewer)
		},
		"hasten tells a lease from a callback under way": func(r *rig) {
			c := r.leased("k", oneShot(0), far)
			if got := r.merge(hastening("k", 1, 1, 0, 0)); got.Status != store.WriteLeased || got.State.Attempt != 0 || got.Firing != 0 {
				r.Errorf("a leased copy answered %+v", got)
			}
			r.pass(c, 1, terms(far, far))
			if got := r.merge(hastening("k", 1, 1, 0, 0)); got.Status != store.WriteLeased || got.State.Attempt != 1 || got.Firing < far-time.Minute {
				r.Errorf("a firing copy answered %+v", got)
			}
			r.accept(c, store.Settlement{Outcome: store.OutcomeAgain, Delay: far, Reason: "no"})
			r.refusesHasten(hastening("k", 1, 1, 0, 0), store.WriteNewer)
		},
		"hasten passes over the firing mark of an earlier version": func(r *rig) {
			c := r.leased("k", oneShot(0), far)
			r.pass(c, 1, terms(far, far))
			r.put("k", 2, oneShot(far))
			r.hastens(hastening("k", 2, 1, 0, 0))
			if again := r.claim(r.b, request()); again.Record.State.Version != version(2) {
				r.Errorf("claimed %+v", again.Record)
			}
		},
		"a condition refuses to hasten what was patched": func(r *rig) {
			r.put("k", 1, oneShot(far))
			r.amend(amendment("k", 1, 3))
			r.refusesHasten(hastening("k", 1, 1, 0, 0).If(newest(1)), store.WriteNewer)
			r.hastens(hastening("k", 1, 1, 0, 0).If(store.Newest{Version: version(1), Rev: version(3)}))
			r.hastens(hastening("k", 1, 1, 0, 0))
			if rev := r.live("k").Record.State.Rev; rev != version(3) {
				r.Errorf("revision %v, want that of the PATCH", rev)
			}
		},
		"the next pop of a hastened pop is on the grid": checkAfterHasten,
		"an amend of a hastened copy that is leased keeps the copy due": func(r *rig) {
			r.put("k", 1, oneShot(far))
			r.hastens(hastening("k", 1, 1, 0, 0))
			req := request()
			req.Grace = time.Minute
			r.claim(r.a, req)
			r.amend(amendment("k", 1, 2))
			if again := r.claim(r.b, request()); again.Record.State.Rev != version(2) {
				r.Errorf("claimed %+v, want the revision", again.Record)
			}
		},
		"a condition may name the pop and the attempt": checkExact,
		"a read names the node of a lease": func(r *rig) {
			c := r.leased("k", oneShot(0), far)
			if got := r.live("k"); got.Holder != nodeA || got.Fired {
				r.Errorf("a leased copy reads %+v", got)
			}
			r.pass(c, 1, terms(far, far))
			if got := r.live("k"); got.Holder != nodeA || !got.Fired {
				r.Errorf("a firing copy reads %+v", got)
			}
			r.accept(c, store.Settlement{Outcome: store.OutcomeAgain, Delay: far, Reason: "no"})
			if got := r.live("k"); got.Holder != "" || got.Fired || got.Leased {
				r.Errorf("a copy without a lease reads %+v", got)
			}
		},
	}
}

// hastening has the state come due in so long.
func hastening(key string, n, seq, attempt int, in time.Duration) store.Write {
	return store.Hasten(store.Target{Key: key, RF: replicas}, timer.State{Version: version(n), Seq: seq, Attempt: attempt}, in)
}

func (r *rig) hastens(w store.Write) {
	r.Helper()
	if got := r.merge(w); got.Status != store.WriteStored {
		r.Errorf("hasten answered %+v, want stored", got)
	}
}

func (r *rig) refusesHasten(w store.Write, want store.WriteStatus) {
	r.Helper()
	var before store.ReadResult
	if want != store.WriteNone {
		before = r.read(w.Key)
	}
	if got := r.merge(w); got.Status != want {
		r.Errorf("hasten of %+v answered %+v, want status %d", w.State, got, want)
	}
	if after := r.read(w.Key); want != store.WriteNone && !after.Look.Equal(before.Look) {
		r.Errorf("the copy is looked at %v, want %v as before", after.Look, before.Look)
	}
}

func checkHasten(r *rig) {
	r.put("k", 1, recurring(far, 9))
	before := r.live("k")
	var got store.Written
	from, to := r.during(func() { got = r.merge(hastening("k", 1, 1, 0, time.Minute)) })
	if got.Status != store.WriteStored || got.New || !got.Due.Equal(before.Due) {
		r.Errorf("hasten answered %+v, want stored, with the due time of the grid", got)
	}
	after := r.live("k")
	if after.Look.Before(from.Add(time.Minute-time.Millisecond)) || after.Look.After(to.Add(time.Minute+time.Millisecond)) {
		r.Errorf("the copy is looked at %v, want a minute after %v", after.Look, from)
	}
	if after.Record.State != before.Record.State || !after.Due.Equal(before.Due) || !after.Record.Start.Equal(before.Record.Start) {
		r.Errorf("the copy is %+v, want %+v", after.Record, before.Record)
	}
	r.hastens(hastening("k", 1, 1, 0, 0))
	c := r.claim(r.a, request())
	f := r.pass(c, 9, terms(far, far))
	if f.State.Seq != 1 || f.State.Attempt != 1 || !f.Due.Equal(before.Due) || f.Late > -far+time.Minute {
		r.Errorf("the fence answered %+v, want pop 1, an hour before its time", f)
	}
}

func checkHastenedRetry(r *rig) {
	c := r.leased("k", oneShot(0), far)
	r.pass(c, 1, terms(brief, far))
	r.accept(c, store.Settlement{Outcome: store.OutcomeAgain, Delay: far, Reason: "no"})
	r.hastens(hastening("k", 1, 1, 1, 0))
	again := r.claim(r.b, request())
	if f := r.pass(again, 1, terms(far, far)); f.State.Attempt != 2 {
		r.Errorf("the fence answered %+v, want attempt 2", f)
	}
}

// checkAfterHasten settles a pop that was hastened: the next pop keeps its time, and a pop that is hastened in vain
// keeps no pop behind back.
func checkAfterHasten(r *rig) {
	r.put("k", 1, recurring(far, 9))
	start := r.live("k").Record.Start
	r.hastens(hastening("k", 1, 1, 0, 0))
	c := r.claim(r.a, request())
	r.pass(c, 9, terms(brief, far))
	r.accept(c, store.Settlement{Outcome: store.OutcomeNext})
	got := r.live("k")
	if want := start.Add(2 * far); got.Record.State.Seq != 2 || !got.Due.Equal(want) || !got.Look.Equal(want) {
		r.Errorf("after the pop the copy is %+v, want pop 2 due %v", got, want)
	}
}

// checkExact writes on the condition that the copy is at a pop and an attempt.
func checkExact(r *rig) {
	at := func(seq, attempt int) store.Newest {
		return store.Newest{Version: version(1), Seq: seq, Attempt: attempt}
	}
	if got := r.merge(write("none", 5, oneShot(far)).If(at(1, 0))); got.Status != store.WriteNone {
		r.Errorf("without a copy answered %+v, want none", got)
	}
	r.put("k", 1, recurring(far, 9))
	r.toldStored(outcome(store.WriteNext, "k", 1, 3, 0))
	for _, wrong := range []store.Newest{at(2, 0), at(4, 0), at(3, 1), {Seq: 3}} {
		r.refuses(write("k", 5, oneShot(far)).If(wrong), 1)
	}
	if got := r.merge(write("k", 5, oneShot(far)).If(store.Newest{Version: version(2), Seq: 3})); got.Status != store.WriteOlder {
		r.Errorf("a copy of an earlier version answered %+v, want older", got)
	}
	w := write("k", 5, recurring(far, 9)).If(at(3, 0))
	w.State.Seq, w.DueIn = 3, far
	r.takes(w)
	if got := r.live("k"); got.Record.State != (timer.State{Version: version(5), Seq: 3}) || got.DueIn < far-time.Minute || got.DueIn > far+time.Millisecond {
		r.Errorf("the copy is %+v, want pop 3 of the new version in an hour", got)
	}
	if again := r.merge(w); again.Status != store.WriteSame {
		r.Errorf("the second time answered %+v, want the same", again)
	}
	c := r.leased("firing", oneShot(0), far)
	r.pass(c, 1, terms(far, far))
	if got := r.merge(write("firing", 5, oneShot(far)).If(at(1, 0))); got.Status != store.WriteNewer || got.Firing < far-time.Minute {
		r.Errorf("a firing copy answered %+v, want newer, and firing", got)
	}
	r.put("ended", 1, nil)
	r.refuses(write("ended", 5, oneShot(far)).If(at(1, 0)), 1)
}
