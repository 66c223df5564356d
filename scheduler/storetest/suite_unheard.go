package storetest

import (
	"cmp"
	"slices"

	gocmp "github.com/google/go-cmp/cmp"

	"chronos/scheduler"
)

// unheardCases are about the copies that a tombstone names, since these have not heard of
// the end (rule "tombstones outlive what was missed"), and about looking at a copy.
func unheardCases() map[string]func(*rig) {
	return map[string]func(*rig){
		"the same delete once more adds to who has not heard": func(r *rig) {
			r.put("k", 5, nil)
			r.checkUnheard("k")
			for _, step := range []struct{ add, want []scheduler.Away }{
				{[]scheduler.Away{first()}, []scheduler.Away{first()}},
				{[]scheduler.Away{first()}, []scheduler.Away{first()}},
				{[]scheduler.Away{second(), first()}, []scheduler.Away{first(), second()}},
				{[]scheduler.Away{{Shard: "spare", Rank: 10}}, []scheduler.Away{first(), second(), {Shard: "spare", Rank: 10}}},
				{[]scheduler.Away{{Shard: "pare", Rank: 1}}, []scheduler.Away{first(), second(), {Shard: "spare", Rank: 10}, {Shard: "pare", Rank: 1}}},
				{nil, []scheduler.Away{first(), second(), {Shard: "spare", Rank: 10}, {Shard: "pare", Rank: 1}}},
			} {
				w := write("k", 5, nil)
				w.Away = step.add
				if got := r.merge(w); got.Status != scheduler.WriteSame || !got.State.Ended {
					r.Errorf("answered %+v, want the same", got)
				}
				r.checkUnheard("k", step.want...)
			}
		},
		"a later end keeps who has not heard of the earlier one": func(r *rig) {
			w := write("k", 5, nil)
			w.Away = []scheduler.Away{first()}
			r.toldStored(w)
			w.State.Version, w.Away = version(6), []scheduler.Away{second()}
			r.toldStored(w)
			r.checkUnheard("k", first(), second())
		},
		"a live timer names nobody": func(r *rig) {
			w := write("k", 5, nil)
			w.Away = []scheduler.Away{first()}
			r.toldStored(w)
			r.put("k", 6, oneShot(far))
			r.checkUnheard("k")
			r.put("k", 7, nil)
			r.checkUnheard("k")
		},
		"an older delete changes nothing": func(r *rig) {
			r.put("k", 5, nil)
			w := write("k", 4, nil)
			w.Away = []scheduler.Away{first()}
			if got := r.merge(w); got.Status != scheduler.WriteNewer {
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
func first() scheduler.Away { return scheduler.Away{Shard: "spare", Rank: 1} }

func second() scheduler.Away { return scheduler.Away{Shard: "spare.2", Rank: 0} }

func look(key string, n int) scheduler.Write {
	return scheduler.Write{Kind: scheduler.WriteLook, Key: key, State: scheduler.State{Version: version(n)}, RF: replicas}
}

// sameAway compares lists, in whatever order.
func sameAway(got []scheduler.Away, want ...scheduler.Away) bool {
	order := func(a, b scheduler.Away) int { return cmp.Or(cmp.Compare(a.Shard, b.Shard), a.Rank-b.Rank) }
	return slices.Equal(slices.SortedFunc(slices.Values(got), order), slices.SortedFunc(slices.Values(want), order))
}

func (r *rig) checkUnheard(key string, want ...scheduler.Away) {
	r.Helper()
	if got := r.read(key).Record.Away; !sameAway(got, want...) {
		r.Errorf("%s names %v, want %v", key, got, want)
	}
}

func checkLook(r *rig) {
	for _, there := range []*scheduler.Timer{oneShot(far), nil} {
		key := map[bool]string{true: "ended", false: "alive"}[there == nil]
		r.put(key, 5, there)
		before := r.read(key)
		for n, want := range map[int]scheduler.WriteStatus{4: scheduler.WriteNewer, 5: scheduler.WriteSame, 6: scheduler.WriteOlder} {
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
	if got := r.told(look("k", 1)); got.Status != scheduler.WriteSame || got.State != f.State || got.Firing == 0 {
		r.Errorf("answered %+v, want the same, firing as %+v", got, f.State)
	}
	if got := r.live("k"); !got.Leased || got.Record.State != f.State || r.firing(r.shard(), "k") == 0 {
		r.Errorf("it is now %+v, want it leased and firing as %+v", got, f.State)
	}
	r.accept(c, scheduler.Settlement{Outcome: scheduler.OutcomeAgain, Delay: far})
}

func checkLookMakesNothing(r *rig) {
	if got := r.told(look("k", 5)); got.Status != scheduler.WriteNone {
		r.Errorf("a look at what is missing: status %d, want none", got.Status)
	}
	if n := r.pending(); n != 0 {
		r.Errorf("%d are there, want nothing", n)
	}
}
