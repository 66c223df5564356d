package storetest

import (
	"errors"
	"time"

	"chronos/scheduler/store"
	"chronos/scheduler/timer"
	"chronos/scheduler/timing"
)

// amendCases are rule "a patch is a revision".
func amendCases() map[string]func(*rig) {
	return map[string]func(*rig){
		"amend changes the timer and keeps the state and the grid": checkAmend,
		"amend makes nothing": func(r *rig) {
			r.refusesAmend(amendment("k", 1, 2), store.WriteNone)
			r.put("k", 1, nil)
			r.refusesAmend(amendment("k", 1, 2), store.WriteNewer)
			if got := r.read("k"); !errors.Is(got.Err, timer.ErrNotFound) {
				r.Errorf("after an amend of a timer that is over: %+v", got)
			}
		},
		"amend that comes twice finds itself, and an older amend nothing to do": func(r *rig) {
			r.put("k", 1, oneShot(far))
			r.amend(amendment("k", 1, 3).If(newest(1)))
			r.refusesAmend(amendment("k", 1, 3).If(newest(1)), store.WriteSame)
			r.refusesAmend(amendment("k", 1, 2), store.WriteNewer)
			r.toldStored(outcome(store.WriteNext, "k", 1, 2, 0))
			r.refusesAmend(amendment("k", 1, 3).If(newest(1)), store.WriteSame)
			if rev := r.live("k").Record.State.Rev; rev != version(3) {
				r.Errorf("revision %v, want the newest", rev)
			}
		},
		"a condition refuses an amend of what has changed": func(r *rig) {
			r.put("k", 1, oneShot(far))
			r.amend(amendment("k", 1, 3))
			r.refusesAmend(amendment("k", 1, 5).If(newest(1)), store.WriteNewer)
			r.refusesAmend(write("k", 5, oneShot(far)).If(newest(1)), store.WriteNewer)
			r.refusesAmend(write("k", 5, nil).If(newest(1)), store.WriteNewer)
			r.amend(amendment("k", 1, 5).If(store.Newest{Version: version(1), Rev: version(3)}))
			r.refusesAmend(amendment("k", 7, 8).If(newest(7)), store.WriteOlder)
		},
		"amend brings up a copy of an older version": func(r *rig) {
			r.put("k", 1, recurring(far, 9))
			r.amend(amendment("k", 5, 6))
			if got := r.live("k").Record; got.State != (timer.State{Version: version(5), Seq: 1, Rev: version(6)}) || got.Timer.Callback.URI != amended {
				r.Errorf("the copy has %+v", got)
			}
		},
		"amend ends the lease of a claim that has not fired, which is claimed again at once": func(r *rig) {
			c := r.leased("k", oneShot(0), far)
			r.amend(amendment("k", 1, 2))
			if f := r.fence(c, 1, terms(far, far)); f.Status != store.FenceLost || !f.Free {
				r.Errorf("the fence answered %+v, want lost and free", f)
			}
			if again := r.claim(r.b, request()); again.Record.State.Rev != version(2) || again.Record.Timer.Callback.URI != amended {
				r.Errorf("claimed %+v", again.Record)
			}
		},
		"amend where no copy belongs keeps the offset, whatever the attempt": func(r *rig) {
			r.leased("k", oneShot(0), far)
			record := r.live("k").Record
			record.State.Attempt, record.State.Rev = 1, version(2)
			r.amend(store.AmendLeft(store.Target{Key: "k", RF: replicas}, &record, store.Times{Offset: brief}))
			if got := r.live("k"); got.Look.Sub(got.Due) != brief {
				r.Errorf("the copy comes due %v after the pop, want %v", got.Look.Sub(got.Due), brief)
			}
		},
		"amend leaves a callback alone":                      checkAmendUnderCallback,
		"done leaves a tombstone where a PATCH came between": checkAmendedEnd,
		"a revision stays with a newer state, and comes to a newer state": func(r *rig) {
			r.backup("k", 5, 1, 0)
			behind := r.live("k").Record
			r.amend(amendment("k", 5, 6))
			r.toldStored(outcome(store.WriteNext, "k", 5, 3, 0))
			newer := behind
			newer.State.Seq = 4
			r.toldStored(onShard(r.shard(), store.Copy(store.Target{Key: "k", RF: replicas, Rank: 1}, &newer, store.Times{DueIn: 4 * far})))
			if got := r.live("k").Record; got.State != (timer.State{Version: version(5), Seq: 4, Rev: version(6)}) || got.Timer.Callback.URI != amended {
				r.Errorf("the copy has %+v, want the newest state with the newest revision", got)
			}
			behind.State.Rev, behind.Timer.Callback.URI = version(7), "http://receiver.example/again"
			r.toldStored(onShard(r.shard(), store.Copy(store.Target{Key: "k", RF: replicas, Rank: 1}, &behind, store.Times{DueIn: far})))
			if got := r.live("k").Record; got.State != (timer.State{Version: version(5), Seq: 4, Rev: version(7)}) || got.Timer.Callback.URI != behind.Timer.Callback.URI {
				r.Errorf("the copy has %+v, want its state with the newest revision", got)
			}
		},
		"ask tells of another revision": func(r *rig) {
			r.put("k", 1, oneShot(far))
			state := r.live("k").Record.State
			r.amend(amendment("k", 1, 2))
			if d, differs := r.ask(r.shard(), "k", state); !differs || d.State.Rev != version(2) {
				r.Errorf("ask answered %+v, %v", d, differs)
			}
			if state.Rev = version(2); !r.agrees("k", state) {
				r.Error("the same revision differs")
			}
			if state.Rev = version(3); r.agrees("k", state) {
				r.Error("an older revision does not differ")
			}
		},
		"tags count as the newest revision says": func(r *rig) {
			first := oneShot(0)
			first.Tags = []timer.Tag{{Type: "old", Count: 2}}
			c := r.leased("k", first, far)
			r.pass(c, 1, terms(brief, far))
			w := amendment("k", 1, 2)
			w.Timer.Tags = []timer.Tag{{Type: "new", Count: 3}}
			r.amend(w)
			r.counts("of a PATCH", sums{"new": 3})
			r.settle(c, store.Settlement{Outcome: store.OutcomeDone})
			r.counts("of the end", sums{})
		},
	}
}

