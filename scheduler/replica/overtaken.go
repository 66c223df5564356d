package replica

import (
	"context"
	"math/rand/v2"
	"time"

	"chronos/scheduler/store"
	"chronos/scheduler/timing"
)

const (
	// lastTry is how long before the end of an operation a write that lost a race may be tried
	// again, if earlier tries were quick. A later try would be cut off, with an unknown outcome.
	lastTry      = 250 * time.Millisecond
	maxRacePause = 32 * time.Millisecond
)

// timeLeft is how long an operation may still take.
func timeLeft(ctx context.Context, took time.Duration) time.Duration {
	left := timing.AnswerLimit - took
	if at, is := ctx.Deadline(); is {
		left = min(left, time.Until(at))
	}
	return left
}

// racePause is the pause before the n-th try of a write that lost a race. Pauses get longer, and
// are random, so that two writers don't meet again.
func racePause(n int) time.Duration {
	most := min(time.Millisecond<<min(n, 8), maxRacePause)
	return rand.N(most) + time.Millisecond/4
}

// contested reports whether one copy took the write, and another copy has a newer write. Either the
// newer write is under way, and about to reach the first copy, too, or the first copy could not be
// told of the newer write.
func (a *attempt) contested() bool {
	if a.BodyHash != "" || a.Humble {
		return false
	}
	taken, refused := false, false
	for t := range each(a.targets) {
		taken = taken || t.stored()
		refused = refused || t.progress == told && t.answer.Status == store.WriteNewer && t.answer.State.Version > a.Version && !a.ends(t)
	}
	return taken && refused
}

// replaced reports whether the write was in force, and every copy that took the write has a newer
// state since: the write was carried out, and the newer write came afterwards. But where the best copy
// refused the write for a newer write with a condition, the condition may hold only before this write.
func (v *verdict) replaced() bool {
	return v.passed > 0 && v.holding == 0 && (v.barred == nil || v.first.Rank < v.barred.Rank)
}

// ends reports whether a delete finds a newer end. A delete that could not tell all copies goes on
// nevertheless, and leaves an end that names the copies without an answer.
func (a *attempt) ends(t *target) bool {
	return a.Timer == nil && t.answer.Status == store.WriteNewer && t.answer.State.Ended
}
