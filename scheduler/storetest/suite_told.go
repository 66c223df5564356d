package storetest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"chronos/scheduler"
)

// checkToldTable: outcomes go on from an earlier state of the same version, and
// from nothing else.
func (r *rig) checkToldTable(kind scheduler.WriteKind, seq, attempt int) {
	told := scheduler.State{Version: version(5), Seq: seq, Attempt: attempt}
	for i, c := range []struct {
		name  string
		there *scheduler.State // nil for nothing
		want  scheduler.WriteStatus
	}{
		{"nothing", nil, scheduler.WriteNone},
		{"an older version", &scheduler.State{Version: version(4), Seq: 9}, scheduler.WriteOlder},
		{"an older tombstone", &scheduler.State{Version: version(4), Ended: true}, scheduler.WriteOlder},
		{"its predecessor", &scheduler.State{Version: version(5), Seq: 1}, scheduler.WriteStored},
		{"the same", &told, scheduler.WriteSame},
		{"a later attempt", &scheduler.State{Version: version(5), Seq: seq, Attempt: attempt + 1}, scheduler.WriteNewer},
		{"a later pop", &scheduler.State{Version: version(5), Seq: seq + 1}, scheduler.WriteNewer},
		{"its tombstone", &scheduler.State{Version: version(5), Ended: true}, scheduler.WriteNewer},
		{"a newer version", &scheduler.State{Version: version(6), Seq: 1}, scheduler.WriteNewer},
		{"a newer tombstone", &scheduler.State{Version: version(6), Ended: true}, scheduler.WriteNewer},
	} {
		r.Run(c.name, func(t *testing.T) {
			sub := &rig{T: t, Fixture: r.Fixture, a: r.a, b: r.b}
			key := fmt.Sprint("k", i)
			if c.there != nil {
				sub.there(key, *c.there)
			}
			w := outcome(kind, key, 5, seq, attempt)
			sub.unless(w, c.want)
			if c.want == scheduler.WriteStored {
				sub.unless(w, scheduler.WriteSame)
			}
		})
	}
}

// there puts a state into the store.
func (r *rig) there(key string, state scheduler.State) {
	r.Helper()
	w := outcome(scheduler.WriteLive, key, 0, state.Seq, state.Attempt)
	if state.Ended {
		w = outcome(scheduler.WriteGone, key, 0, 0, 0)
	}
	w.State.Version = state.Version
	r.toldStored(w)
}

// unless tells w and checks its status, and that nothing is changed unless it is
// stored.
func (r *rig) unless(w scheduler.Write, want scheduler.WriteStatus) {
	r.Helper()
	before := r.read(w.Key)
	answer := r.told(w)
	after := r.read(w.Key)
	if answer.Status != want {
		r.Errorf("status %d, want %d", answer.Status, want)
	}
	if want == scheduler.WriteNone {
		if answer.State != (scheduler.State{}) || !answer.Due.IsZero() || answer.New {
			r.Errorf("answered %+v, want nothing", answer)
		}
	} else if answer.State != after.Record.State && w.Kind != scheduler.WriteDrop {
		r.Errorf("answered state %+v, and there is %+v", answer.State, after.Record.State)
	}
	if want == scheduler.WriteStored {
		return
	}
	if !sameRecord(before.Record, after.Record) || !before.Look.Equal(after.Look) || !errors.Is(after.Err, before.Err) {
		r.Errorf("it changed %+v into %+v", before, after)
	}
}

func (r *rig) checkToldEndsLease(w scheduler.Write) {
	r.backup("k", 5, 1, 1)
	req := request()
	req.Horizon = 2 * far
	c := r.claim(r.a, req)
	r.toldStored(w)
	if got := r.read("k"); got.Leased {
		r.Error("it is still leased")
	}
	if f := r.fence(c, 9, terms(far, far)); f.Status != scheduler.FenceLost {
		r.Errorf("fence: status %d, want lost", f.Status)
	}
	for _, outcome := range []scheduler.Outcome{scheduler.OutcomeRelease, scheduler.OutcomeNext, scheduler.OutcomeLetter, scheduler.OutcomeDone} {
		if s := r.settle(c, scheduler.Settlement{Outcome: outcome}); s.Accepted || s.Holder != "" {
			r.Errorf("%s: %+v, want not accepted, nobody", outcome, s)
		}
	}
	if n := len(r.DeadLetters(r.shard())); n != 0 {
		r.Errorf("%d dead letters, want none", n)
	}
}

