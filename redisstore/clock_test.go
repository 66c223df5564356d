package redisstore

import (
	"testing"
	"time"

	"chronos/scheduler/store"
)

// TestDueTimesAreOfTheShardsClock: a node's clock may be an hour off. Only the clock of the timer's shard decides
// when a timer is due.
func TestDueTimesAreOfTheShardsClock(t *testing.T) {
	t.Parallel()
	for name, ahead := range map[string]time.Duration{"ahead": time.Hour, "behind": -time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			shard := startSwift(t)
			shard.pass(t, ahead)
			s := openStore(t, "node", "http", shard)
			const interval, tolerance = 10 * time.Minute, time.Minute
			within := func(what string, got time.Duration) {
				t.Helper()
				if (got - interval).Abs() > tolerance {
					t.Errorf("%s in %v, want in %v", what, got, interval)
				}
			}
			w := oneWrite("k", 1)
			w.Timer.Interval, w.DueIn = interval, interval
			written := s.Merge(t.Context(), []store.Write{w})[0]
			within("written, it is due", written.Due.Sub(shard.now(t)))
			result, err := s.Claim(t.Context(), "a", store.ClaimRequest{Horizon: 2 * interval, Limit: 1, Grace: time.Minute})
			if err != nil || len(result.Claims) != 1 {
				t.Fatalf("claim: %d claims, %v", len(result.Claims), err)
			}
			within("claimed, it is due", result.Claims[0].DueIn)
		})
	}
}

// TestPopsExpireByTheShardsClock: a node whose clock is an hour off neither lets an expired pop pass nor
// gives up a pop that has not expired.
func TestPopsExpireByTheShardsClock(t *testing.T) {
	t.Parallel()
	for name, ahead := range map[string]time.Duration{"ahead": time.Hour, "behind": -time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			shard := startSwift(t)
			shard.pass(t, ahead)
			s := openStore(t, "node", "http", shard)
			for key, want := range map[string]struct {
				overdue time.Duration
				status  store.FenceStatus
			}{"young": {10 * time.Second, store.FencePassed}, "old": {2 * time.Minute, store.FenceExpired}} {
				w := oneWrite(key, 1)
				w.Timer.Interval, w.DueIn = time.Second, -want.overdue
				if written := s.Merge(t.Context(), []store.Write{w})[0]; written.Err != nil {
					t.Fatal(written.Err)
				}
				result, err := s.Claim(t.Context(), "a", store.ClaimRequest{Limit: 1, Grace: time.Minute})
				if err != nil || len(result.Claims) != 1 {
					t.Fatalf("claim: %d claims, %v", len(result.Claims), err)
				}
				terms := store.FenceTerms{Limit: time.Minute, Hold: time.Minute, CatchUp: 1}
				fence := store.Fence{Lease: result.Claims[0].Lease, Pops: 1, ExpiresAfter: time.Minute}
				if got := s.Fire(t.Context(), "a", terms, []store.Fence{fence})[0]; got.Status != want.status {
					t.Errorf("a pop that is overdue by %v, and expires after a minute: %+v, want status %d", want.overdue, got, want.status)
				}
			}
		})
	}
}
