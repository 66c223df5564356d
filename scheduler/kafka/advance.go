package kafka

import (
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// maxAutoAdvance bounds the measured advance, and so how early a message with a shorter way comes.
	// Half of the messages have a longer way only if the broker is far away or overloaded.
	maxAutoAdvance = 50 * time.Millisecond
	// waysKept is from how many seconds the advance is measured, and leastWays is how many seconds must
	// be known. A message comes early only if a broker stalls in half of these seconds. The first
	// record waits for connections, and counts for nothing by itself.
	waysKept, leastWays = 31, 3
	// inTime is how late a message may be whose way counts. Later messages come in a crowd, and take as
	// long as a crowd takes.
	inTime = 50 * time.Millisecond
	// maxAdvance is how long before the deadline a message may be published at all.
	maxAdvance = 10 * time.Second
)

// advance is how long before the deadlines messages are published: a fixed time, or the median of the
// ways that messages took to the output. Safe for concurrent use.
type advance struct {
	auto bool
	by   atomic.Int64 // ns

	mu      sync.Mutex
	ways    [waysKept]time.Duration // a ring: for every second in which messages were published, the way of one message
	seconds int                     // in which messages were published
	second  time.Time               // when the last second began
	seen    int                     // messages of the last second
}

func newAdvance(c *Config) *advance {
	a := &advance{auto: c.AutoAdvance}
	if !a.auto {
		a.by.Store(int64(c.Advance))
	}
	return a
}

// now is the advance of a message that is published now.
func (a *advance) now() time.Duration { return time.Duration(a.by.Load()) }

// observe notes how long a message took to the output. The message was published in time, and
// acknowledged at the instant at. Every message of a second has the same chance to stand for the
// second.
func (a *advance) observe(at time.Time, took time.Duration) {
	if !a.auto {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.seconds == 0 || at.Sub(a.second) >= time.Second {
		a.seconds, a.second, a.seen = a.seconds+1, at, 0
	}
	a.seen++
	if rand.N(a.seen) > 0 {
		return
	}
	a.ways[(a.seconds-1)%waysKept] = took
	if a.seconds < leastWays {
		return
	}
	known := slices.Clone(a.ways[:min(a.seconds, waysKept)])
	slices.Sort(known)
	a.by.Store(int64(min(known[(len(known)-1)/2], maxAutoAdvance)))
}

// left is how long a message still has to wait, at least 0. The message was stored to be published at
// due, and is late by late. The advance may have been longer when the message was stored.
func (a *advance) left(deadline, due time.Time, late time.Duration) time.Duration {
	stored := min(deadline.Sub(due), maxAdvance)
	return max(stored-a.now()-late, 0)
}
