package redisstore

import (
	"testing"
	"testing/synctest"
	"time"

	"chronos/scheduler/store"
)

// answer lets one answer come whose way back took d.
func answer(c *shardClock, shardUs func() int64, wayBack time.Duration) {
	sent, now := c.now(), shardUs()
	<-time.After(wayBack)
	c.learn(sent, now)
}

func TestShardClockTakesTheFastestAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock, begin := newShardClock(), time.Now()
		ahead := 3 * time.Hour
		shardUs := func() int64 { return (time.Since(begin) + ahead).Microseconds() }
		wantError := func(what string, least, most time.Duration) {
			t.Helper()
			// An instant a second from now by the shard's clock, in whole ms.
			ms := shardUs()/1000 + 1000
			exact := time.Duration(ms*1000-shardUs()) * time.Microsecond
			if got := clock.until(ms) - exact; got < least || got > most {
				t.Errorf("%s: %v off, want from %v to %v", what, got, least, most)
			}
		}
		answer(clock, shardUs, 40*time.Millisecond)
		wantError("one slow answer", 40*time.Millisecond, 40*time.Millisecond)
		answer(clock, shardUs, 200*time.Microsecond)
		answer(clock, shardUs, 30*time.Millisecond)
		wantError("a fast one among slow ones", 200*time.Microsecond, 200*time.Microsecond)
		for range 6 {
			<-time.After(4 * time.Second)
			answer(clock, shardUs, time.Millisecond)
		}
		wantError("the fast one long ago", time.Millisecond, time.Millisecond)
		ahead += time.Minute
		answer(clock, shardUs, time.Millisecond)
		wantError("stepped ahead", time.Millisecond, time.Millisecond)
		ahead -= 2 * time.Minute
		answer(clock, shardUs, time.Millisecond)
		wantError("stepped back", time.Millisecond, time.Millisecond)
		if got, want := clock.in(time.Second), (shardUs()-1000+1e6)/1000; got != want {
			t.Errorf("in a second it is %d ms, want %d", got, want)
		}
	})
}

// An answer that was read long after it came tells nothing new of the shard's clock.
func TestShardClockAfterAStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock, begin := newShardClock(), time.Now()
		shardUs := func() int64 { return time.Since(begin).Microseconds() }
		answer(clock, shardUs, time.Millisecond)
		before := clock.until(10_000)
		answer(clock, shardUs, 900*time.Millisecond)
		if moved := clock.until(10_000) - (before - 900*time.Millisecond); moved != 0 {
			t.Errorf("a timer was put off by %v", moved)
		}
		if got, want := clock.in(time.Second), shardUs()/1000+1000-1; got != want {
			t.Errorf("in a second it is %d ms, want %d", got, want)
		}
	})
}

// TestDueTimesAreOfTheShardsClock: a node's clock may be an hour off. When a timer is due
// depends on the clock of the timer's shard alone.
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