// checkToldUnderMark: an outcome of another copy takes no callback back.
func checkToldUnderMark(r *rig) {
	for i, w := range []scheduler.Write{
		outcome(scheduler.WriteNext, "next", 5, 2, 0), outcome(scheduler.WriteAgain, "again", 5, 1, 9),
		outcome(scheduler.WriteDone, "done", 5, 1, 1), outcome(scheduler.WriteGone, "gone", 6, 0, 0),
	} {
		live := outcome(scheduler.WriteLive, w.Key, 5, 1, 0)
		live.DueIn, live.Offset = 0, 0
		r.toldStored(live)
		r.Pass(slack)
		r.pass(r.claim(r.a, request()), 9, terms(far, far))
		if answer := r.toldStored(w); answer.Firing <= 0 {
			r.Errorf("write %d is not answered in flight", i)
		}
		if left := r.firing(r.shard(), w.Key); left <= far-time.Minute || left > far {
			r.Errorf("after write %d the mark lasts %v, want nearly %v", i, left, far)
		}
	}
}

func checkDrop(r *rig) {
	for i, c := range []struct {
		name  string
		there *scheduler.State // nil for nothing
		want  scheduler.WriteStatus
	}{
		{"nothing", nil, scheduler.WriteNone},
		{"an older version", &scheduler.State{Version: version(4), Seq: 9}, scheduler.WriteOlder},
		{"an earlier pop", &scheduler.State{Version: version(5), Seq: 1, Attempt: 9}, scheduler.WriteStored},
		{"the same state", &scheduler.State{Version: version(5), Seq: 2, Attempt: 1}, scheduler.WriteStored},
		{"a later attempt", &scheduler.State{Version: version(5), Seq: 2, Attempt: 2}, scheduler.WriteNewer},
		{"a later pop", &scheduler.State{Version: version(5), Seq: 3}, scheduler.WriteNewer},
		{"its tombstone", &scheduler.State{Version: version(5), Ended: true}, scheduler.WriteNewer},
		{"a newer version", &scheduler.State{Version: version(6), Seq: 1}, scheduler.WriteNewer},
	} {
		r.Run(c.name, func(t *testing.T) {
			sub := &rig{T: t, Fixture: r.Fixture, a: r.a, b: r.b}
			w := outcome(scheduler.WriteDrop, fmt.Sprint("k", i), 5, 2, 1)
			if c.there != nil {
				sub.there(w.Key, *c.there)
			}
			before := sub.pending()
			sub.unless(w, c.want)
			if c.want != scheduler.WriteStored {
				return
			}
			if n := sub.pending(); n != before-1 || !errors.Is(sub.read(w.Key).Err, scheduler.ErrNotFound) {
				t.Errorf("%d are left of %d, want one less", n, before)
			}
			sub.unless(w, scheduler.WriteNone)
		})
	}
}

func (r *rig) checkFailureTold(w scheduler.Write) {
	r.Helper()
	r.backup(w.Key, 5, 1, 0)
	r.checkFailureBrought(w)
	w.State.Attempt += 2
	w.Failure = scheduler.Failure{}
	r.toldStored(w)
	if got := r.live(w.Key).Record.Failure; !got.IsZero() {
		r.Errorf("%s without a failure leaves %+v", w.Key, got)
	}
}

func (r *rig) checkFailureBrought(w scheduler.Write) {
	r.Helper()
	w.Failure = scheduler.Failure{Node: nodeA, Reason: "status 503: no @ 100% - :@:"}
	from, to := r.during(func() { r.toldStored(w) })
	got := r.live(w.Key).Record.Failure
	if got.Node != nodeA || got.Reason != w.Failure.Reason {
		r.Errorf("%s: failure %+v, want %+v", w.Key, got, w.Failure)
	}
	r.between("failure", got.At, from, to)
	w.State.Attempt++
	w.Failure.At = from.Add(-far).Truncate(time.Millisecond).UTC()
	r.toldStored(w)
	if got := r.live(w.Key).Record.Failure; got != w.Failure {
		r.Errorf("%s: failure %+v, want %+v", w.Key, got, w.Failure)
	}
}
