package redisstore

import (
	"testing"
	"time"

	"chronos/scheduler"
	"chronos/scheduler/storetest"
)

// Merges and leased writes case by case: the model and the scripts must both pass
// each of them.

// onEach runs a check on the model and on both kinds of Redis.
func onEach(t *testing.T, check func(t *testing.T, s scheduler.Store)) {
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

func at(version scheduler.Version, seq, attempt int) scheduler.State {
	return scheduler.State{Version: version, Seq: seq, Attempt: attempt}
}

func writeOf(kind scheduler.WriteKind, state scheduler.State) scheduler.Write {
	w := scheduler.Write{Kind: kind, Shard: "a", Key: "k", State: state, RF: 2, Life: time.Hour, DueIn: time.Hour, Retry: time.Hour}
	if kind == scheduler.WriteLive {
		w.Timer = &scheduler.Timer{
			Interval: time.Hour, RepeatFor: 9 * time.Hour, ReplicationFactor: 2, Callback: scheduler.Callback{URI: "http://receiver.example/"},
		}
	}
	return w
}

// Rule "done removes only its predecessor": on an older state, or where nothing is, done leaves a
// tombstone. So an outcome that overtakes its own create still wins.
func TestDoneRemovesOnlyItsPredecessor(t *testing.T) {
	t.Parallel()
	const live, gone, done = scheduler.WriteLive, scheduler.WriteGone, scheduler.WriteDone
	tomb := func(version scheduler.Version) *scheduler.State {
		return &scheduler.State{Version: version, Ended: true}
	}
	alive := func(s scheduler.State) *scheduler.State { return &s }
	for _, c := range []struct {
		name   string
		there  []scheduler.Write
		status scheduler.WriteStatus
		after  *scheduler.State // nil for nothing
	}{
		{"its predecessor", []scheduler.Write{writeOf(live, at(5, 3, 0))}, scheduler.WriteStored, nil},
		{"its predecessor, fewer attempts", []scheduler.Write{writeOf(live, at(5, 3, 1))}, scheduler.WriteStored, nil},
		{"its predecessor, more attempts", []scheduler.Write{writeOf(live, at(5, 3, 4))}, scheduler.WriteStored, nil},
		{"nothing", nil, scheduler.WriteStored, tomb(5)},
		{"an earlier pop", []scheduler.Write{writeOf(live, at(5, 2, 0))}, scheduler.WriteStored, tomb(5)},
		{"a later pop", []scheduler.Write{writeOf(live, at(5, 4, 0))}, scheduler.WriteStored, tomb(5)},
		{"an older version", []scheduler.Write{writeOf(live, at(4, 3, 0))}, scheduler.WriteStored, tomb(5)},
		{"an older tombstone", []scheduler.Write{writeOf(gone, at(4, 0, 0))}, scheduler.WriteStored, tomb(5)},
		{"a newer version", []scheduler.Write{writeOf(live, at(6, 3, 0))}, scheduler.WriteNewer, alive(at(6, 3, 0))},
		{"a newer tombstone", []scheduler.Write{writeOf(gone, at(6, 0, 0))}, scheduler.WriteNewer, tomb(6)},
		{"its own tombstone", []scheduler.Write{writeOf(done, at(5, 3, 2))}, scheduler.WriteSame, tomb(5)},
	} {
		t.Run(c.name, func(t *testing.T) {
			onEach(t, func(t *testing.T, s scheduler.Store) {
				tellAll(t, s, c.there...)
				if got := tellAll(t, s, writeOf(done, at(5, 3, 2)))[0]; got.Status != c.status {
					t.Errorf("status %d, want %d", got.Status, c.status)
				}
				if c.after == nil {
					checkMissing(t, s)
					return
				}
				if differences, err := s.Ask(t.Context(), "a", []scheduler.KeyState{{Key: "k", State: *c.after}}); err != nil || len(differences) != 0 {
					t.Errorf("it is now %+v, %v, want %+v", differences, err, *c.after)
				}
				if c.after.Version == 5 {
					if got := tellAll(t, s, writeOf(live, at(5, 1, 0)))[0]; got.Status != scheduler.WriteNewer {
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
	onEach(t, func(t *testing.T, s scheduler.Store) {
		lease := fire(t, s)
		if got := tellAll(t, s, writeOf(scheduler.WriteDone, at(5, 1, 1)))[0]; got.Status != scheduler.WriteStored || got.Firing <= 0 {
			t.Errorf("done: %+v, want stored, firing", got)
		}
		differences, err := s.Ask(t.Context(), "a", []scheduler.KeyState{{Key: "k"}})
		if err != nil || len(differences) != 1 || !differences[0].State.Ended || differences[0].Firing <= 0 {
			t.Errorf("it is now %+v, %v, want a tombstone that is firing", differences, err)
		}
		if settled := s.Settle(t.Context(), "a", []scheduler.Settlement{{Lease: lease, Outcome: scheduler.OutcomeDone}})[0]; settled.Accepted {
			t.Error("the lease survived")
		}
	})
}

// Rule "leased writes need the lease": a node adopts a newer state from another copy by a leased
// write. That write does nothing when the lease is gone.
func TestLeasedWriteNeedsItsLease(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, s scheduler.Store) {
		adopt := func(token string, state scheduler.State) scheduler.WriteStatus {
			w := writeOf(scheduler.WriteLive, state)
			w.Token = token
			return tellAll(t, s, w)[0].Status
		}
		expect := func(what string, got, want scheduler.WriteStatus) {
			t.Helper()
			if got != want {
				t.Errorf("%s: %d, want %d", what, got, want)
			}
		}
		expect("without a timer", adopt("node:1:1", at(6, 1, 0)), scheduler.WriteNone)
		checkMissing(t, s)
		lease := fire(t, s)
		expect("another's lease", adopt("other:1:1", at(6, 1, 0)), scheduler.WriteLost)
		expect("a part of the lease", adopt(lease.Token[:len(lease.Token)-1], at(6, 1, 0)), scheduler.WriteLost)
		expect("an older state", adopt(lease.Token, at(5, 1, 0)), scheduler.WriteNewer)
		expect("the same state", adopt(lease.Token, at(5, 1, 1)), scheduler.WriteSame)
		if got := s.Read(t.Context(), spots("k"))[0]; !got.Leased || got.Record.State != at(5, 1, 1) {
			t.Errorf("what was refused changed the timer into %+v", got)
		}
		expect("a newer state", adopt(lease.Token, at(5, 2, 0)), scheduler.WriteStored)
		got := s.Read(t.Context(), spots("k"))[0]
		if got.Err != nil || got.Leased || got.Record.State != at(5, 2, 0) {
			t.Errorf("it is now %+v, want the adopted state, unleased", got)
		}
		expect("once more, newer", adopt(lease.Token, at(5, 3, 0)), scheduler.WriteLost)
		if differences, err := s.Ask(t.Context(), "a", []scheduler.KeyState{{Key: "k"}}); err != nil || len(differences) != 1 || differences[0].Firing <= 0 {
			t.Errorf("it is now %+v, %v, want the mark kept", differences, err)
		}
	})
}

// A retry comes when its outcome says, also past the timer's next pop: which of
// the two it shall be is decided by the engine.
func TestRetryIsNoNextPop(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, s scheduler.Store) {
		w := writeOf(scheduler.WriteLive, at(5, 1, 0))
		due := tellAll(t, s, w)[0].Due
		claims, err := s.Claim(t.Context(), "a", scheduler.ClaimRequest{Horizon: 9 * time.Hour, Limit: 99, Grace: time.Hour})
		if err != nil || len(claims.Claims) != 1 {
			t.Fatalf("%+v, %v", claims, err)
		}
		const delay = 3 * time.Hour // of pops that come each hour
		settled := s.Settle(t.Context(), "a", []scheduler.Settlement{{Lease: claims.Claims[0].Lease, Outcome: scheduler.OutcomeAgain, Delay: delay}})
		got := s.Read(t.Context(), spots("k"))[0]
		if !settled[0].Accepted || got.Record.State != at(5, 1, 0) || got.Look.Before(due.Add(delay-time.Hour-time.Millisecond)) {
			t.Errorf("pop %+v at %v, want the first, %v later than it was due", got.Record.State, got.Look, delay)
		}
	})
}

func tellAll(t *testing.T, s scheduler.Store, writes ...scheduler.Write) []scheduler.Written {
	t.Helper()
	answers := s.Tell(t.Context(), "a", writes)
	if err := first(answers, func(w scheduler.Written) error { return w.Err }); err != nil {
		t.Fatal(err)
	}
	return answers
}

// fire makes a timer of version 5 whose first pop is firing under a lease.
func fire(t *testing.T, s scheduler.Store) scheduler.Lease {
	t.Helper()
	w := writeOf(scheduler.WriteLive, at(5, 1, 0))
	w.DueIn = 0
	tellAll(t, s, w)
	var taken scheduler.Taken
	await(t, 10*time.Second, "the timer to be due", func() bool {
		taken = s.Take(t.Context(), "a", time.Minute, []string{"k"})[0]
		return taken.Status == scheduler.TakeGot
	})
	terms := scheduler.FenceTerms{Limit: time.Minute, Hold: time.Minute}
	if fenced := s.Fire(t.Context(), "a", terms, []scheduler.Fence{{Lease: taken.Lease, Pops: 9}})[0]; fenced.Status != scheduler.FencePassed {
		t.Fatalf("fence: %+v", fenced)
	}
	return taken.Lease
}

func checkMissing(t *testing.T, s scheduler.Store) {
	t.Helper()
	differences, err := s.Ask(t.Context(), "a", []scheduler.KeyState{{Key: "k"}})
	if err != nil || len(differences) != 1 || !differences[0].Missing {
		t.Errorf("it is now %+v, %v, want nothing", differences, err)
	}
}

// What the sweep removes is in place elsewhere, if it is still what the sweep read.
func TestLeaveRemovesExactlyWhatWasRead(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, s scheduler.Store) {
		tellAll(t, s, writeOf(scheduler.WriteLive, at(5, 2, 0)))
		for _, read := range []scheduler.State{at(4, 2, 0), at(5, 1, 0), at(5, 1, 1), at(5, 3, 0), at(6, 1, 0)} {
			if got := tellAll(t, s, writeOf(scheduler.WriteLeave, read))[0].Status; got == scheduler.WriteStored {
				t.Errorf("the sweep read %+v and removes %+v", read, at(5, 2, 0))
			}
		}
		if got := s.Read(t.Context(), spots("k"))[0]; got.Err != nil || got.Record.State != at(5, 2, 0) {
			t.Errorf("the timer is now %+v", got)
		}
		if got := tellAll(t, s, writeOf(scheduler.WriteLeave, at(5, 2, 0)))[0].Status; got != scheduler.WriteStored {
			t.Errorf("what the sweep read is removed: status %d, want %d", got, scheduler.WriteStored)
		}
		checkMissing(t, s)
	})
}
