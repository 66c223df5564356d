package shard

import (
	"sync/atomic"
	"time"

	"chronos/scheduler/timing"
)

// outage notes since when calls of any kind to a shard have failed. The shard may then lack writes
// that other shards have. outage is safe for concurrent use.
type outage struct {
	begun       time.Time    // when the clock began
	first, last atomic.Int64 // failed call, in ns on the clock; 0 if no call failed lately
	write       atomic.Int64 // last failed write, in ns on the clock; 0 for none
	noted       atomic.Bool  // the shard missed a write that only the sweep repairs: a short outage counts, too
}

func newOutage() *outage { return &outage{begun: time.Now()} }

// Failed notes that a call to the shard has failed.
func (o *outage) Failed() { o.failedFor(0) }

// failedFor notes that calls have failed for a while.
func (o *outage) failedFor(while time.Duration) {
	now := time.Since(o.begun)
	o.first.CompareAndSwap(0, max(int64(now-while), 1))
	o.last.Store(max(int64(now), 1))
}

// FailedWrite notes that a write to the shard has failed, which is repaired soon.
func (o *outage) FailedWrite() {
	o.Failed()
	o.write.Store(o.last.Load())
}

// Missed notes that the shard missed a write that only the sweep can repair. The outage then
// counts, however short.
func (o *outage) Missed() {
	o.FailedWrite()
	o.noted.Store(true)
}

// Pending reports whether calls have failed lately, or an outage is not over.
func (o *outage) Pending() bool { return o.first.Load() != 0 }

// LacksWrites reports whether the shard may lack writes of the last seconds: a write has failed
// lately, or calls have failed for so long that other nodes' writes may have failed, too. A new
// shard lacks none, since nobody has written there before.
func (o *outage) LacksWrites() bool {
	return o.Pending() && (o.write.Load() >= o.first.Load() || o.long())
}

func (o *outage) long() bool { return o.last.Load()-o.first.Load() >= int64(timing.OutageAfter) }

// Over reports how long ago an outage began, from the end of the outage until Forget.
func (o *outage) Over() (ago time.Duration, is bool) {
	now, first, last := time.Since(o.begun), o.first.Load(), o.last.Load()
	if first == 0 || now-time.Duration(last) < timing.OutageOver {
		return 0, false
	}
	if !o.long() && !o.noted.Load() {
		o.first.CompareAndSwap(first, 0)
		return 0, false
	}
	return now - time.Duration(first), true
}

// Forget forgets an outage that is over. By then all shards are to be swept.
func (o *outage) Forget() {
	if _, is := o.Over(); is {
		o.noted.Store(false)
		o.first.Store(0)
	}
}
