package shard

import (
	"sync/atomic"
	"time"

	"chronos/scheduler/timing"
)

// outage is since when calls to a shard have failed, of whatever kind: what it was
// to be told is elsewhere then. It is safe for concurrent use.
type outage struct {
	begun       time.Time    // of the clock
	first, last atomic.Int64 // ns on it; 0 if none failed lately
	noted       atomic.Bool  // however short: something was missed that nobody else repairs
}

func newOutage() *outage { return &outage{begun: time.Now()} }

// Failed notes that a call to the shard has failed.
func (o *outage) Failed() {
	now := max(int64(time.Since(o.begun)), 1)
	o.first.CompareAndSwap(0, now)
	o.last.Store(now)
}

// Missed notes that the shard lacks what only the sweep can bring there, however short the
// outage was.
func (o *outage) Missed() {
	o.Failed()
	o.noted.Store(true)
}

// Pending reports whether calls have failed lately, or an outage is not over.
func (o *outage) Pending() bool { return o.first.Load() != 0 }

// Over reports how long ago an outage began that is over, until it is forgotten.
func (o *outage) Over() (ago time.Duration, is bool) {
	now, first, last := time.Since(o.begun), o.first.Load(), o.last.Load()
	if first == 0 || now-time.Duration(last) < timing.OutageOver {
		return 0, false
	}
	if last-first < int64(timing.OutageAfter) && !o.noted.Load() {
		o.first.CompareAndSwap(first, 0)
		return 0, false
	}
	return now - time.Duration(first), true
}

// Forget ends an outage that is over: the shard has been told what it missed.
func (o *outage) Forget() {
	if _, is := o.Over(); is {
		o.noted.Store(false)
		o.first.Store(0)
	}
}
