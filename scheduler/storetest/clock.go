package storetest

import (
	"sync"
	"time"
)

// Clock is a clock that a test moves by hand, for tests outside a bubble. A Clock is safe for concurrent use.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// NewClock makes a clock that stands at an instant.
func NewClock(at time.Time) *Clock { return &Clock{now: at} }

// Now is the instant at which the clock stands.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Advance moves the clock on by d.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// lookAtPop is when to look at a copy after the outcome of the pop before. An overdue pop is looked at as if the pop
// were due now.
func lookAtPop(dueMs, nowMs int64, offset time.Duration) int64 {
	return max(dueMs, nowMs) + offset.Milliseconds()
}
