package shard

import (
	"testing"
	"testing/synctest"
	"time"
)

// answer lets one answer come, with a way back of d.
func answer(c *Clock, shardUs func() int64, wayBack time.Duration) {
	sent, now := c.Now(), shardUs()
	<-time.After(wayBack)
	c.Learn(sent, now)
}

func TestShardClockTakesTheFastestAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock, begin := newClock(), time.Now()
		ahead := 3 * time.Hour
		shardUs := func() int64 { return (time.Since(begin) + ahead).Microseconds() }
		wantError := func(what string, least, most time.Duration) {
			t.Helper()
			// An instant a second from now by the shard's clock, in whole ms.
			ms := shardUs()/1000 + 1000
			exact := time.Duration(ms*1000-shardUs()) * time.Microsecond
			if got := clock.Until(ms) - exact; got < least || got > most {
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
		if got, want := clock.In(time.Second), (shardUs()-1000+1e6)/1000; got != want {
			t.Errorf("in a second it is %d ms, want %d", got, want)
		}
	})
}

// An answer that was read long after arrival tells nothing new of the shard's clock.
func TestShardClockAfterAStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock, begin := newClock(), time.Now()
		shardUs := func() int64 { return time.Since(begin).Microseconds() }
		answer(clock, shardUs, time.Millisecond)
		before := clock.Until(10_000)
		answer(clock, shardUs, 900*time.Millisecond)
		if moved := clock.Until(10_000) - (before - 900*time.Millisecond); moved != 0 {
			t.Errorf("a timer was put off by %v", moved)
		}
		if got, want := clock.In(time.Second), shardUs()/1000+1000-1; got != want {
			t.Errorf("in a second it is %d ms, want %d", got, want)
		}
	})
}
