package shard

import (
	"sync"
	"time"

	"chronos/redisstore/record"
)

// Clock estimates a shard's clock from the shard's answers. An answer shows by how much at least the shard's clock
// is ahead of this process's clock: by the difference at the answer's arrival. No estimate is therefore ahead of the
// shard, unless the shard's clock is stepped back.
type Clock struct {
	start time.Time // of this process's monotonic clock

	mu      sync.Mutex
	last    time.Duration    // the difference that the latest answer allows: follows every step at once
	best    [2]time.Duration // the greatest difference of this span and of the previous span: the fastest way back
	spanEnd time.Duration
}

const (
	clockSpan = 5 * time.Second        // a clock drifts by less than a millisecond in two spans
	clockStep = 500 * time.Millisecond // an answer that shows a greater fall means that the clock was stepped back
)

func newClock() *Clock { return &Clock{start: time.Now()} }

// Now is an instant of this process, for Learn.
func (c *Clock) Now() time.Duration { return time.Since(c.start) }

// Learn takes the shard's time from an answer that has just come to a call that was sent at the given instant. The
// shard read its clock after that instant, maybe long before the answer was read.
func (c *Clock) Learn(sent time.Duration, nowUs int64) {
	here, shows := c.Now(), time.Duration(nowUs)*time.Microsecond
	ahead, atMost := shows-here, shows-sent
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last = max(c.last, ahead); c.spanEnd == 0 || c.last > atMost {
		c.last = ahead
	}
	switch {
	case c.spanEnd == 0 || atMost < c.best[0]-clockStep || atMost < c.best[1]-clockStep:
		c.best, c.spanEnd = [2]time.Duration{ahead, ahead}, here+clockSpan
	case here >= c.spanEnd:
		c.best, c.spanEnd = [2]time.Duration{ahead, c.best[0]}, here+clockSpan
	default:
		c.best[0] = max(c.best[0], ahead)
	}
}

// In is the shard's time after d, in ms.
func (c *Clock) In(d time.Duration) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return (time.Since(c.start) + c.last + d).Milliseconds()
}

// Until is how long it is until the shard's clock shows ms, as precisely as the fastest recent answer allows. A large
// answer comes late and is less precise.
func (c *Clock) Until(ms int64) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return record.Until(ms, (time.Since(c.start) + max(c.best[0], c.best[1])).Microseconds())
}
