package dispatch

import (
	"testing"
	"time"

	"chronos/scheduler/store"
	"chronos/scheduler/timer"
)

func TestBackoffIsFullJitterUpToItsCap(t *testing.T) {
	for attempt, ceiling := range map[int]time.Duration{
		1: time.Second, 2: 2 * time.Second, 3: 4 * time.Second, 6: 32 * time.Second, 7: time.Minute, 8: time.Minute, 1000: time.Minute,
	} {
		var least, most, sum time.Duration = time.Hour, 0, 0
		const draws = 2000
		for range draws {
			d := backoff(timer.Retry{}, attempt)
			least, most, sum = min(least, d), max(most, d), sum+d
		}
		if least < 0 || most > ceiling {
			t.Errorf("attempt %d: from %v to %v, want within 0 to %v", attempt, least, most, ceiling)
		}
		// A jitter that is always the same would pass the bounds.
		if mean := sum / draws; mean < ceiling*2/5 || mean > ceiling*3/5 || least > ceiling/10 || most < ceiling*9/10 {
			t.Errorf("attempt %d: mean %v, from %v to %v; want it spread evenly up to %v", attempt, mean, least, most, ceiling)
		}
	}
}

func TestOutcomeOf(t *testing.T) {
	policy := timer.Retry{Attempts: 5}
	for name, c := range map[string]struct {
		delivered          Delivered
		seq, attempt, pops int
		want               store.Outcome
		least              time.Duration
	}{
		"one-shot delivered":             {Delivered{Verdict: VerdictDelivered}, 1, 1, 1, store.OutcomeDone, 0},
		"delivered at the last attempt":  {Delivered{Verdict: VerdictDelivered}, 1, 5, 1, store.OutcomeDone, 0},
		"pop delivered, more to come":    {Delivered{Verdict: VerdictDelivered}, 2, 1, 3, store.OutcomeNext, 0},
		"last pop delivered":             {Delivered{Verdict: VerdictDelivered}, 3, 1, 3, store.OutcomeDone, 0},
		"one-shot failed":                {Delivered{}, 1, 1, 1, store.OutcomeAgain, 0},
		"one-shot failed with a wish":    {Delivered{RetryAfter: 90 * time.Second}, 1, 4, 1, store.OutcomeAgain, 90 * time.Second},
		"a wish of a day is an hour":     {Delivered{RetryAfter: 24 * time.Hour}, 1, 4, 1, store.OutcomeAgain, time.Hour},
		"one-shot given up":              {Delivered{}, 1, 5, 1, store.OutcomeDead, 0},
		"given up whatever it wishes":    {Delivered{RetryAfter: time.Second}, 1, 5, 1, store.OutcomeDead, 0},
		"recurring given up goes on":     {Delivered{}, 2, 5, 3, store.OutcomeNext, 0},
		"last pop given up":              {Delivered{}, 3, 5, 3, store.OutcomeDone, 0},
		"more attempts than there are":   {Delivered{}, 1, 9, 1, store.OutcomeDead, 0},
		"one-shot that no attempt saves": {Delivered{Final: true}, 1, 1, 1, store.OutcomeDead, 0},
		"pop that no attempt saves":      {Delivered{Final: true}, 1, 1, 3, store.OutcomeNext, 0},
		"gone ends a one-shot timer":     {Delivered{Verdict: VerdictGone}, 1, 1, 1, store.OutcomeDone, 0},
		"gone ends a recurring timer":    {Delivered{Verdict: VerdictGone}, 1, 1, 3, store.OutcomeDone, 0},
		"recurring failed, tries again":  {Delivered{}, 1, 1, 3, store.OutcomeAgain, 0},
		"a deadline that passed unheard": {Delivered{Verdict: VerdictFailed, Reason: "no answer within 2 s"}, 1, 2, 1, store.OutcomeAgain, 0},
	} {
		t.Run(name, func(t *testing.T) {
			got, delay := outcomeOf(c.delivered, c.seq, c.attempt, c.pops, policy)
			if got != c.want {
				t.Errorf("outcome %v, want %v", got, c.want)
			}
			if delay < c.least || delay > maxRetryAfter || (got != store.OutcomeAgain && delay != 0) {
				t.Errorf("delay %v for %v, want at least %v, at most an hour, and none but for another attempt", delay, got, c.least)
			}
		})
	}
}
