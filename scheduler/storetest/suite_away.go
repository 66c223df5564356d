package storetest

import (
	"cmp"
	"slices"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"chronos/scheduler"
)

// awayCases are the notes of a copy about copies on other shards (rules "tombstones outlive
// what was missed" and "substitute copies").
func awayCases() map[string]func(*rig) {
	return map[string]func(*rig){
		"a note adds to what is away, once": checkNote,
		"a note ends no lease": func(r *rig) {
			c := r.leased("k", oneShot(0), far)
			r.toldStored(note("k", 1, substitute()))
			f := r.pass(c, 1, terms(far, far))
			r.toldStored(note("k", 1, other()))
			if got := r.live("k"); !got.Leased || got.Record.State != f.State || r.firing(r.shard(), "k") == 0 {
				r.Errorf("it is now %+v, want it leased and firing as %+v", got, f.State)
			}
			r.checkAway("k", substitute(), other())
			r.pass(c, 1, terms(far, far)) // renewed
			r.accept(c, scheduler.Settlement{Outcome: scheduler.OutcomeAgain, Delay: far})
			r.checkAway("k", substitute(), other())
		},
		"a note of another version is left alone": checkNoteOfAnother,
		"a note on a tombstone adds to it": func(r *rig) {
			r.put("k", 5, nil)
			r.toldStored(note("k", 5, substitute()))
			r.checkAway("k", substitute())
		},
		"every write keeps what is away, and adds its own": checkAwayKept,
		"an outcome keeps what is away": func(r *rig) {
			for i, outcome := range []scheduler.Outcome{scheduler.OutcomeRelease, scheduler.OutcomeAgain, scheduler.OutcomeNext} {
				key := keys(3)[i]
				r.awayAt(key, 0)
				r.accept(r.claim(r.a, request()), scheduler.Settlement{Outcome: outcome, Delay: far})
				r.checkAway(key, substitute())
			}
		},
		"who claims or takes is told what is away": func(r *rig) {
			r.awayAt("claimed", 0)
			if got := r.claim(r.a, request()).Record.Away; !sameAway(got, substitute()) {
				r.Errorf("claimed with %v away, want %v", got, substitute())
			}
			r.awayAt("taken", 0)
			if got := r.take(r.shard(), "taken", far).Record.Away; !sameAway(got, substitute()) {
				r.Errorf("taken with %v away, want %v", got, substitute())
			}
		},
		"refused writes are answered with what is away": func(r *rig) {
			r.awayAt("k", far)
			for _, w := range []scheduler.Write{write("k", 4, oneShot(far)), write("k", 4, nil), write("k", 5, oneShot(2*far))} {
				w.Away = []scheduler.Away{other()}
				if got := r.merge(w); got.Status == scheduler.WriteStored || !sameAway(got.Away, substitute()) {
					r.Errorf("answered %+v, want refused, and %v", got, substitute())
				}
			}
			r.checkAway("k", substitute())
		},
		"the same write once more adds to what is away": func(r *rig) {
			for kind, want := range map[scheduler.WriteKind]scheduler.WriteStatus{
				scheduler.WritePut: scheduler.WriteSame, scheduler.WriteOnce: scheduler.WriteExists, scheduler.WriteAnew: scheduler.WriteExists,
			} {
				key := string(kind)
				w := write(key, 5, oneShot(0))
				w.Kind, w.Away = kind, []scheduler.Away{substitute()}
				if got := r.merge(w); got.Status != scheduler.WriteStored {
					r.Fatalf("answered %+v, want stored", got)
				}
				r.Pass(slack)
				c := r.claim(r.a, request())
				w.Away = []scheduler.Away{other()}
				if got := r.merge(w); got.Status != want || !sameAway(got.Away, substitute(), other()) {
					r.Errorf("%s: answered %+v, want %v away", kind, got, []scheduler.Away{substitute(), other()})
				}
				r.checkAway(key, substitute(), other())
				r.accept(c, scheduler.Settlement{Outcome: scheduler.OutcomeDone})
			}
		},
	}
}

// substitute and other are copies away.
func substitute() scheduler.Away { return scheduler.Away{Shard: "spare", Rank: 1} }

func other() scheduler.Away { return scheduler.Away{Shard: "spare.2", Rank: 0} }

func note(key string, n int, away ...scheduler.Away) scheduler.Write {
	return scheduler.Write{Kind: scheduler.WriteNote, Key: key, State: scheduler.State{Version: version(n), Seq: 1}, RF: replicas, Away: away}
}

// sameAway compares lists, in whatever order.
func sameAway(got []scheduler.Away, want ...scheduler.Away) bool {
	order := func(a, b scheduler.Away) int { return cmp.Or(cmp.Compare(a.Shard, b.Shard), a.Rank-b.Rank) }
	return slices.Equal(slices.SortedFunc(slices.Values(got), order), slices.SortedFunc(slices.Values(want), order))
}

