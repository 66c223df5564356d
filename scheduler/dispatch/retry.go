package dispatch

import (
	"math/rand/v2"
	"time"

	"chronos/scheduler/store"
)

// Retries of one pop, after exponential backoff with full jitter (Brooker 2015).
const (
	backoffBase   = time.Second
	backoffCap    = time.Minute
	maxRetryAfter = time.Hour
)

// backoff is how long to wait after the given attempt, from 1, has failed.
func backoff(attempt int) time.Duration { return rand.N(longestBackoff(attempt) + 1) }

func longestBackoff(attempt int) time.Duration {
	return min(backoffBase<<min(max(attempt-1, 0), 6), backoffCap)
}

// outcomeOf says what an attempt at pop seq means for a timer with the given number of pops, and
// how long until the next attempt. most is the largest number of attempts at a pop.
func outcomeOf(d Delivered, seq, attempt, pops, most int) (store.Outcome, time.Duration) {
	over := store.OutcomeDone
	if seq < pops {
		over = store.OutcomeNext
	}
	switch {
	case d.Verdict == VerdictGone:
		return store.OutcomeDone, 0
	case d.Verdict == VerdictDelivered:
		return over, 0
	case attempt < most && !d.Final:
		return store.OutcomeAgain, max(backoff(attempt), min(d.RetryAfter, maxRetryAfter))
	case pops == 1:
		return store.OutcomeDead, 0
	}
	return over, 0
}
