package tokens

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// bucket limits how often the requests of a name are let through. A bucket is safe for concurrent
// use.
type bucket struct {
	mu      sync.Mutex
	limiter *rate.Limiter
	// latest keeps time from going back. Requests read the clock before they wait for mu, so their
	// times may come in the wrong order. In the wrong order, rate.Limiter would refill the same
	// stretch of time repeatedly.
	latest time.Time
}

func newBucket(perSecond float64, burst int) *bucket {
	return &bucket{limiter: rate.NewLimiter(rate.Limit(perSecond), burst)}
}

// take counts a request and returns 0, or returns how long to wait for the next request that may be
// counted, at least 1 ms.
func (b *bucket) take(now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	now = b.onward(now)
	if b.limiter.AllowN(now, 1) {
		return 0
	}
	seconds := (1 - b.limiter.TokensAt(now)) / float64(b.limiter.Limit())
	wait := time.Duration(seconds * float64(time.Second))
	return wait.Truncate(time.Millisecond) + time.Millisecond // rounded up
}

// resize changes the rate and burst. Used-up requests stay used up.
func (b *bucket) resize(limit rate.Limit, burst int, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now = b.onward(now)
	b.limiter.SetLimitAt(now, limit)
	b.limiter.SetBurstAt(now, burst)
}

// onward returns now, or the latest time seen if later than now. The caller holds mu.
func (b *bucket) onward(now time.Time) time.Time {
	if now.After(b.latest) {
		b.latest = now
	}
	return b.latest
}
