package storetest

import (
	"maps"
	"time"

	"github.com/google/go-cmp/cmp"

	"chronos/scheduler/store"
	"chronos/scheduler/timer"
)

func tagCases() map[string]func(*rig) {
	return map[string]func(*rig){
		"tags are those of the last write":             checkTagsOfWrites,
		"tags count by the copy of rank 0 alone":       checkTagsByRank,
		"tags of many timers in one call add up":       checkTagsTogether,
		"tags stay while a timer is on its way":        checkTagsOnTheWay,
		"tags end with the timer, however it ends":     checkTagsEnd,
		"tags end with the timer, also under a mark":   checkTagsEndUnderAMark,
		"tags end with an outcome told to a copy":      checkTagsTold,
		"tags of a copy that is brought back count":    checkTagsRestored,
		"tags are right after a recount":               checkRecount,
		"tags of what is repeated or refused stay out": checkTagsRefused,
	}
}

// tagged gives a timer tags.
func tagged(t *timer.Timer, tags ...timer.Tag) *timer.Timer {
	t.Tags = tags
	return t
}

func tag(typ string, count int) timer.Tag { return timer.Tag{Type: typ, Count: count} }

type sums = map[string]int64

// counts fails the test if the shard's sums differ from want.
func (r *rig) counts(after string, want sums) {
	r.Helper()
	got, err := r.b.Tags(r.Context(), r.shard(), 1000)
	if err != nil {
		r.Fatalf("tags %s: %v", after, err)
	}
	if got.Partial || !maps.Equal(got.ByType, want) {
		r.Errorf("tags %s (-want +got), partial %t:\n%s", after, got.Partial, cmp.Diff(want, got.ByType))
	}
}

func checkTagsOfWrites(r *rig) {
	r.counts("of nothing", sums{})
	r.put("k", 1, tagged(oneShot(far), tag("CALL", 2), tag("a b,=%", 1), tag("CALL", 1)))
	r.counts("of a create", sums{"CALL": 3, "a b,=%": 1})
	r.put("k", 2, tagged(oneShot(far), tag("CALL", 1), tag("-", 1<<31-1)))
	r.counts("of its replacement", sums{"CALL": 1, "-": 1<<31 - 1})
	r.put("k", 3, oneShot(far))
	r.counts("of one without tags", sums{})
	r.put("k", 4, tagged(oneShot(far), tag("CALL", 7)))
	r.put("k", 5, nil)
	r.counts("of its tombstone", sums{})
	r.put("k", 6, tagged(oneShot(far), tag("CALL", 7)))
	r.counts("of one made anew", sums{"CALL": 7})
}

func checkTagsByRank(r *rig) {
	for rank, key := range []string{"first", "second", "third"} {
		w := write(key, 1, tagged(oneShot(far), tag("CALL", 10+rank)))
		w.Rank = rank
		r.merge(w)
	}
	r.counts("of copies of three ranks", sums{"CALL": 10})
	w := write("second", 2, tagged(oneShot(far), tag("CALL", 100)))
	w.Rank = 1
	r.merge(w)
	r.counts("of a backup that was replaced", sums{"CALL": 10})

	rank := func(key string, n, to int) {
		r.Helper()
		w := store.Write{
			Kind: store.WriteRank, Key: key, RF: replicas, Rank: to, Timer: oneShot(far),
			State: timer.State{Version: version(n), Seq: 1},
		}
		if got := r.merge(w); got.Status != store.WriteStored {
			r.Fatalf("rank %d of %s: %+v", to, key, got)
		}
	}
	rank("second", 2, 0)
	r.counts("of a backup that is the primary now", sums{"CALL": 110})
	rank("second", 2, 0)
	r.counts("of one that is told so again", sums{"CALL": 110})
	rank("first", 1, 1)
	r.counts("of a primary that is a backup now", sums{"CALL": 100})
}

