package dispatch

import (
	"math/rand/v2"
	"time"

	"chronos/scheduler/store"
	"chronos/scheduler/timer"
)

// Retries of one pop, after exponential backoff with full jitter (Brooker 2015).
const maxRetryAfter = time.Hour

// backoff is how long to wait after the given attempt, from 1, has failed.
func backoff(r timer.Retry, attempt int) time.Duration { return rand.N(r.Pause(attempt) + 1) }

// outcomeOf says what an attempt at pop seq means for a timer with the given number of pops, and
// how long until the next attempt. The policy has the largest number of attempts at a pop.
func outcomeOf(d Delivered, seq, attempt, pops int, policy timer.Retry) (store.Outcome, time.Duration) {
	over := store.OutcomeDone
	if seq < pops {
		over = store.OutcomeNext
	}
	switch {
	case d.Verdict == VerdictGone:
		return store.OutcomeDone, 0
	case d.Verdict == VerdictDelivered:
		return over, 0
	case attempt < policy.Attempts && !d.Final:
		return store.OutcomeAgain, max(backoff(policy, attempt), min(d.RetryAfter, maxRetryAfter))
	case pops == 1:
		return store.OutcomeDead, 0
	}
	return over, 0
}
