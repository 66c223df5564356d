package storetest

import (
	"cmp"
	"slices"

	gocmp "github.com/google/go-cmp/cmp"

	"chronos/scheduler/store"
	"chronos/scheduler/timer"
)

// unheardCases are about the copies that a tombstone names because the copies have not heard of the end (rule
// "tombstones outlive what was missed"), and about looking at a copy.
func unheardCases() map[string]func(*rig) {
	return map[string]func(*rig){
		"the same delete once more adds to who has not heard": func(r *rig) {
			r.put("k", 5, nil)
			r.checkUnheard("k")
			for _, step := range []struct{ add, want []store.Away }{
				{[]store.Away{first()}, []store.Away{first()}},
				{[]store.Away{first()}, []store.Away{first()}},
				{[]store.Away{second(), first()}, []store.Away{first(), second()}},
				{[]store.Away{{Shard: "spare", Rank: 10}}, []store.Away{first(), second(), {Shard: "spare", Rank: 10}}},
				{[]store.Away{{Shard: "pare", Rank: 1}}, []store.Away{first(), second(), {Shard: "spare", Rank: 10}, {Shard: "pare", Rank: 1}}},
				{nil, []store.Away{first(), second(), {Shard: "spare", Rank: 10}, {Shard: "pare", Rank: 1}}},
			} {
				w := write("k", 5, nil)
				w.Away = step.add
				if got := r.merge(w); got.Status != store.WriteSame || !got.State.Ended {
					r.Errorf("answered %+v, want the same", got)
				}
				r.checkUnheard("k", step.want...)
			}
		},
		"a later end keeps who has not heard of the earlier one": func(r *rig) {
			w := write("k", 5, nil)
			w.Away = []store.Away{first()}
			r.toldStored(w)
			w.State.Version, w.Away = version(6), []store.Away{second()}
			r.toldStored(w)
			r.checkUnheard("k", first(), second())
		},
		"a live timer names nobody": func(r *rig) {
			w := write("k", 5, nil)
			w.Away = []store.Away{first()}
			r.toldStored(w)
			r.put("k", 6, oneShot(far))
			r.checkUnheard("k")
			r.put("k", 7, nil)
			r.checkUnheard("k")
		},
		"an older delete changes nothing": func(r *rig) {
			r.put("k", 5, nil)
			w := write("k", 4, nil)
			w.Away = []store.Away{first()}
			if got := r.merge(w); got.Status != store.WriteNewer {
				r.Errorf("answered %+v, want newer", got)
			}
			r.checkUnheard("k")
		},
		"a look says what is there":  checkLook,
		"a look ends no lease":       checkLookLeavesTheLease,
		"a look makes nothing there": checkLookMakesNothing,
	}
}

// first and second are copies that have not heard of an end.
func first() store.Away { return store.Away{Shard: "spare", Rank: 1} }

func second() store.Away { return store.Away{Shard: "spare.2", Rank: 0} }

func look(key string, n int) store.Write {
	return store.Write{Kind: store.WriteLook, Key: key, State: timer.State{Version: version(n)}, RF: replicas}
}

// sameAway compares lists in any order.
func sameAway(got []store.Away, want ...store.Away) bool {
	order := func(a, b store.Away) int { return cmp.Or(cmp.Compare(a.Shard, b.Shard), a.Rank-b.Rank) }
	return slices.Equal(slices.SortedFunc(slices.Values(got), order), slices.SortedFunc(slices.Values(want), order))
}

func (r *rig) checkUnheard(key string, want ...store.Away) {
	r.Helper()
	if got := r.read(key).Record.Away; !sameAway(got, want...) {
		r.Errorf("%s names %v, want %v", key, got, want)
	}
}

func checkLook(r *rig) {
	for _, there := range []*timer.Timer{oneShot(far), nil} {
		key := map[bool]string{true: "ended", false: "alive"}[there == nil]
		r.put(key, 5, there)
		before := r.read(key)
		for n, want := range map[int]store.WriteStatus{4: store.WriteNewer, 5: store.WriteSame, 6: store.WriteOlder} {
			if got := r.told(look(key, n)); got.Status != want || got.State != before.Record.State || got.RF != replicas {
				r.Errorf("%s, version %d: %+v, want status %d, and what is there", key, n, got, want)
			}
		}
		after := r.read(key)
		if diff := gocmp.Diff(before.Record, after.Record); diff != "" || !after.Look.Equal(before.Look) {
			r.Errorf("%s: a look changed something (-before +after):\n%s", key, diff)
		}
	}
}

func checkLookLeavesTheLease(r *rig) {
	c := r.leased("k", oneShot(0), far)
	f := r.pass(c, 1, terms(far, far))
	if got := r.told(look("k", 1)); got.Status != store.WriteSame || got.State != f.State || got.Firing == 0 {
		r.Errorf("answered %+v, want the same, firing as %+v", got, f.State)
	}
	if got := r.live("k"); !got.Leased || got.Record.State != f.State || r.firing(r.shard(), "k") == 0 {
		r.Errorf("it is now %+v, want it leased and firing as %+v", got, f.State)
	}
	r.accept(c, store.Settlement{Outcome: store.OutcomeAgain, Delay: far})
}

func checkLookMakesNothing(r *rig) {
	if got := r.told(look("k", 5)); got.Status != store.WriteNone {
		r.Errorf("a look at what is missing: status %d, want none", got.Status)
	}
	if n := r.pending(); n != 0 {
		r.Errorf("%d are there, want nothing", n)
	}
}