// amended is the URI that amendments give a timer.
const amended = "http://receiver.example/amended"

// amendment is revision rev of version n, read before the first pop.
func amendment(key string, n, rev int) store.Write {
	t := oneShot(far)
	t.Callback.URI = amended
	r := store.Record{State: timer.State{Version: version(n), Seq: 1, Rev: version(rev)}, Timer: *t}
	return store.Amend(store.Target{Key: key, RF: replicas}, &r, store.Times{DueIn: far})
}

func (r *rig) amend(w store.Write) {
	r.Helper()
	if got := r.merge(w); got.Status != store.WriteStored || got.State.Rev != w.State.Rev {
		r.Errorf("amend answered %+v, want stored with revision %v", got, w.State.Rev)
	}
}

func (r *rig) refusesAmend(w store.Write, want store.WriteStatus) {
	r.Helper()
	if got := r.merge(w); got.Status != want {
		r.Errorf("answered %+v, want status %d", got, want)
	}
}

// agrees reports whether ask finds no difference.
func (r *rig) agrees(key string, state timer.State) bool {
	r.Helper()
	_, differs := r.ask(r.shard(), key, state)
	return !differs
}

func checkAmend(r *rig) {
	r.put("k", 1, recurring(far, 9))
	r.toldStored(outcome(store.WriteNext, "k", 1, 3, 0))
	before := r.live("k")
	r.amend(amendment("k", 1, 2))
	after := r.live("k")
	want := before.Record.State
	want.Rev = version(2)
	if after.Record.State != want || !after.Record.Start.Equal(before.Record.Start) || !after.Look.Equal(before.Look) || !after.Due.Equal(before.Due) {
		r.Errorf("the copy has %+v, want state and times of %+v", after, before)
	}
	if after.Record.Timer.Callback.URI != amended || after.Record.Timer.Interval != far || after.Record.Rank != before.Record.Rank {
		r.Errorf("the timer is %+v", after.Record)
	}
}

// checkAmendUnderCallback amends a timer during its callback, whose outcome counts.
func checkAmendUnderCallback(r *rig) {
	c := r.leased("k", recurring(brief, 1000), far)
	r.Pass(2 * brief)
	f := r.pass(c, 1000, terms(far, far))
	w := r.merge(amendment("k", 1, 2))
	if w.Status != store.WriteStored || w.Firing < far-time.Minute || w.State.Attempt != 1 {
		r.Errorf("amend answered %+v, want stored, firing, and the attempt that was counted", w)
	}
	further := amendment("k", 1, 3) // read from a copy that has heard of the outcome
	further.State.Seq = 2
	r.amend(further)
	if renewed := r.pass(c, 1000, terms(far, far)); renewed.State.Seq != f.State.Seq || renewed.State.Attempt != 1 {
		r.Errorf("the renewed fence has %+v, want %+v", renewed.State, f.State)
	}
	if settled := r.settle(c, store.Settlement{Outcome: store.OutcomeNext}); !settled.Accepted {
		r.Errorf("the outcome was answered %+v", settled)
	}
	if got := r.live("k").Record; got.State != (timer.State{Version: version(1), Seq: f.State.Seq + 1, Rev: version(3)}) || got.Timer.Callback.URI != amended {
		r.Errorf("after the outcome the copy has %+v", got)
	}
}

// checkAmendedEnd has a PATCH come between a claim and the end of the timer, on the leased copy and elsewhere.
func checkAmendedEnd(r *rig) {
	for _, key := range []string{"leased", "renewed"} {
		c := r.leased(key, oneShot(0), far)
		r.pass(c, 1, terms(brief, far))
		r.amend(amendment(key, 1, 2))
		if key == "renewed" {
			r.pass(c, 1, terms(brief, far))
		}
		r.settle(c, store.Settlement{Outcome: store.OutcomeDone})
		r.hasTombstone(key)
	}
	r.put("told", 5, oneShot(far))
	r.amend(amendment("told", 5, 6))
	r.toldStored(outcome(store.WriteDone, "told", 5, 1, 1))
	r.hasTombstone("told")
	r.put("heard", 5, oneShot(far))
	r.amend(amendment("heard", 5, 6))
	w := outcome(store.WriteDone, "heard", 5, 1, 1)
	w.State.Rev = version(6)
	r.toldStored(w)
	if got := r.read("heard"); got.Record.State.Version != 0 {
		r.Errorf("a done of the same revision has left %+v", got.Record.State)
	}
}

func (r *rig) hasTombstone(key string) {
	r.Helper()
	if got := r.read(key); !got.Record.State.Ended || got.Record.State.Rev != 0 || got.LookIn < timing.YoungLife/2 {
		r.Errorf("%s: %+v, want a tombstone", key, got)
	}
}
