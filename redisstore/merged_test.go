package redisstore

import (
	"testing"
	"time"

	"chronos/scheduler/store"
	"chronos/scheduler/storetest"
	"chronos/scheduler/timer"
	"chronos/scheduler/verify/testkit"
)

// Merges and leased writes case by case: the model and the scripts must pass every case.

// onEach runs a check on the model and on the two kinds of Redis.
func onEach(t *testing.T, check func(t *testing.T, s store.Store)) {
	t.Helper()
	t.Run("model", func(t *testing.T) { check(t, storetest.NewModel("a").Open("node")) })
	for name, start := range map[string]func(testing.TB) *testRedis{
		"mini": startSwift, "real": func(t testing.TB) *testRedis { t.Helper(); return startRedis(t) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check(t, openStore(t, "node", "http", start(t)))
		})
	}
}

func at(version timer.Version, seq, attempt int) timer.State {
	return timer.State{Version: version, Seq: seq, Attempt: attempt}
}

func writeOf(kind store.WriteKind, state timer.State) store.Write {
	w := store.Write{Kind: kind, Shard: "a", Key: "k", State: state, RF: 2, Life: time.Hour, DueIn: time.Hour, Retry: time.Hour}
	if kind == store.WriteLive {
		w.Timer = &timer.Timer{
			Interval: time.Hour, RepeatFor: 9 * time.Hour, ReplicationFactor: 2, Callback: timer.Callback{URI: "http://receiver.example/"},
		}
	}
	return w
}

// Rule "done removes only its predecessor": on an older state, or on a shard without a copy, done leaves a
// tombstone. An outcome that overtakes its own create therefore still wins.
func TestDoneRemovesOnlyItsPredecessor(t *testing.T) {
	t.Parallel()
	const live, gone, done = store.WriteLive, store.WriteGone, store.WriteDone
	tomb := func(version timer.Version) *timer.State {
		return &timer.State{Version: version, Ended: true}
	}
	alive := func(s timer.State) *timer.State { return &s }
	for _, c := range []struct {
		name   string
		there  []store.Write
		status store.WriteStatus
		after  *timer.State // nil for no copy
	}{
		{"its predecessor", []store.Write{writeOf(live, at(5, 3, 0))}, store.WriteStored, nil},
		{"its predecessor, fewer attempts", []store.Write{writeOf(live, at(5, 3, 1))}, store.WriteStored, nil},
		{"its predecessor, more attempts", []store.Write{writeOf(live, at(5, 3, 4))}, store.WriteStored, nil},
		{"nothing", nil, store.WriteStored, tomb(5)},
		{"an earlier pop", []store.Write{writeOf(live, at(5, 2, 0))}, store.WriteStored, tomb(5)},
		{"a later pop", []store.Write{writeOf(live, at(5, 4, 0))}, store.WriteStored, tomb(5)},
		{"an older version", []store.Write{writeOf(live, at(4, 3, 0))}, store.WriteStored, tomb(5)},
		{"an older tombstone", []store.Write{writeOf(gone, at(4, 0, 0))}, store.WriteStored, tomb(5)},
		{"a newer version", []store.Write{writeOf(live, at(6, 3, 0))}, store.WriteNewer, alive(at(6, 3, 0))},
		{"a newer tombstone", []store.Write{writeOf(gone, at(6, 0, 0))}, store.WriteNewer, tomb(6)},
		{"its own tombstone", []store.Write{writeOf(done, at(5, 3, 2))}, store.WriteSame, tomb(5)},
	} {
		t.Run(c.name, func(t *testing.T) {
			onEach(t, func(t *testing.T, s store.Store) {
				tellAll(t, s, c.there...)
				if got := tellAll(t, s, writeOf(done, at(5, 3, 2)))[0]; got.Status != c.status {
					t.Errorf("status %d, want %d", got.Status, c.status)
				}
				if c.after == nil {
					checkMissing(t, s)
					return
				}
				if differences, err := s.Ask(t.Context(), "a", []store.KeyState{{Key: "k", State: *c.after}}); err != nil || len(differences) != 0 {
					t.Errorf("it is now %+v, %v, want %+v", differences, err, *c.after)
				}
				if c.after.Version == 5 {
					if got := tellAll(t, s, writeOf(live, at(5, 1, 0)))[0]; got.Status != store.WriteNewer {
						t.Errorf("the create that was overtaken: %d, want newer", got.Status)
					}
				}
			})
		})
	}
}

// Rule "merge keeps the firing mark": a done keeps the mark of an earlier state's callback, too.
func TestDoneKeepsTheFiringMark(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, s store.Store) {
		lease := fire(t, s)
		if got := tellAll(t, s, writeOf(store.WriteDone, at(5, 1, 1)))[0]; got.Status != store.WriteStored || got.Firing <= 0 {
			t.Errorf("done: %+v, want stored, firing", got)
		}
		differences, err := s.Ask(t.Context(), "a", []store.KeyState{{Key: "k"}})
		if err != nil || len(differences) != 1 || !differences[0].State.Ended || differences[0].Firing <= 0 {
			t.Errorf("it is now %+v, %v, want a tombstone that is firing", differences, err)
		}
		if settled := s.Settle(t.Context(), "a", []store.Settlement{{Lease: lease, Outcome: store.OutcomeDone}})[0]; settled.Accepted {
			t.Error("the lease survived")
		}
	})
}

