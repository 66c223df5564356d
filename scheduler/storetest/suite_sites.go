package storetest

import (
	"errors"
	"slices"
	"time"

	"chronos/scheduler/store"
	"chronos/scheduler/timer"
)

// siteCases are the marks for other sites.
func siteCases() map[string]func(*rig) {
	return map[string]func(*rig){
		"a copy keeps its home site": func(r *rig) {
			w := write("k", 1, oneShot(far))
			w.Site = elsewhere
			r.merge(w)
			if got := r.read("k"); got.Record.Site != elsewhere {
				r.Errorf("home %q, want %q", got.Record.Site, elsewhere)
			}
			r.merge(write("k", 2, oneShot(far)))
			if got := r.read("k"); got.Record.Site != "" {
				r.Errorf("home %q of a version without a home", got.Record.Site)
			}
		},
		"a mark keeps its age": checkMarkAge,
		"a mark ends when the copy is in the state that was told": checkUnmark,
		"a mark ends when the copy is older than was told":        checkUnmarkOld,
		"a marked tombstone stays": func(r *rig) {
			r.grave("k")
			r.mark(store.Mark{Site: elsewhere, Key: "k", Outcome: true})
			r.claimAll(r.a, request())
			if n := r.pending(); n != 1 {
				r.Fatalf("%d tombstones are left, want 1", n)
			}
			told := r.read("k").Record.State
			r.unmark(told, store.Mark{Site: elsewhere, Key: "k", Outcome: true})
			if marks := r.marks("k"); len(marks) != 0 {
				r.Errorf("%+v are left", marks)
			}
		},
		"a site is told apart from other sites": func(r *rig) {
			r.mark(store.Mark{Site: elsewhere, Key: "k"}, store.Mark{Site: "third", Key: "k"})
			r.unmark(timer.State{}, store.Mark{Site: "third", Key: "k"})
			if marks := r.marks("k"); len(marks) != 1 || marks[0].Site != elsewhere {
				r.Errorf("%+v, want the mark for %s", marks, elsewhere)
			}
			if age, err := r.a.OldestMark(r.Context(), r.shard(), "third"); err != nil || age >= 0 {
				r.Errorf("oldest mark of the other site: %v, %v; want none", age, err)
			}
		},
		"the marks for a removed site go": func(r *rig) {
			r.grave("k")
			other := store.Mark{Site: "third", Key: "k"}
			r.mark(store.Mark{Site: elsewhere, Key: "k"}, store.Mark{Site: elsewhere, Key: "k", Outcome: true}, store.Mark{Site: elsewhere, Key: "l"}, other)
			if err := r.b.ForgetMarks(r.Context(), r.shard(), elsewhere); err != nil {
				r.Fatal(err)
			}
			if marks := r.marks("k"); len(marks) != 0 {
				r.Errorf("%+v are left", marks)
			}
			if age, err := r.a.OldestMark(r.Context(), r.shard(), "third"); err != nil || age < 0 {
				r.Errorf("the mark of the other site: %v, %v", age, err)
			}
			r.claimAll(r.a, request())
			if n := r.pending(); n != 1 {
				r.Fatalf("%d tombstones, want 1: a site has to be told", n)
			}
			r.unmark(r.read("k").Record.State, other)
			r.Pass(time.Minute)
			r.claimAll(r.a, request())
			if n := r.pending(); n != 0 {
				r.Errorf("%d tombstones are left, want none", n)
			}
		},
		"only the mark of a write keeps a copy": func(r *rig) {
			r.mark(store.Mark{Site: elsewhere, Key: "k"}, store.Mark{Site: elsewhere, Key: "l", Outcome: true})
			got, err := r.b.Marked(r.Context(), r.shard(), elsewhere, []string{"k", "l", "m"})
			if err != nil || !slices.Equal(got, []bool{true, false, false}) {
				r.Errorf("%v, %v; want true, false, false", got, err)
			}
		},
		"a shard knows from which sites it was filled": func(r *rig) {
			if got, err := r.a.Filled(r.Context(), r.shard()); err != nil || len(got) != 0 {
				r.Errorf("a new shard: %v, %v", got, err)
			}
			if err := r.a.NoteFilled(r.Context(), r.shard(), "", []string{elsewhere, "third"}); err != nil {
				r.Fatal(err)
			}
			got, err := r.b.Filled(r.Context(), r.shard())
			slices.Sort(got)
			if err != nil || !slices.Equal(got, []string{elsewhere, "third"}) {
				r.Errorf("%v, %v; want both sites", got, err)
			}
			if err := r.a.NoteFilled(r.Context(), r.shard(), "third", []string{"fourth"}); err != nil {
				r.Errorf("behind an earlier note: %v", err)
			}
			if err := r.a.NoteFilled(r.Context(), r.shard(), "lost", []string{"fifth"}); !errors.Is(err, timer.ErrUnavailable) {
				r.Errorf("behind a note that was lost: %v, want an error", err)
			}
			got, err = r.b.Filled(r.Context(), r.shard())
			slices.Sort(got)
			if err != nil || !slices.Equal(got, []string{elsewhere, "fourth", "third"}) {
				r.Errorf("%v, %v; want three notes", got, err)
			}
		},
		"a guest is not among the nodes": func(r *rig) {
			ahead := r.Now().Add(time.Minute)
			if _, err := r.a.Beat(r.Context(), r.shard(), store.Announcement{Clock: ahead, Guest: true}); err != nil {
				r.Fatal(err)
			}
			heard, err := r.b.Beat(r.Context(), r.shard(), store.Announcement{Clock: r.Now(), Format: timer.LastFormat})
			if err != nil || len(heard.Nodes) != 1 || heard.Nodes[0].Name != nodeB {
				r.Errorf("nodes %+v, %v; want %s alone", heard.Nodes, err, nodeB)
			}
			if heard.Fastest.Before(ahead.Truncate(time.Millisecond)) {
				r.Errorf("the fastest clock shows %v, the guest's %v", heard.Fastest, ahead)
			}
		},
	}
}

