package ui

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"chronos/scheduler/store"
	"chronos/scheduler/timer"
)

func TestFormats(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for d, want := range map[time.Duration]string{
		0: "0", 900 * time.Nanosecond: "0 µs", 250 * time.Microsecond: "250 µs", 1100 * time.Microsecond: "1.1 ms", 340 * time.Millisecond: "340 ms", 2500 * time.Millisecond: "2.5 s",
		59 * time.Second: "59 s", 200 * time.Second: "3 min 20 s", time.Hour: "1 h", 125 * time.Minute: "2 h 5 min", 76 * time.Hour: "3 d 4 h", 400 * day: "1 y 35 d", -5 * time.Second: "−5 s",
	} {
		if got := brief(d); got != want {
			t.Errorf("brief(%v) = %q, want %q", d, got, want)
		}
	}
	for d, want := range map[time.Duration]string{0: "now", 999 * time.Millisecond: "now", 90 * time.Second: "in 1 min 30 s", -90 * time.Second: "1 min 30 s ago"} {
		if got := relative(d); got != want {
			t.Errorf("relative(%v) = %q, want %q", d, got, want)
		}
	}
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", -4200: "−4,200"} {
		if got := number(n); got != want {
			t.Errorf("number(%d) = %q, want %q", n, got, want)
		}
	}
	for n, want := range map[int64]string{999999: "999,999", 1230000: "1.23 M", 10_000_000: "10 M", 2_500_000_000: "2.5 G"} {
		if got := about(n); got != want {
			t.Errorf("about(%d) = %q, want %q", n, got, want)
		}
	}
	for f, want := range map[float64]string{0: "0 %", 0.0001: "0.1 %", 0.5: "50 %", 0.99999: "99.9 %", 1: "100 %"} {
		if got := percent(f); got != want {
			t.Errorf("percent(%v) = %q, want %q", f, got, want)
		}
	}
	for f, want := range map[float64]string{0: "0", 0.001: "< 0.01", 3.2: "3.2", 1284.4: "1,284"} {
		if got := perSecond(f); got != want {
			t.Errorf("perSecond(%v) = %q, want %q", f, got, want)
		}
	}
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1536: "1.5 KiB", 2 << 30: "2 GiB"} {
		if got := size(n); got != want {
			t.Errorf("size(%d) = %q, want %q", n, got, want)
		}
	}
}

func TestPopsToCome(t *testing.T) {
	t.Parallel()
	now := time.Date(2027, 1, 31, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		timer  timer.Timer
		state  timer.State
		look   time.Duration // from now
		due    time.Duration // of the pop, from now
		leased bool
		want   []string
		more   int
	}{
		"one-shot":  {timer.Timer{Interval: time.Hour}, timer.State{Seq: 1}, time.Minute, time.Minute, false, []string{"1 in 1 min"}, 0},
		"recurring": {timer.Timer{Interval: time.Minute, RepeatFor: 5 * time.Minute}, timer.State{Seq: 3}, time.Minute, time.Minute, false, []string{"3 in 1 min", "4 in 2 min", "5 in 3 min"}, 0},
		"more":      {timer.Timer{Interval: time.Hour, RepeatFor: 20 * time.Hour}, timer.State{Seq: 2}, time.Hour, time.Hour, false, []string{"2 in 1 h", "3 in 2 h", "4 in 3 h", "5 in 4 h", "6 in 5 h", "7 in 6 h", "8 in 7 h", "9 in 8 h", "10 in 9 h", "11 in 10 h"}, 9},
		"retrying":  {timer.Timer{Interval: time.Minute, RepeatFor: 2 * time.Minute}, timer.State{Seq: 1, Attempt: 2}, 30 * time.Second, -30 * time.Second, false, []string{"1 30 s ago attempt 3 in 30 s", "2 in 30 s"}, 0},
		"last":      {timer.Timer{Interval: time.Minute, RepeatFor: 3 * time.Minute}, timer.State{Seq: 3}, 2 * time.Second, -time.Second, true, []string{"3 1 s ago"}, 0},
	} {
		found := store.ReadResult{Record: store.Record{State: c.state, Timer: c.timer}, Look: now.Add(c.look), LookIn: c.look, Due: now.Add(c.look), DueIn: c.due, Leased: c.leased}
		pops, more := popsOf(&found, now)
		var got []string
		for _, p := range pops {
			text := p.Sequence + " " + p.At.Relative
			if p.Note != "" {
				text += " " + p.Note
			}
			got = append(got, text)
		}
		if diff := cmp.Diff(c.want, got); diff != "" || more != c.more {
			t.Errorf("%s: %d more, want %d (-want +got):\n%s", name, more, c.more, diff)
		}
	}
}
