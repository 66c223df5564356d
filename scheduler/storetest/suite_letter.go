package storetest

import (
	"slices"
	"time"

	"chronos/scheduler/store"
	"chronos/scheduler/timer"
)

// letterCases are timers that are given up.
func letterCases() map[string]func(*rig) {
	return map[string]func(*rig){
		"dead writes a letter": func(r *rig) {
			c := r.leased("k", oneShot(0), far)
			r.pass(c, 1, terms(far, far))
			from, to := r.during(func() { r.accept(c, store.Settlement{Outcome: store.OutcomeDead, Reason: "410 Gone - 100%"}) })
			r.checkLetter("k", "410 Gone - 100%", 1, from, to)
		},
		"a letter is written once, and leaves the lease": checkLetter,
		"a letter without a fence": func(r *rig) {
			c := r.leased("k", oneShot(far), far)
			letter := store.Settlement{Outcome: store.OutcomeLetter, Reason: "unwanted"}
			from, to := r.during(func() { r.accept(c, letter) })
			r.accept(c, letter)
			r.checkLetter("k", "unwanted", 0, from, later(to, r.Now()))
			r.accept(c, store.Settlement{Outcome: store.OutcomeDone})
			if n := r.pending(); n != 0 {
				r.Errorf("%d left, want nothing", n)
			}
		},
		"a letter whose answer is lost, then dead, is one": func(r *rig) {
			c := r.leased("k", oneShot(0), far)
			r.pass(c, 1, terms(far, far))
			from, _ := r.during(func() { r.accept(c, store.Settlement{Outcome: store.OutcomeLetter, Reason: "status 500"}) })
			r.accept(c, store.Settlement{Outcome: store.OutcomeDead, Reason: "status 500"})
			r.checkLetter("k", "status 500", 1, from, r.Now())
		},
		"a letter of a lease that ended is not written": func(r *rig) {
			c := r.leased("k", oneShot(0), far)
			r.put("k", 2, oneShot(far))
			if s := r.settle(c, store.Settlement{Outcome: store.OutcomeLetter, Reason: "late"}); s.Accepted {
				r.Error("it was accepted")
			}
			if got := r.DeadLetters(r.shard()); len(got) != 0 {
				r.Errorf("dead letters %+v, want none", got)
			}
		},
		"a letter after which the node dies": func(r *rig) {
			var c store.Claimed
			from, _ := r.during(func() { c = r.leased("k", oneShot(0), brief) })
			r.accept(c, store.Settlement{Outcome: store.OutcomeLetter, Reason: "status 500"})
			r.awaits("claimed by another", from.Add(brief), later(from.Add(brief), r.Now()).Add(brief), func() bool {
				claims := r.claimAll(r.b, request())
				return len(claims) == 1 && claims[0].Previous == nodeA
			})
		},
	}
}

// checkLetter: a timer with copies has its dead letter before the copies hear of the end, and is over afterwards.
func checkLetter(r *rig) {
	c := r.leased("k", oneShot(0), far)
	f := r.pass(c, 1, terms(far, far))
	before := r.live("k")
	letter := store.Settlement{Outcome: store.OutcomeLetter, Reason: "status 500"}
	from, to := r.during(func() {
		for range 2 {
			r.accept(c, letter)
		}
	})
	r.checkLetter("k", "status 500", 1, from, to)
	after := r.live("k")
	if !after.Leased || after.Record.State != f.State || !after.Look.Equal(before.Look) || r.firing(r.shard(), "k") == 0 {
		r.Errorf("it is now %+v, want it leased and firing as before, %+v", after, before)
	}
	r.accept(c, store.Settlement{Outcome: store.OutcomeDone})
	if n := r.pending(); n != 0 {
		r.Errorf("%d left, want nothing", n)
	}
	for _, o := range []store.Settlement{letter, {Outcome: store.OutcomeDone}} {
		if s := r.settle(c, o); s.Accepted {
			r.Errorf("%s once more was accepted", o.Outcome)
		}
	}
	r.checkLetter("k", "status 500", 1, from, to)
}

// checkLetter checks the one dead letter of a timer of version 1.
func (r *rig) checkLetter(key, reason string, attempt int, from, to time.Time) {
	r.Helper()
	all := slices.DeleteFunc(r.DeadLetters(r.shard()), func(l DeadLetter) bool { return l.Key != key })
	if len(all) != 1 {
		r.Fatalf("dead letters %+v, want one", all)
	}
	if want := (timer.State{Version: version(1), Seq: 1, Attempt: attempt}); all[0].Reason != reason || all[0].State != want {
		r.Errorf("dead letter %+v, want of %+v, since %q", all[0], want, reason)
	}
	r.between("dead letter", all[0].At, from, to)
}
