package flow

import "time"

// RecentSpan is the length of the spans of time of Recent.
const RecentSpan = 100 * time.Millisecond

// Recent counts the events of the last one to two spans. The zero value has no events. Recent is
// not safe for concurrent use.
type Recent struct {
	span int64  // ordinal of the present span of time
	had  [2]int // events of the present span and of the span before
}

// Add counts n events at now.
func (r *Recent) Add(now time.Time, n int) {
	r.turnOver(now)
	r.had[0] += n
}

// Count is how many events the last one to two spans had.
func (r *Recent) Count(now time.Time) int {
	r.turnOver(now)
	return r.had[0] + r.had[1]
}

// Within is how many events come within d, at the recent rate.
func (r *Recent) Within(now time.Time, d time.Duration) int {
	return r.Count(now) * int(d) / int(2*RecentSpan)
}

// turnOver goes to the present span.
func (r *Recent) turnOver(now time.Time) {
	span := now.UnixNano() / int64(RecentSpan)
	switch span {
	case r.span:
	case r.span + 1:
		r.had = [2]int{0, r.had[0]}
	default:
		r.had = [2]int{}
	}
	r.span = span
}
