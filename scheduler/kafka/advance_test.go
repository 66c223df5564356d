package kafka

import (
	"testing"
	"time"
)

// observed is an advance that was measured from these ways, one a second.
func observed(ways ...time.Duration) *advance {
	a := newAdvance(&Config{AutoAdvance: true})
	at := time.Unix(1_800_000_000, 0)
	for i, took := range ways {
		a.observe(at.Add(time.Duration(i)*time.Second), took)
	}
	return a
}

func repeated(took time.Duration, n int) []time.Duration {
	ways := make([]time.Duration, n)
	for i := range ways {
		ways[i] = took
	}
	return ways
}

func TestAdvanceIsTheMedianOfTheWays(t *testing.T) {
	const ms = time.Millisecond
	quick := func(n int) []time.Duration { return repeated(2*ms, n) }
	for name, c := range map[string]struct {
		ways []time.Duration
		want time.Duration
	}{
		"nothing is known":              {nil, 0},
		"too little is known":           {[]time.Duration{2 * ms, 2 * ms}, 0},
		"the first waits for a connect": {[]time.Duration{900 * ms, 2 * ms, 3 * ms}, 3 * ms},
		"the median":                    {[]time.Duration{1 * ms, 9 * ms, 2 * ms, 8 * ms, 3 * ms}, 3 * ms},
		"of two the shorter":            {[]time.Duration{1 * ms, 2 * ms, 8 * ms, 9 * ms}, 2 * ms},
		"a stall":                       {append(quick(waysKept), repeated(8*time.Second, waysKept/2)...), 2 * ms},
		"a broker that stays slow":      {append(quick(waysKept), repeated(40*ms, waysKept/2+1)...), 40 * ms},
		"no longer than may be":         {repeated(8*time.Second, 100), maxAutoAdvance},
		"quick again":                   {append(repeated(8*time.Second, 100), quick(waysKept/2+1)...), 2 * ms},
	} {
		if got := observed(c.ways...).now(); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// TestAdvanceCountsSecondsNotMessages: a thousand messages of a second count as much as a single
// message of another second.
func TestAdvanceCountsSecondsNotMessages(t *testing.T) {
	a := observed(repeated(2*time.Millisecond, waysKept)...)
	at := time.Unix(1_800_000_000, 0).Add(time.Hour)
	for i := range 100_000 {
		a.observe(at.Add(time.Duration(i)*time.Microsecond), 200*time.Millisecond)
	}
	if got := a.now(); got != 2*time.Millisecond {
		t.Errorf("after a burst the advance is %v, want 2ms", got)
	}
}

// TestAdvanceTakesAnyMessageOfASecond: all messages of a second have the same chance, since the first
// messages may be quicker.
func TestAdvanceTakesAnyMessageOfASecond(t *testing.T) {
	const runs = 400
	first := 0
	for range runs {
		a := newAdvance(&Config{AutoAdvance: true})
		at := time.Unix(1_800_000_000, 0)
		for i := range 4 {
			a.observe(at.Add(time.Duration(i)*time.Millisecond), time.Duration(i+1)*time.Millisecond)
		}
		if a.ways[0] == time.Millisecond {
			first++
		}
	}
	if first < runs/8 || first > runs/2 {
		t.Errorf("the first of four stood for its second %d times of %d", first, runs)
	}
}

func TestAdvanceThatIsSetStays(t *testing.T) {
	for _, set := range []time.Duration{0, 50 * time.Millisecond} {
		a := newAdvance(&Config{Advance: set})
		for i := range 100 {
			a.observe(time.Unix(int64(i), 0), time.Second)
		}
		if a.now() != set {
			t.Errorf("the advance is %v, want %v", a.now(), set)
		}
	}
}

// TestAdvanceAtPublishingCounts: a message that was stored with a longer advance waits for the rest.
func TestAdvanceAtPublishingCounts(t *testing.T) {
	const ms = time.Millisecond
	deadline := time.Unix(1_800_000_000, 0)
	for _, c := range []struct {
		stored, now, late, want time.Duration
	}{
		{50 * ms, 50 * ms, 0, 0},
		{50 * ms, 50 * ms, 3 * ms, 0},
		{50 * ms, 2 * ms, 0, 48 * ms},
		{50 * ms, 2 * ms, 3 * ms, 45 * ms},
		{50 * ms, 0, time.Second, 0},
		{2 * ms, 40 * ms, 0, 0}, // too late for the longer advance
		{10 * time.Second, 0, 0, 10 * time.Second},
		{time.Hour, 0, 0, maxAdvance}, // nobody stores a message like this, but whoever can write to the store can
		{-time.Hour, 0, 0, 0},
	} {
		a := newAdvance(&Config{Advance: c.now})
		if got := a.left(deadline, deadline.Add(-c.stored), c.late); got != c.want {
			t.Errorf("stored with %v, published %v late with %v: it waits %v, want %v", c.stored, c.late, c.now, got, c.want)
		}
	}
}