const elsewhere = "elsewhere"

func checkMarkAge(r *rig) {
	m := store.Mark{Site: elsewhere, Key: "k"}
	r.mark(m)
	r.Pass(brief)
	r.mark(m, store.Mark{Site: elsewhere, Key: "k", Outcome: true})
	marks := r.marks("k")
	if len(marks) != 2 || marks[0].Outcome || !marks[1].Outcome || marks[0].Age < brief-2*time.Millisecond {
		r.Fatalf("%+v, want the mark of the write, at least %v old, and the younger mark of the outcome", marks, brief)
	}
	if age, err := r.b.OldestMark(r.Context(), r.shard(), elsewhere); err != nil || age < marks[0].Age {
		r.Errorf("the oldest mark: %v, %v; want at least %v", age, err, marks[0].Age)
	}
}

// checkUnmark: a mark stays while the copy is in another state than the site was told.
func checkUnmark(r *rig) {
	m := store.Mark{Site: elsewhere, Key: "k"}
	r.put("k", 1, oneShot(far))
	r.mark(m)
	told := r.read("k").Record.State
	r.put("k", 2, oneShot(far))
	for _, old := range []timer.State{told, {}} {
		r.unmark(old, m)
		if len(r.marks("k")) != 1 {
			r.Fatalf("the site was told of %+v, and the mark has gone", old)
		}
	}
	r.Pass(brief)
	r.unmark(r.read("k").Record.State, r.marks("k")[0])
	if marks := r.marks("k"); len(marks) != 0 {
		r.Errorf("%+v are left", marks)
	}
}

// checkUnmarkOld: another owner of the timer may have a later state than the shard, and tombstones of a version may tell of
// different pops.
func checkUnmarkOld(r *rig) {
	m := store.Mark{Site: elsewhere, Key: "k"}
	r.put("k", 2, recurring(far, 3))
	for _, c := range []struct {
		told timer.State
		ends bool
	}{
		{timer.State{Version: version(1), Seq: 9, Ended: true}, false},
		{timer.State{Version: version(2)}, false},
		{timer.State{Version: version(2), Seq: 2}, true},
		{timer.State{Version: version(2), Seq: 1, Attempt: 1}, true},
		{timer.State{Version: version(2), Seq: 1, Rev: version(3)}, true},
		{timer.State{Version: version(2), Ended: true}, true},
		{timer.State{Version: version(3), Seq: 1}, true},
	} {
		r.mark(m)
		r.unmark(c.told, m)
		if left := len(r.marks("k")); (left == 0) != c.ends {
			r.Errorf("told of %+v: %d marks are left", c.told, left)
		}
	}
	r.put("k", 4, nil)
	r.mark(m)
	r.unmark(timer.State{Version: version(4), Seq: 1}, m)
	if len(r.marks("k")) == 0 {
		r.Error("the site was not told of the end, and the mark has gone")
	}
	r.unmark(timer.State{Version: version(4), Seq: 7, Attempt: 1, Ended: true}, m)
	if left := r.marks("k"); len(left) > 0 {
		r.Errorf("%+v are left", left)
	}
}

func (r *rig) mark(marks ...store.Mark) {
	r.Helper()
	if err := r.a.Mark(r.Context(), r.shard(), marks); err != nil {
		r.Fatal(err)
	}
}

func (r *rig) unmark(state timer.State, m store.Mark) {
	r.Helper()
	if err := r.b.Unmark(r.Context(), r.shard(), []store.ToldMark{{Mark: m, State: state}}); err != nil {
		r.Fatal(err)
	}
}

// marks are the marks of the key's partition, for elsewhere.
func (r *rig) marks(key string) []store.Mark {
	r.Helper()
	marks, err := r.b.Marks(r.Context(), r.shard(), r.merge(store.Look(store.Target{Shard: r.shard(), Key: key}, version(1))).Partition, elsewhere, 10)
	if err != nil {
		r.Fatal(err)
	}
	return marks
}