// Rule "leased writes need the lease": a node adopts a newer state from another copy by a leased write. The write
// does nothing when the lease is over.
func TestLeasedWriteNeedsItsLease(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, s store.Store) {
		adopt := func(token string, state timer.State) store.WriteStatus {
			w := writeOf(store.WriteLive, state)
			w.Token = token
			return tellAll(t, s, w)[0].Status
		}
		expect := func(what string, got, want store.WriteStatus) {
			t.Helper()
			if got != want {
				t.Errorf("%s: %d, want %d", what, got, want)
			}
		}
		expect("without a timer", adopt("node:1:1", at(6, 1, 0)), store.WriteNone)
		checkMissing(t, s)
		lease := fire(t, s)
		expect("another's lease", adopt("other:1:1", at(6, 1, 0)), store.WriteLost)
		expect("a part of the lease", adopt(lease.Token[:len(lease.Token)-1], at(6, 1, 0)), store.WriteLost)
		expect("an older state", adopt(lease.Token, at(5, 1, 0)), store.WriteNewer)
		expect("the same state", adopt(lease.Token, at(5, 1, 1)), store.WriteSame)
		if got := s.Read(t.Context(), spots("k"))[0]; !got.Leased || got.Record.State != at(5, 1, 1) {
			t.Errorf("what was refused changed the timer into %+v", got)
		}
		expect("a newer state", adopt(lease.Token, at(5, 2, 0)), store.WriteStored)
		got := s.Read(t.Context(), spots("k"))[0]
		if got.Err != nil || got.Leased || got.Record.State != at(5, 2, 0) {
			t.Errorf("it is now %+v, want the adopted state, unleased", got)
		}
		expect("once more, newer", adopt(lease.Token, at(5, 3, 0)), store.WriteLost)
		if differences, err := s.Ask(t.Context(), "a", []store.KeyState{{Key: "k"}}); err != nil || len(differences) != 1 || differences[0].Firing <= 0 {
			t.Errorf("it is now %+v, %v, want the mark kept", differences, err)
		}
	})
}

// A retry comes when its outcome says, also past the timer's next pop: the engine decides between the two.
func TestRetryIsNoNextPop(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, s store.Store) {
		w := writeOf(store.WriteLive, at(5, 1, 0))
		due := tellAll(t, s, w)[0].Due
		claims, err := s.Claim(t.Context(), "a", store.ClaimRequest{Horizon: 9 * time.Hour, Limit: 99, Grace: time.Hour})
		if err != nil || len(claims.Claims) != 1 {
			t.Fatalf("%+v, %v", claims, err)
		}
		const delay = 3 * time.Hour // of a timer that pops each hour
		settled := s.Settle(t.Context(), "a", []store.Settlement{{Lease: claims.Claims[0].Lease, Outcome: store.OutcomeAgain, Delay: delay}})
		got := s.Read(t.Context(), spots("k"))[0]
		if !settled[0].Accepted || got.Record.State != at(5, 1, 0) || got.Look.Before(due.Add(delay-time.Hour-time.Millisecond)) {
			t.Errorf("pop %+v at %v, want the first, %v later than it was due", got.Record.State, got.Look, delay)
		}
	})
}

func tellAll(t *testing.T, s store.Store, writes ...store.Write) []store.Written {
	t.Helper()
	answers := s.Tell(t.Context(), "a", writes)
	if err := first(answers, func(w store.Written) error { return w.Err }); err != nil {
		t.Fatal(err)
	}
	return answers
}

// fire makes a timer of version 5 whose first pop is firing under a lease.
func fire(t *testing.T, s store.Store) store.Lease {
	t.Helper()
	w := writeOf(store.WriteLive, at(5, 1, 0))
	w.DueIn = 0
	tellAll(t, s, w)
	var claims []store.Claimed
	testkit.Eventually(t, 10*time.Second, "the timer to be due", func() bool {
		got, err := s.Claim(t.Context(), "a", store.ClaimRequest{Limit: Partitions, Grace: time.Minute})
		claims = got.Claims
		return err == nil && len(claims) == 1
	})
	terms := store.FenceTerms{Limit: time.Minute, Hold: time.Minute}
	if fenced := s.Fire(t.Context(), "a", terms, []store.Fence{{Lease: claims[0].Lease, Pops: 9}})[0]; fenced.Status != store.FencePassed {
		t.Fatalf("fence: %+v", fenced)
	}
	return claims[0].Lease
}

func checkMissing(t *testing.T, s store.Store) {
	t.Helper()
	differences, err := s.Ask(t.Context(), "a", []store.KeyState{{Key: "k"}})
	if err != nil || len(differences) != 1 || !differences[0].Missing {
		t.Errorf("it is now %+v, %v, want nothing", differences, err)
	}
}

// The sweep removes a copy that is in place elsewhere, if the copy is still in the state that the sweep read.
func TestLeaveRemovesExactlyWhatWasRead(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, s store.Store) {
		tellAll(t, s, writeOf(store.WriteLive, at(5, 2, 0)))
		for _, read := range []timer.State{at(4, 2, 0), at(5, 1, 0), at(5, 1, 1), at(5, 3, 0), at(6, 1, 0)} {
			if got := tellAll(t, s, writeOf(store.WriteLeave, read))[0].Status; got == store.WriteStored {
				t.Errorf("the sweep read %+v and removes %+v", read, at(5, 2, 0))
			}
		}
		if got := s.Read(t.Context(), spots("k"))[0]; got.Err != nil || got.Record.State != at(5, 2, 0) {
			t.Errorf("the timer is now %+v", got)
		}
		if got := tellAll(t, s, writeOf(store.WriteLeave, at(5, 2, 0)))[0].Status; got != store.WriteStored {
			t.Errorf("what the sweep read is removed: status %d, want %d", got, store.WriteStored)
		}
		checkMissing(t, s)
	})
}