func checkTagsTogether(r *rig) {
	names := r.neighbors(60)
	var writes []store.Write
	for i, key := range names {
		w := write(key, 1, oneShot(far))
		if i%3 > 0 {
			w.Timer = tagged(oneShot(far), tag("CALL", 1), tag("third", i%3))
		}
		writes = append(writes, w)
	}
	writes = append(writes, write(names[1], 2, tagged(oneShot(far), tag("twice", 1))), write(names[2], 2, nil))
	for i, got := range r.mergeBy(r.a, writes...) {
		if got.Status != store.WriteStored {
			r.Fatalf("write %d: %+v", i, got)
		}
	}
	r.counts("of 60, of which one was replaced and one ended", sums{"CALL": 38, "third": 57, "twice": 1})
}

func checkTagsOnTheWay(r *rig) {
	want := sums{"CALL": 2}
	step := func(what string, o *store.Settlement) {
		r.Helper()
		req := request()
		req.Horizon = far + time.Second
		c := r.claim(r.a, req)
		r.counts("of a claim, then "+what, want)
		if o == nil {
			r.accept(c, store.Settlement{Outcome: store.OutcomeRelease})
			r.counts("of a release", want)
			return
		}
		r.pass(c, 9, terms(far, far))
		r.counts("of a fence, then "+what, want)
		r.accept(c, *o)
		r.counts("of "+what, want)
	}
	r.put("k", 1, tagged(recurring(brief, 9), tag("CALL", 2)))
	step("a release", nil)
	r.Pass(brief + slack)
	step("a retry", &store.Settlement{Outcome: store.OutcomeAgain, Reason: "status 503"})
	step("a next pop", &store.Settlement{Outcome: store.OutcomeNext})
}

func checkTagsEnd(r *rig) {
	fire := func(key string) store.Claimed {
		r.Helper()
		c := r.leased(key, tagged(oneShot(0), tag("CALL", 2), tag(key, 1)), far)
		r.counts("of "+key+", leased", sums{"CALL": 2, key: 1})
		r.pass(c, 1, terms(far, far))
		return c
	}
	for name, o := range map[string]store.Settlement{
		"done":               {Outcome: store.OutcomeDone},
		"done and kept":      {Outcome: store.OutcomeDone, Keep: far},
		"done and untold":    {Outcome: store.OutcomeDone, Keep: far, Untold: []store.Away{{Shard: "x", Rank: 1}}},
		"dead":               {Outcome: store.OutcomeDead, Reason: "status 503"},
		"dead and kept":      {Outcome: store.OutcomeDead, Reason: "status 503", Keep: far},
		"dead without fence": {Outcome: store.OutcomeDead, Reason: "unreadable"},
	} {
		var c store.Claimed
		if name == "dead without fence" {
			c = r.leased(name, tagged(oneShot(0), tag("CALL", 2)), far)
		} else {
			c = fire(name)
		}
		r.accept(c, o)
		r.counts("of "+name, sums{})
		if r.settle(c, o).Accepted {
			r.Errorf("%s was accepted twice", name)
		}
		r.counts("of "+name+", sent again", sums{})
	}
	c := fire("letter")
	r.accept(c, store.Settlement{Outcome: store.OutcomeLetter, Reason: "status 503"})
	r.counts("of a letter, whose timer is still there", sums{"CALL": 2, "letter": 1})
	r.accept(c, store.Settlement{Outcome: store.OutcomeDone})
	r.counts("of its end", sums{})
	c = fire("lost")
	r.put("lost", 2, nil)
	r.counts("of a delete while it fired", sums{})
	r.settle(c, store.Settlement{Outcome: store.OutcomeDone})
	r.counts("of an outcome behind it", sums{})
}

// A firing mark of an earlier version keeps the tombstone, not the tags.
func checkTagsEndUnderAMark(r *rig) {
	c := r.leased("k", tagged(oneShot(0), tag("CALL", 2)), far)
	r.pass(c, 1, terms(far, far))
	r.put("k", 2, tagged(oneShot(0), tag("CALL", 1)))
	c = r.claim(r.a, request())
	r.pass(c, 1, terms(far, far))
	r.counts("of the second version", sums{"CALL": 1})
	r.accept(c, store.Settlement{Outcome: store.OutcomeDone})
	r.counts("of its end", sums{})
	if n := r.pending(); n != 1 {
		r.Errorf("%d pending, want the tombstone", n)
	}
}

