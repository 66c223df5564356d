package storetest

import (
	"slices"
	"time"

	"github.com/google/go-cmp/cmp"

	"chronos/scheduler/store"
	"chronos/scheduler/timer"
)

// KeptDeliveries is how many entries of the log of deliveries a partition keeps in the stores of a Fixture.
const KeptDeliveries = 200

// logCases are attempts in the log of deliveries.
func logCases() map[string]func(*rig) {
	return map[string]func(*rig){
		"each attempt leaves an entry": checkLogged,
		"a release leaves no entry":    checkReleaseNotLogged,
		"a settlement sent twice is logged once": func(r *rig) {
			c := r.leased("k", oneShot(0), far)
			r.pass(c, 1, terms(far, far))
			o := store.Settlement{Outcome: store.OutcomeDone, Attempt: attemptAt("k", 1, 1)}
			r.accept(c, o)
			for range 2 {
				r.settle(c, o)
			}
			r.wantLogged("k", *o.Attempt)
		},
		"a settlement of a lease that ended leaves no entry": func(r *rig) {
			c := r.leased("k", oneShot(0), far)
			r.put("k", 2, oneShot(far))
			if r.settle(c, store.Settlement{Outcome: store.OutcomeDone, Attempt: attemptAt("k", 1, 1)}).Accepted {
				r.Error("it was accepted")
			}
			r.wantLogged("k")
		},
		"a letter and its end leave one entry": func(r *rig) {
			c := r.leased("k", oneShot(0), far)
			r.pass(c, 1, terms(far, far))
			o := store.Settlement{Outcome: store.OutcomeLetter, Reason: "status 500", Attempt: attemptAt("k", 1, 1)}
			for range 2 {
				r.accept(c, o)
			}
			r.wantLogged("k")
			o.Outcome = store.OutcomeDone
			r.accept(c, o)
			r.wantLogged("k", *o.Attempt)
		},
		"a settlement without an attempt leaves no entry": func(r *rig) {
			r.accept(r.leased("k", oneShot(far), far), store.Settlement{Outcome: store.OutcomeDead, Reason: "unreadable"})
			r.wantLogged("k")
		},
		"the log is read page by page":      checkLogPages,
		"the log keeps the newest attempts": checkLogTrimmed,
	}
}

// attemptAt is an attempt at a pop of version 1.
func attemptAt(key string, seq, attempt int) *store.Attempt {
	due := time.UnixMilli(1_800_000_000_123).UTC()
	return &store.Attempt{
		Key: key, State: timer.State{Version: version(1), Seq: seq, Attempt: attempt}, Node: nodeA, Due: due, Started: due.Add(time.Millisecond),
		Took: 7 * time.Millisecond, OK: true, Result: "status 200", Destination: "http://receiver.example:80",
	}
}

// read reads a part of the log of the shard.
func (r *rig) log(q store.LogQuery) store.LogPage {
	r.Helper()
	reader, ok := r.b.(store.LogStore)
	if !ok {
		r.Fatal("the store has no log of deliveries")
	}
	page, err := reader.Log(r.Context(), r.shard(), q)
	if err != nil {
		r.Fatalf("read the log: %v", err)
	}
	return page
}

