package storetest

import (
	"time"

	"chronos/scheduler/store"
	"chronos/scheduler/timer"
	"chronos/scheduler/timing"
)

// settle writes the outcome of a claim, if the lease still holds, and ends the lease. settle clears the firing mark
// that this lease's fence set, and no other mark.
func (s *shard) settle(now time.Time, node string, o store.Settlement) store.Settled {
	e, nowMs := s.entries[o.Lease.Key], now.UnixMilli()
	if !e.held(o.Lease.Token) {
		if e == nil || e.lease == nil {
			return store.Settled{}
		}
		return store.Settled{Holder: nodeOf(e.lease.token)}
	}
	if o.Outcome == store.OutcomeLetter {
		s.giveUp(nowMs, o)
		return store.Settled{Accepted: true}
	}
	fired := e.lease.fired
	if e.lease.revised && o.Keep < timing.YoungLife {
		o.Keep = timing.YoungLife
	}
	if fired {
		e.firingMs = e.lease.earlierMs
	}
	if e.lease.expired && e.state.Attempt == 0 && o.Outcome == store.OutcomeNext && o.Reason != "" {
		e.leftOut++
	}
	e.lease = nil
	switch o.Outcome {
	case store.OutcomeDead:
		s.giveUp(nowMs, o)
		s.finish(nowMs, o)
	case store.OutcomeDone:
		s.finish(nowMs, o)
	case store.OutcomeNext:
		e.next(nowMs, node, o)
	case store.OutcomeAgain:
		e.again(nowMs, node, o)
	case store.OutcomeLetter: // above
	case store.OutcomeRelease:
		e.lookMs = nowMs + ceilMs(o.Delay)
		if !fired {
			e.lookMs = max(e.lookMs, o.Lease.Found.ScoreMs)
		}
	}
	return store.Settled{Accepted: true}
}

// giveUp writes a dead letter, once for a state.
func (s *shard) giveUp(nowMs int64, o store.Settlement) {
	letter := DeadLetter{At: time.UnixMilli(nowMs), Key: o.Lease.Key, Reason: o.Reason, State: s.entries[o.Lease.Key].state}
	for i, d := range s.dead {
		if d.Key == letter.Key && d.Reason == letter.Reason && d.State == letter.State {
			s.dead[i] = letter
			return
		}
	}
	s.dead = append(s.dead, letter)
}

// finish leaves a tombstone for as long as o.Keep or an earlier state's mark lasts, otherwise nothing.
func (s *shard) finish(nowMs int64, o store.Settlement) {
	e := s.entries[o.Lease.Key]
	untilMs := max(nowMs+ceilMs(o.Keep), e.markMs(nowMs))
	e.away = union(e.away, o.Untold)
	if untilMs <= nowMs {
		delete(s.entries, o.Lease.Key)
		return
	}
	e.state.Ended, e.state.Rev, e.timer, e.failure, e.leftOut, e.lookMs = true, 0, timer.Timer{}, store.Failure{}, 0, untilMs
}

func (e *entry) next(nowMs int64, node string, o store.Settlement) {
	e.state.Seq, e.state.Attempt, e.failure = e.state.Seq+1, 0, store.Failure{}
	if o.Reason == "" {
		e.leftOut = 0
	} else {
		e.fail(nowMs, node, o)
	}
	e.lookMs = lookAtPop(e.popMs(e.state.Seq), nowMs, o.Offset)
}

func (e *entry) fail(nowMs int64, node string, o store.Settlement) {
	e.failure = store.Failure{Node: node, At: time.UnixMilli(nowMs).UTC(), Reason: o.Reason}
}

// again retries the pop.
func (e *entry) again(nowMs int64, node string, o store.Settlement) {
	e.fail(nowMs, node, o)
	e.lookMs = nowMs + ceilMs(o.Delay) + o.Offset.Milliseconds()
}