// Outcomes and the sweep's writes come to copies of any rank.
func checkTagsTold(r *rig) {
	const others = 100 // of a timer that stays, to keep every sum above 0
	r.put("other", 1, tagged(oneShot(far), tag("CALL", others)))
	for _, kind := range []store.WriteKind{
		store.WriteDone, store.WriteNext, store.WriteAgain, store.WriteDrop, store.WriteLeave, store.WriteBury,
	} {
		for rank := range 2 {
			key := string(kind) + "-" + string(rune('0'+rank))
			w := write(key, 1, tagged(recurring(far, 9), tag("CALL", 3)))
			w.Rank = rank
			r.merge(w)
			want := sums{"CALL": others}
			if rank == 0 {
				want["CALL"] += 3
			}
			r.counts("of "+key+" before", want)
			told := store.Write{Kind: kind, Key: key, RF: replicas, State: w.State, Life: far, Retry: far}
			switch kind { //nolint:exhaustive // the remaining kinds need no change
			case store.WriteNext:
				told.State.Seq, told.Timer = 2, w.Timer
			case store.WriteAgain:
				told.State.Attempt = 1
			case store.WriteBury:
				told.State = timer.State{Version: version(2)}
			}
			if got := r.merge(told); got.Status != store.WriteStored {
				r.Fatalf("%s: %+v", key, got)
			}
			if kind != store.WriteNext && kind != store.WriteAgain {
				want = sums{"CALL": others}
			}
			r.counts("of "+key, want)
			r.put(key, 3, nil)
		}
	}
}

func checkTagsRestored(r *rig) {
	restore := write("k", 1, tagged(oneShot(far), tag("CALL", 2)))
	restore.Kind = store.WriteLive
	r.merge(restore)
	r.counts("of a restored copy", sums{"CALL": 2})
	retried := write("retried", 1, tagged(oneShot(far), tag("CALL", 5)))
	retried.Kind, retried.State.Attempt, retried.Retry = store.WriteLive, 2, far
	r.merge(retried)
	r.counts("of one that waits for its retry too", sums{"CALL": 7})
	over := write("k", 2, tagged(oneShot(far), tag("REG", 1)))
	over.Kind, over.Rank = store.WriteOnto, 1 // the rank stays 0
	r.merge(over)
	r.counts("of what a client wrote over it", sums{"REG": 1, "CALL": 5})
}

func checkTagsRefused(r *rig) {
	w := write("k", 5, tagged(oneShot(far), tag("CALL", 2)))
	r.merge(w)
	r.merge(w)
	r.counts("of a create and its repetition", sums{"CALL": 2})
	r.merge(write("k", 4, tagged(oneShot(far), tag("CALL", 100))))
	r.counts("of an older write", sums{"CALL": 2})
	other := w
	other.Timer = tagged(oneShot(far), tag("CALL", 100))
	r.merge(other)
	r.counts("of another body", sums{"CALL": 2})
	other.Kind, other.State.Version = store.WriteOnce, version(6)
	r.merge(other)
	r.counts("of a create of what is there", sums{"CALL": 2})
	r.merge(look("k", 5))
	r.counts("of a look", sums{"CALL": 2})
}

func checkRecount(r *rig) {
	r.put("k", 1, tagged(oneShot(far), tag("CALL", 2)))
	for p := range store.Partitions {
		if off, err := r.b.Recount(r.Context(), r.shard(), p, nil); len(off) > 0 || err != nil {
			r.Errorf("recount of partition %d: %v, %v", p, off, err)
		}
	}
	r.counts("of a recount", sums{"CALL": 2})
	r.put("k", 2, nil)
	r.counts("of its end", sums{})
}