// wantLogged checks the log of one timer, the newest attempt first, in the whole log and by the key.
func (r *rig) wantLogged(key string, want ...store.Attempt) {
	r.Helper()
	for _, of := range []string{key, ""} {
		var got []store.Attempt
		for _, e := range r.log(store.LogQuery{Key: of, Look: KeptDeliveries}).Entries {
			if got = append(got, e.Attempt); e.Err != nil {
				r.Errorf("entry %+v: %v", e.Place, e.Err)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			r.Errorf("log of %q (-want +got):\n%s", of, diff)
		}
	}
}

func checkLogged(r *rig) {
	var want []store.Attempt
	r.put("k", 1, recurring(brief, 1000))
	settle := func(o store.Settlement, ok bool, result string) {
		r.Helper()
		c := r.claim(r.a, store.ClaimRequest{Horizon: far, Limit: 9, Grace: far})
		o.Attempt = attemptAt("k", len(want)+1, 1)
		o.Attempt.OK, o.Attempt.Result = ok, result
		from, to := r.during(func() { r.accept(c, o) })
		want = slices.Insert(want, 0, *o.Attempt)
		r.wantLogged("k", want...)
		at := r.log(store.LogQuery{Key: "k", Look: 1}).Entries[0].Place
		r.between("entry", instant(at), from, to)
	}
	settle(store.Settlement{Outcome: store.OutcomeAgain, Reason: "status 500"}, false, "status 500")
	settle(store.Settlement{Outcome: store.OutcomeNext}, true, "status 204")
	settle(store.Settlement{Outcome: store.OutcomeNext, Reason: "no answer within 2 s"}, false, "no answer within 2 s")
	settle(store.Settlement{Outcome: store.OutcomeDead, Reason: "status 503", Keep: far}, false, "status 503")
	r.put("k", 2, oneShot(0))
	settle(store.Settlement{Outcome: store.OutcomeDone}, true, "status 200")
}

func checkReleaseNotLogged(r *rig) {
	c := r.leased("k", oneShot(0), far)
	r.pass(c, 1, terms(far, far))
	r.accept(c, store.Settlement{Outcome: store.OutcomeRelease, Attempt: attemptAt("k", 1, 1)})
	r.wantLogged("k")
	again := r.claim(r.a, request())
	r.accept(again, store.Settlement{Outcome: store.OutcomeRelease, Attempt: attemptAt("k", 1, 1)})
	r.wantLogged("k")
}

// logged makes an attempt at a timer of each key, at different instants. The sequence number is the place in keys.
func (r *rig) logged(keys []string) {
	r.Helper()
	for i, key := range keys {
		r.put(key, i+1, oneShot(far))
		c := r.claim(r.a, store.ClaimRequest{Horizon: 2 * far, Limit: 9, Grace: far})
		r.accept(c, store.Settlement{Outcome: store.OutcomeDone, Attempt: attemptAt(key, i+1, 1)})
		r.Pass(2 * time.Millisecond)
	}
}

func checkLogPages(r *rig) {
	all := keys(9)
	r.logged(all)
	slices.Reverse(all)
	for _, look := range []int{1, 2, 4, 9, 100} {
		for _, only := range []string{"", all[3]} {
			var got []string
			for _, e := range r.wholeLog(only, look) {
				got = append(got, e.Attempt.Key)
			}
			want := all
			if only != "" {
				want = []string{only}
			}
			if !slices.Equal(got, want) {
				r.Errorf("looking at %d, of %q: %v, want %v", look, only, got, want)
			}
		}
	}
	third := r.log(store.LogQuery{Look: 100}).Entries[2].Place
	if since := r.log(store.LogQuery{Look: 100, Since: instant(third)}); len(since.Entries) != 3 || since.Until != nil {
		r.Errorf("since the third: %+v", since)
	}
	if later := r.log(store.LogQuery{Look: 100, Since: r.Now().Add(far)}); len(later.Entries) != 0 || later.Until != nil {
		r.Errorf("since a time to come: %+v", later)
	}
}

// wholeLog reads the log page by page; a page looks at so many entries of a partition.
func (r *rig) wholeLog(key string, look int) (all []store.LogEntry) {
	r.Helper()
	var after *store.LogPlace
	for range 1000 {
		page := r.log(store.LogQuery{Key: key, After: after, Look: look})
		all = append(all, page.Entries...)
		if after = page.Until; after == nil {
			return all
		}
	}
	r.Fatal("the log has no end")
	return nil
}

func checkLogTrimmed(r *rig) {
	const attempts = 2 * KeptDeliveries
	r.logged(slices.Repeat([]string{"k"}, attempts))
	all := r.wholeLog("k", 300)
	// A store may keep as many as it removes together.
	if n := len(all); n < KeptDeliveries || n > KeptDeliveries+100 {
		r.Errorf("%d attempts are left, want about %d", n, KeptDeliveries)
	}
	for i, e := range all {
		if e.Attempt.State.Seq != attempts-i {
			r.Fatalf("entry %d is of pop %d, want %d", i, e.Attempt.State.Seq, attempts-i)
		}
	}
}

// instant is when an entry was written.
func instant(p store.LogPlace) time.Time {
	return time.UnixMilli(int64(p.Ms)) //nolint:gosec // clocks show no time after 292,000,000
}
