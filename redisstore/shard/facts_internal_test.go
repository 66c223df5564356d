package shard

import (
	"testing"
	"time"
)

// A clock that was read somewhere within a slow round trip may be right.
func TestClockIsAheadAtLeast(t *testing.T) {
	before := time.Unix(1_800_000_000, 0)
	after := before.Add(2 * time.Second)
	for clock, want := range map[time.Time]time.Duration{
		before.Add(-time.Second): -time.Second, before: 0, before.Add(time.Second): 0, after: 0, after.Add(time.Second): time.Second,
	} {
		if got := ahead(clock, before, after); got != want {
			t.Errorf("%v between %v and %v: %v, want %v", clock, before, after, got, want)
		}
	}
}
