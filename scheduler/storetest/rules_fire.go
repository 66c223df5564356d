package storetest

import (
	"time"

	"chronos/scheduler/store"
)

// fire is the fence: is the lease still held, and is the pop due?
func (s *shard) fire(now time.Time, terms store.FenceTerms, f store.Fence) store.Fenced {
	e, nowMs := s.entries[f.Lease.Key], now.UnixMilli()
	if !e.held(f.Lease.Token) {
		return store.Fenced{Status: store.FenceLost, Free: e == nil || e.lease == nil}
	}
	if f.Age > terms.Limit {
		return store.Fenced{Status: store.FenceTooLate}
	}
	if wait := f.Lease.Found.ScoreMs - nowMs; !e.lease.fired && wait > 0 {
		return store.Fenced{Status: store.FenceEarly, Wait: ms(wait)}
	}
	status := s.pass(nowMs, e, terms, f)
	due := time.UnixMilli(e.popMs(e.state.Seq)).UTC()
	state := e.state
	state.Rev = f.Lease.Found.State.Rev // the fence tells of no PATCH
	return store.Fenced{Status: status, State: state, LeftOut: e.leftOut, Due: due, Late: now.Sub(due)}
}

// pass marks the copy as firing. The lease's first pass counts the attempt, at the pop that rule
// "make up for overdue pops" names. A pop that has expired gets no mark and no attempt.
func (s *shard) pass(nowMs int64, e *entry, terms store.FenceTerms, f store.Fence) store.FenceStatus {
	expiresMs := ceilMs(f.ExpiresAfter)
	e.lookMs = nowMs + ceilMs(terms.Hold)
	if !e.lease.fired {
		e.lease.fired, e.lease.earlierMs = true, e.markMs(nowMs)
		if f.Pops > 1 && e.intervalMs > 0 {
			e.catchUp(min(f.Pops, int((nowMs-e.startMs)/e.intervalMs)), nowMs, expiresMs, terms.CatchUp)
		}
		e.lease.expired = e.expiredAt(nowMs, expiresMs)
		if !e.lease.expired {
			e.state.Attempt++
		}
	}
	if e.lease.expired {
		e.firingMs = e.lease.earlierMs
		return store.FenceExpired
	}
	e.firingMs = nowMs + ceilMs(terms.Limit)
	if earlier := e.lease.earlierMs; earlier > 0 {
		e.firingMs = max(e.firingMs, earlier+1) // later than the mark of an expired pop
	}
	return store.FencePassed
}

// catchUp goes on to the pop that is called, if pops up to latest are due.
func (e *entry) catchUp(latest int, nowMs, expiresMs int64, most int) {
	for e.state.Seq < latest && e.expiredAt(nowMs, expiresMs) {
		if e.state.Attempt == 0 { // nobody was called
			e.leftOut++
		}
		e.state.Seq, e.state.Attempt = e.state.Seq+1, 0
	}
	if latest > e.state.Seq && e.state.Attempt > 0 {
		e.state.Seq, e.state.Attempt = e.state.Seq+1, 0
	}
	if more := latest - e.state.Seq; more >= most {
		e.state.Seq, e.leftOut = latest, e.leftOut+more
	}
}

// expiredAt reports whether the next pop is attempted no longer.
func (e *entry) expiredAt(nowMs, expiresMs int64) bool {
	return expiresMs > 0 && nowMs > e.popMs(e.state.Seq)+expiresMs
}
