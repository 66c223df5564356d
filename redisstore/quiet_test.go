package redisstore

import (
	"errors"
	"io"
	"testing"
	"time"

	"chronos/scheduler/store"
	"chronos/scheduler/timer"
	"chronos/scheduler/timing"
	"chronos/scheduler/verify/testkit"
)

// A Redis that restarts may have lost its last writes, and the marks of callbacks. For 2 s nothing fires from the
// Redis, and the answer to every write says that a callback may still start.
func TestARestartedRedisIsQuiet(t *testing.T) {
	t.Parallel()
	for what, open := range map[string]func(p *testkit.Redis) *Store{
		"noticed by a node that knew the process before": func(p *testkit.Redis) *Store {
			s := openShards(t, io.Discard, shardOf("a", p))
			p.Kill()
			p.Start()
			return s
		},
		"noticed by a node that has just started": func(p *testkit.Redis) *Store {
			if err := openShards(t, io.Discard, shardOf("a", p)).WantSweep(t.Context(), "a", 0); err != nil {
				t.Fatal(err)
			}
			p.Kill()
			p.Start()
			return openShards(t, io.Discard, shardOf("a", p))
		},
	} {
		t.Run(what, func(t *testing.T) {
			p := testkit.StartRedis(t, "--appendfsync", "always")
			before := openShards(t, io.Discard, shardOf("a", p))
			merge(t, before, creation("due", 0), creation("deleted", time.Hour))
			s, back := open(p), time.Now()
			var gone store.Written
			testkit.Eventually(t, testkit.Soon, "a delete to be answered", func() bool {
				gone = s.Merge(t.Context(), []store.Write{deletion("deleted")})[0]
				return gone.Err == nil
			})
			if gone.Firing <= 0 || gone.Firing > timing.QuietTime {
				t.Errorf("a callback may start for %v, want at most %v", gone.Firing, timing.QuietTime)
			}
			var first time.Duration
			testkit.Eventually(t, testkit.Soon, "the timer to be claimed", func() bool {
				found, err := claimAll(t.Context(), s, "a")
				first = time.Since(back)
				return err == nil && len(found.Claims) > 0
			})
			if first < timing.QuietTime-200*time.Millisecond {
				t.Errorf("the timer was claimed %v after the restart, want %v at least", first, timing.QuietTime)
			}
			if again := s.Merge(t.Context(), []store.Write{deletion("never there")})[0]; again.Err != nil || again.Firing != 0 {
				t.Errorf("after that: %+v, want no callback under way", again)
			}
		})
	}
}

// A node that notices a restart with a claim leases nothing. Otherwise the outcome of a callback that was under way
// could not be written, and the timers would wait for the end of the lease, long after the quiet.
func TestAClaimThatNoticesARestartLeasesNothing(t *testing.T) {
	t.Parallel()
	p := testkit.StartRedis(t, "--appendfsync", "always")
	s := openShards(t, io.Discard, shardOf("a", p))
	merge(t, s, creation("due", 0))
	p.Kill()
	p.Start()
	testkit.Eventually(t, testkit.Soon, "a claim to be answered", func() bool {
		found, err := claimAll(t.Context(), s, "a")
		if len(found.Claims) > 0 {
			t.Errorf("claimed in a restarted Redis: %+v", found.Claims)
		}
		return err == nil
	})
	if leases, are := p.Do("KEYS", "chronos:*:leases").([]any); !are || len(leases) > 0 {
		t.Errorf("leases: %v, want none", leases)
	}
}

// A fence that was asked for before a restart passes no more, even with the lease still in place.
func TestNoFencePassesInARestartedRedis(t *testing.T) {
	t.Parallel()
	p := testkit.StartRedis(t, "--appendfsync", "always")
	s := openShards(t, io.Discard, shardOf("a", p))
	merge(t, s, creation("due", 0))
	found, err := claimAll(t.Context(), s, "a")
	if err != nil || len(found.Claims) != 1 {
		t.Fatalf("claimed: %+v, %v", found, err)
	}
	p.Kill()
	p.Start()
	fence := store.Fence{Lease: found.Claims[0].Lease, Pops: 1}
	var fenced store.Fenced
	testkit.Eventually(t, testkit.Soon, "the fence to be answered", func() bool {
		fenced = s.Fire(t.Context(), "a", terms(), []store.Fence{fence})[0]
		return fenced.Err == nil
	})
	if fenced.Status != store.FenceTooLate {
		t.Errorf("the fence says %v, want too late", fenced.Status)
	}
	claim := found.Claims[0]
	differences, err := s.Ask(t.Context(), "a", []store.KeyState{{Key: claim.Lease.Key, State: claim.Record.State, Better: true}})
	if err != nil || len(differences) != 1 || differences[0].LookIn >= 0 {
		t.Errorf("who would yield to the copy is told %+v, %v, want that nothing fires", differences, err)
	}
}

// A Redis without the node's own announcement has been emptied. A new Redis has never had an announcement.
func TestAnEmptiedRedisIsQuiet(t *testing.T) {
	t.Parallel()
	shard := startSwift(t)
	s := openStore(t, "node", "http", shard)
	for _, what := range []struct {
		name  string
		quiet bool
	}{{"new", false}, {"emptied", true}} {
		if _, err := s.Beat(t.Context(), "a", store.Announcement{Clock: time.Now()}); err != nil {
			t.Fatal(err)
		}
		if firing := s.Merge(t.Context(), []store.Write{deletion("none")})[0].Firing; firing > 0 != what.quiet {
			t.Errorf("a Redis that is %s: a callback may start for %v", what.name, firing)
		}
		shard.mini.FlushAll()
	}
}

// A Redis that has just lost data carries out no write on a condition for 2 s: the version that would refuse the write
// may be lost.
func TestARestartedRedisDecidesNoCondition(t *testing.T) {
	t.Parallel()
	p := testkit.StartRedis(t, "--appendfsync", "always")
	s := openShards(t, io.Discard, shardOf("a", p))
	timed := creation("k", time.Hour)
	merge(t, s, timed)
	p.Kill()
	p.Start()
	back := time.Now()
	testkit.Eventually(t, testkit.Soon, "the restart to be noticed", func() bool {
		return s.Merge(t.Context(), []store.Write{deletion("never there")})[0].Firing > 0
	})
	asked := []store.Write{deletion("k").If(store.Newest{Version: timed.State.Version})}
	if w := s.Merge(t.Context(), asked)[0]; !errors.Is(w.Err, timer.ErrUnavailable) {
		t.Errorf("answered %+v, want that the Redis decides nothing", w)
	}
	if got := read(t, s, "k"); got.Record.State.Ended || got.Err != nil {
		t.Errorf("read %+v, %v; want the timer as before", got.Record.State, got.Err)
	}
	testkit.Eventually(t, testkit.Soon, "the Redis to decide", func() bool { return s.Merge(t.Context(), asked)[0].Err == nil })
	if waited := time.Since(back); waited < timing.QuietTime-200*time.Millisecond {
		t.Errorf("decided after %v, want %v at least", waited, timing.QuietTime)
	}
}