func (r *rig) checkAway(key string, want ...scheduler.Away) {
	r.Helper()
	if got := r.read(key).Record.Away; !sameAway(got, want...) {
		r.Errorf("%s has %v away, want %v", key, got, want)
	}
}

// awayAt makes version 5 of a timer with a copy away, due in d.
func (r *rig) awayAt(key string, d time.Duration) {
	r.Helper()
	w := write(key, 5, oneShot(d))
	w.Away = []scheduler.Away{substitute()}
	if got := r.merge(w); got.Status != scheduler.WriteStored || !sameAway(got.Away, substitute()) {
		r.Fatalf("answered %+v, want stored, %v", got, substitute())
	}
	r.Pass(slack)
}

func checkNote(r *rig) {
	r.put("k", 5, oneShot(far))
	before := r.live("k")
	for _, step := range []struct {
		add, want []scheduler.Away
	}{
		{nil, nil},
		{[]scheduler.Away{substitute()}, []scheduler.Away{substitute()}},
		{[]scheduler.Away{substitute()}, []scheduler.Away{substitute()}},
		{[]scheduler.Away{other(), substitute()}, []scheduler.Away{substitute(), other()}},
		{[]scheduler.Away{{Shard: "spare", Rank: 10}}, []scheduler.Away{substitute(), other(), {Shard: "spare", Rank: 10}}},
		{[]scheduler.Away{{Shard: "spare", Rank: 1}}, []scheduler.Away{substitute(), other(), {Shard: "spare", Rank: 10}}},
		{[]scheduler.Away{{Shard: "pare", Rank: 1}}, []scheduler.Away{substitute(), other(), {Shard: "spare", Rank: 10}, {Shard: "pare", Rank: 1}}},
	} {
		if got := r.toldStored(note("k", 5, step.add...)); got.State != before.Record.State || got.RF != replicas || !got.Due.Equal(before.Due) {
			r.Errorf("answered %+v, want the state that is there, %+v", got, before.Record.State)
		}
		r.checkAway("k", step.want...)
		after := r.live("k")
		after.Record.Away, after.LookIn, after.DueIn = nil, before.LookIn, before.DueIn
		if diff := gocmp.Diff(before, after); diff != "" {
			r.Errorf("a note changed more than what is away (-before +after):\n%s", diff)
		}
	}
}

func checkNoteOfAnother(r *rig) {
	if got := r.told(note("k", 5, other())); got.Status != scheduler.WriteNone {
		r.Errorf("a note of what is missing: status %d, want none", got.Status)
	}
	if n := r.pending(); n != 0 {
		r.Errorf("%d are there, want nothing", n)
	}
	for _, there := range []*scheduler.Timer{oneShot(far), nil} {
		key := map[bool]string{true: "ended", false: "alive"}[there == nil]
		w := write(key, 5, there)
		w.Away = []scheduler.Away{substitute()}
		r.merge(w)
		for n, want := range map[int]scheduler.WriteStatus{4: scheduler.WriteNewer, 6: scheduler.WriteOlder} {
			if got := r.told(note(key, n, other())); got.Status != want || got.State.Version != version(5) || !sameAway(got.Away, substitute()) {
				r.Errorf("%s, note of version %d: %+v, want status %d, and what is there", key, n, got, want)
			}
		}
		r.checkAway(key, substitute())
	}
}

func checkAwayKept(r *rig) {
	for i, w := range []scheduler.Write{
		write("k", 6, oneShot(far)), write("k", 6, nil), outcome(scheduler.WriteLive, "k", 5, 2, 0), outcome(scheduler.WriteNext, "k", 5, 2, 0),
		outcome(scheduler.WriteAgain, "k", 5, 1, 1), outcome(scheduler.WriteDone, "k", 6, 1, 1), outcome(scheduler.WriteDone, "k", 5, 2, 1),
	} {
		w.Key = keys(9)[i]
		r.awayAt(w.Key, far)
		w.Away = []scheduler.Away{other(), substitute()}
		if got := r.toldStored(w); !sameAway(got.Away, substitute(), other()) {
			r.Errorf("%s is answered %v away, want both", w.Kind, got.Away)
		}
		r.checkAway(w.Key, substitute(), other())
		w.Kind, w.Timer, w.State, w.Away = scheduler.WriteGone, nil, scheduler.State{Version: version(7)}, nil
		r.toldStored(w)
		r.checkAway(w.Key, substitute(), other())
		revived := write(w.Key, 8, oneShot(far))
		if got := r.toldStored(revived); !sameAway(got.Away, substitute(), other()) {
			r.Errorf("a create on a tombstone is answered %v away, want both", got.Away)
		}
	}
}
