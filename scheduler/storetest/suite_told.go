package storetest

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"chronos/scheduler/store"
	"chronos/scheduler/timer"
)

// checkToldTable: outcomes go on from an earlier state of the same version, and from no other state.
func (r *rig) checkToldTable(kind store.WriteKind, seq, attempt int) {
	told := timer.State{Version: version(5), Seq: seq, Attempt: attempt}
	for i, c := range []struct {
		name  string
		there *timer.State // nil for nothing
		want  store.WriteStatus
	}{
		{"nothing", nil, store.WriteNone},
		{"an older version", &timer.State{Version: version(4), Seq: 9}, store.WriteOlder},
		{"an older tombstone", &timer.State{Version: version(4), Ended: true}, store.WriteOlder},
		{"its predecessor", &timer.State{Version: version(5), Seq: 1}, store.WriteStored},
		{"the same", &told, store.WriteSame},
		{"a later attempt", &timer.State{Version: version(5), Seq: seq, Attempt: attempt + 1}, store.WriteNewer},
		{"a later pop", &timer.State{Version: version(5), Seq: seq + 1}, store.WriteNewer},
		{"its tombstone", &timer.State{Version: version(5), Ended: true}, store.WriteNewer},
		{"a newer version", &timer.State{Version: version(6), Seq: 1}, store.WriteNewer},
		{"a newer tombstone", &timer.State{Version: version(6), Ended: true}, store.WriteNewer},
	} {
		r.Run(c.name, func(t *testing.T) {
			sub := &rig{T: t, Fixture: r.Fixture, a: r.a, b: r.b}
			key := fmt.Sprint("k", i)
			if c.there != nil {
				sub.there(key, *c.there)
			}
			w := outcome(kind, key, 5, seq, attempt)
			sub.unless(w, c.want)
			if c.want == store.WriteStored {
				sub.unless(w, store.WriteSame)
			}
		})
	}
}

// there puts a state into the store.
func (r *rig) there(key string, state timer.State) {
	r.Helper()
	w := outcome(store.WriteLive, key, 0, state.Seq, state.Attempt)
	if state.Ended {
		w = outcome(store.WriteGone, key, 0, 0, 0)
	}
	w.State.Version = state.Version
	r.toldStored(w)
}

// unless tells w and checks the status, and that nothing is changed unless w is stored.
func (r *rig) unless(w store.Write, want store.WriteStatus) {
	r.Helper()
	before := r.read(w.Key)
	answer := r.told(w)
	after := r.read(w.Key)
	if answer.Status != want {
		r.Errorf("status %d, want %d", answer.Status, want)
	}
	if want == store.WriteNone {
		if answer.State != (timer.State{}) || !answer.Due.IsZero() || answer.New {
			r.Errorf("answered %+v, want nothing", answer)
		}
	} else if answer.State != after.Record.State && w.Kind != store.WriteDrop {
		r.Errorf("answered state %+v, and there is %+v", answer.State, after.Record.State)
	}
	if want == store.WriteStored {
		return
	}
	if !sameRecord(before.Record, after.Record) || !before.Look.Equal(after.Look) || !errors.Is(after.Err, before.Err) {
		r.Errorf("it changed %+v into %+v", before, after)
	}
}

func (r *rig) checkToldEndsLease(w store.Write) {
	r.backup("k", 5, 1, 1)
	req := request()
	req.Horizon = 2 * far
	c := r.claim(r.a, req)
	r.toldStored(w)
	if got := r.read("k"); got.Leased {
		r.Error("it is still leased")
	}
	if f := r.fence(c, 9, terms(far, far)); f.Status != store.FenceLost {
		r.Errorf("fence: status %d, want lost", f.Status)
	}
	for _, outcome := range []store.Outcome{store.OutcomeRelease, store.OutcomeNext, store.OutcomeLetter, store.OutcomeDone} {
		if s := r.settle(c, store.Settlement{Outcome: outcome}); s.Accepted || s.Holder != "" {
			r.Errorf("%s: %+v, want not accepted, nobody", outcome, s)
		}
	}
	if n := len(r.DeadLetters(r.shard())); n != 0 {
		r.Errorf("%d dead letters, want none", n)
	}
}

// checkToldUnderMark: an outcome of another copy takes no callback back.
func checkToldUnderMark(r *rig) {
	for i, w := range []store.Write{
		outcome(store.WriteNext, "next", 5, 2, 0), outcome(store.WriteAgain, "again", 5, 1, 9),
		outcome(store.WriteDone, "done", 5, 1, 1), outcome(store.WriteGone, "gone", 6, 0, 0),
	} {
		live := outcome(store.WriteLive, w.Key, 5, 1, 0)
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
		there *timer.State // nil for nothing
		want  store.WriteStatus
	}{
		{"nothing", nil, store.WriteNone},
		{"an older version", &timer.State{Version: version(4), Seq: 9}, store.WriteOlder},
		{"an earlier pop", &timer.State{Version: version(5), Seq: 1, Attempt: 9}, store.WriteStored},
		{"the same state", &timer.State{Version: version(5), Seq: 2, Attempt: 1}, store.WriteStored},
		{"a later attempt", &timer.State{Version: version(5), Seq: 2, Attempt: 2}, store.WriteNewer},
		{"a later pop", &timer.State{Version: version(5), Seq: 3}, store.WriteNewer},
		{"its tombstone", &timer.State{Version: version(5), Ended: true}, store.WriteNewer},
		{"a newer version", &timer.State{Version: version(6), Seq: 1}, store.WriteNewer},
		{"ended: its tombstone", &timer.State{Version: version(5), Ended: true}, store.WriteStored},
		{"ended: a newer tombstone", &timer.State{Version: version(6), Ended: true}, store.WriteNewer},
	} {
		r.Run(c.name, func(t *testing.T) {
			sub := &rig{T: t, Fixture: r.Fixture, a: r.a, b: r.b}
			w := outcome(store.WriteDrop, fmt.Sprint("k", i), 5, 2, 1)
			w.State.Ended = strings.HasPrefix(c.name, "ended:")
			if c.there != nil {
				sub.there(w.Key, *c.there)
			}
			before := sub.pending()
			sub.unless(w, c.want)
			if c.want != store.WriteStored {
				return
			}
			if n := sub.pending(); n != before-1 || !errors.Is(sub.read(w.Key).Err, timer.ErrNotFound) {
				t.Errorf("%d are left of %d, want one less", n, before)
			}
			sub.unless(w, store.WriteNone)
		})
	}
}

func (r *rig) checkFailureTold(w store.Write) {
	r.Helper()
	r.backup(w.Key, 5, 1, 0)
	r.checkFailureBrought(w)
	w.State.Attempt += 2
	w.Failure = store.Failure{}
	r.toldStored(w)
	if got := r.live(w.Key).Record.Failure; !got.IsZero() {
		r.Errorf("%s without a failure leaves %+v", w.Key, got)
	}
}

func (r *rig) checkFailureBrought(w store.Write) {
	r.Helper()
	w.Failure = store.Failure{Node: nodeA, Reason: "status 503: no @ 100% - :@:"}
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
