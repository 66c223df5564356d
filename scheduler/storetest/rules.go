package storetest

import (
	"cmp"
	"math"
	"slices"
	"time"

	"chronos/scheduler"
)

// entry is one copy of a timer. Instants are ms of its shard's clock.
type entry struct {
	state      scheduler.State
	timer      scheduler.Timer // zero for a tombstone
	rf, rank   int
	startMs    int64
	intervalMs int64
	firingMs   int64 // end of the firing mark; in the past or 0 if there is none
	failure    scheduler.Failure
	bodyHash   string
	lookMs     int64 // when someone must next look at it
	lease      *lease
}

type lease struct {
	token string
	// fired says that its fence has passed; earlierMs is then the end of the mark
	// that the fence of an earlier state had set, 0 if there was none.
	fired     bool
	earlierMs int64
}

// popMs is when pop n of this copy's rank 0 is due.
func (e *entry) popMs(n int) int64 { return e.startMs + int64(n)*e.intervalMs }

func (e *entry) held(token string) bool { return e != nil && e.lease != nil && e.lease.token == token }

// markMs is the end of the firing mark, 0 if there is none any more.
func (e *entry) markMs(now int64) int64 {
	if e.firingMs > now {
		return e.firingMs
	}
	return 0
}

// merge is rules P1 and P2: become this state if it is newer than what is
// there. A newer state ends the lease and keeps the firing mark.
func (s *shard) merge(now time.Time, c Change) Changed {
	old, nowMs := s.entries[c.Key], now.UnixMilli()
	c.State.Ended = c.Kind == Gone || c.Kind == Done
	if c.Token != "" {
		if old == nil {
			return Changed{Status: ChangeNone}
		}
		if !old.held(c.Token) {
			return old.changed(ChangeLost, nowMs)
		}
	}
	switch {
	case c.Kind == Once && old != nil && (!old.state.Ended || old.bodyHash != ""):
		return old.changed(ChangeExists, nowMs)
	case c.Kind == Put && old != nil && !old.state.Ended && old.rf != c.RF:
		return old.changed(ChangeFactor, nowMs)
	}
	if old != nil {
		switch order := c.State.Compare(old.state); {
		case order < 0:
			return old.changed(ChangeNewer, nowMs)
		case order == 0 && !c.says(old):
			return old.changed(ChangeConflict, nowMs)
		case order == 0:
			return old.changed(ChangeSame, nowMs)
		}
	}
	next := c.entry(now, old)
	predecessor := old != nil && !old.state.Ended && old.state.Version == c.State.Version && old.state.Seq == c.State.Seq
	switch {
	case c.Kind != Done || !predecessor:
		s.entries[c.Key] = next
	case next.markMs(nowMs) > 0 || next.bodyHash != "" && c.Keep > 0: // which are kept, and nothing else
		next.lookMs = max(next.markMs(nowMs), next.keptMs(nowMs, c))
		s.entries[c.Key] = next
	default:
		delete(s.entries, c.Key)
	}
	return next.changed(ChangeStored, nowMs)
}

// entry is the copy that the change makes in place of old.
func (c Change) entry(now time.Time, old *entry) *entry {
	e := &entry{state: c.State, rf: c.RF, rank: c.Rank, bodyHash: c.BodyHash}
	if old != nil {
		e.firingMs, e.bodyHash = old.firingMs, cmp.Or(e.bodyHash, old.bodyHash)
	}
	if e.state.Ended {
		if old != nil {
			e.state.Seq, e.rf, e.startMs, e.intervalMs = old.state.Seq, old.rf, old.startMs, old.intervalMs
		}
		e.lookMs = max(now.UnixMilli()+ceilMs(c.Life), e.keptMs(now.UnixMilli(), c), e.firingMs)
		return e
	}
	e.timer, e.intervalMs = c.Timer, ceilMs(c.Timer.Interval)
	// Rounded up: a start before the write would make the timer early.
	dueMs := (now.UnixMicro()+999)/1000 + ceilMs(c.DueIn)
	if !c.Timer.At.IsZero() {
		dueMs = c.Timer.At.UnixMilli()
	}
	e.startMs = dueMs - int64(c.State.Seq)*e.intervalMs
	e.lookMs = dueMs + int64(c.Rank)*c.Skew.Milliseconds()
	return e
}

// keptMs is how long a body hash is kept after its timer.
func (e *entry) keptMs(nowMs int64, c Change) int64 {
	if e.bodyHash == "" {
		return nowMs
	}
	return nowMs + ceilMs(c.Keep)
}

// says reports whether the change would put what is there already.
func (c Change) says(e *entry) bool {
	t, o := c.Timer, e.timer
	return e.state.Ended || c.RF == e.rf && t.Interval == o.Interval && t.At.Equal(o.At) && t.RepeatFor == o.RepeatFor &&
		t.Callback == o.Callback && slices.Equal(t.Tags, o.Tags)
}

// How many timers a claim looks at together, and how many tombstones it buries:
// what is buried beyond its bounds follows from these.
const (
	pageSize  = 50
	maxBuried = 500
)

// claim leases what is due within the horizon, the leased when their lease has
// ended, and buries tombstones whose life has. There may be more if a bound was
// reached.
func (s *shard) claim(now time.Time, node, token string, req scheduler.ClaimRequest) (_ []scheduler.Claimed, more bool) {
	nowMs := now.UnixMilli()
	var claims []scheduler.Claimed
	buried, bytes, most := 0, 0, req.MaxBytes
	if most <= 0 {
		most = math.MaxInt
	}
	horizonMs := req.Horizon.Milliseconds()
	if req.Neglected > 0 {
		horizonMs = 0
	}
	due := slices.DeleteFunc(s.dueBy(nowMs+horizonMs), func(key string) bool {
		return req.Partitions != nil && !slices.Contains(req.Partitions, partitionOf(key))
	})
	for page := range slices.Chunk(due, pageSize) {
		for _, key := range page {
			e := s.entries[key]
			over := e.lookMs <= nowMs
			switch {
			case e.state.Ended && over:
				delete(s.entries, key)
				buried++
			case e.state.Ended || e.lease != nil && !over || e.leave(nowMs, node, req) || len(claims) >= req.Limit || bytes >= most:
			default:
				bytes += len(e.timer.Callback.URI) + len(e.timer.Callback.Opaque)
				claims = append(claims, s.lease(now, key, token, max(e.lookMs, nowMs)+ceilMs(req.Grace)))
			}
		}
		if len(claims) >= req.Limit || bytes >= most || buried >= maxBuried {
			return claims, true
		}
	}
	return claims, false
}

// leave reports whether the copy is somebody else's for now: a retry that this
// node failed at; what another node polls and has not neglected yet.
func (e *entry) leave(nowMs int64, node string, req scheduler.ClaimRequest) bool {
	if e.lease != nil {
		return false
	}
	failed := ""
	if e.state.Attempt > 0 {
		failed = e.failure.Node
	}
	own := req.LeaveOwnRetries && nowMs < e.lookMs+1000
	others := req.Neglected > 0 && nowMs < e.lookMs+req.Neglected.Milliseconds()
	return own && failed == node || others && (failed == "" || failed == node)
}

func partitionOf(key string) int { return int(hash(key) % scheduler.Partitions) }

func (s *shard) lease(now time.Time, key, token string, untilMs int64) scheduler.Claimed {
	e := s.entries[key]
	claimed := scheduler.Claimed{
		Lease: scheduler.Lease{Shard: s.name, Key: key, Token: token, Partition: partitionOf(key), Found: scheduler.Found{ScoreMs: e.lookMs}}, Record: s.record(key, e),
		DueIn: time.UnixMilli(e.lookMs).Sub(now),
	}
	if e.lease != nil {
		claimed.Previous = nodeOf(e.lease.token)
	}
	e.lease, e.lookMs = &lease{token: token}, untilMs
	return claimed
}

// take leases one timer by name, if it is due and no lease on it lasts.
func (s *shard) take(now time.Time, key, token string, grace time.Duration) scheduler.Taken {
	e, nowMs := s.entries[key], now.UnixMilli()
	switch {
	case e == nil:
		return scheduler.Taken{Status: scheduler.TakeMissing}
	case e.state.Ended:
		return scheduler.Taken{Status: scheduler.TakeEnded}
	case e.held(token) || e.lookMs > nowMs && e.lease != nil: // held if the call names it twice
		return scheduler.Taken{Status: scheduler.TakeLeased, Wait: ms(e.lookMs - nowMs)}
	case e.lookMs > nowMs:
		return scheduler.Taken{Status: scheduler.TakeWaiting, Wait: ms(e.lookMs - nowMs)}
	}
	return scheduler.Taken{Status: scheduler.TakeGot, Claimed: s.lease(now, key, token, nowMs+ceilMs(grace))}
}

// fire is the fence: still this lease, and due?
func (s *shard) fire(now time.Time, terms scheduler.FenceTerms, f scheduler.Fence) scheduler.Fenced {
	e, nowMs := s.entries[f.Lease.Key], now.UnixMilli()
	if !e.held(f.Lease.Token) {
		return scheduler.Fenced{Status: scheduler.FenceLost}
	}
	fenced := scheduler.Fenced{Status: scheduler.FencePassed}
	wait := f.Lease.Found.ScoreMs - nowMs
	switch {
	case f.Age > terms.Limit:
		fenced.Status = scheduler.FenceTooLate
	case !e.lease.fired && wait > 0:
		fenced.Status, fenced.Wait = scheduler.FenceEarly, ms(wait)
	default:
		s.pass(nowMs, e, terms, f.Pops)
	}
	fenced.State = e.state
	fenced.Due = time.UnixMilli(e.popMs(e.state.Seq)).UTC()
	fenced.Late = now.Sub(fenced.Due)
	return fenced
}

// pass marks the copy as firing. The lease's first pass counts the attempt, at
// the latest pop that is due by now.
func (s *shard) pass(nowMs int64, e *entry, terms scheduler.FenceTerms, pops int) {
	if !e.lease.fired {
		e.lease.fired, e.lease.earlierMs = true, e.markMs(nowMs)
		if pops > 1 && e.intervalMs > 0 {
			latest := min(pops, int((nowMs-e.startMs)/e.intervalMs))
			if latest > e.state.Seq {
				e.state.Seq, e.state.Attempt = latest, 0
			}
		}
		e.state.Attempt++
	}
	e.firingMs = max(nowMs+ceilMs(terms.Limit), e.lease.earlierMs)
	e.lookMs = nowMs + ceilMs(terms.Hold)
}

// settle writes the outcome of a claim, if its lease still holds, and ends the
// lease. Of the firing marks it clears the one that this lease's fence set.
func (s *shard) settle(now time.Time, node string, o scheduler.Settlement) scheduler.Settled {
	e, nowMs := s.entries[o.Lease.Key], now.UnixMilli()
	if !e.held(o.Lease.Token) {
		if e == nil || e.lease == nil {
			return scheduler.Settled{}
		}
		return scheduler.Settled{Holder: nodeOf(e.lease.token)}
	}
	fired := e.lease.fired
	if fired {
		e.firingMs = e.lease.earlierMs
	}
	e.lease = nil
	switch o.Outcome {
	case scheduler.OutcomeDead:
		s.dead = append(s.dead, DeadLetter{At: time.UnixMilli(nowMs), Key: o.Lease.Key, Reason: o.Reason, State: e.state})
		s.finish(nowMs, o)
	case scheduler.OutcomeDone:
		s.finish(nowMs, o)
	case scheduler.OutcomeNext:
		e.next(nowMs, node, o)
	case scheduler.OutcomeAgain:
		e.again(nowMs, node, o)
	case scheduler.OutcomeRelease:
		e.lookMs = nowMs + ceilMs(o.Delay)
		if !fired {
			e.lookMs = max(e.lookMs, o.Lease.Found.ScoreMs)
		}
	}
	return scheduler.Settled{Accepted: true}
}

// finish leaves nothing, or a tombstone to keep, or one while an earlier state's
// mark lasts.
func (s *shard) finish(nowMs int64, o scheduler.Settlement) {
	e := s.entries[o.Lease.Key]
	untilMs := max(nowMs+ceilMs(o.Keep), e.markMs(nowMs))
	if untilMs <= nowMs {
		delete(s.entries, o.Lease.Key)
		return
	}
	e.state.Ended, e.timer, e.failure, e.lookMs = true, scheduler.Timer{}, scheduler.Failure{}, untilMs
}

func (e *entry) next(nowMs int64, node string, o scheduler.Settlement) {
	e.state.Seq, e.state.Attempt, e.failure = e.state.Seq+1, 0, scheduler.Failure{}
	if o.Reason != "" {
		e.fail(nowMs, node, o)
	}
	e.lookMs = e.popMs(e.state.Seq) + int64(e.rank)*o.Skew.Milliseconds()
}

func (e *entry) fail(nowMs int64, node string, o scheduler.Settlement) {
	e.failure = scheduler.Failure{Node: node, At: time.UnixMilli(nowMs).UTC(), Reason: o.Reason}
}

// again retries the pop, unless the next one comes first.
func (e *entry) again(nowMs int64, node string, o scheduler.Settlement) {
	at := nowMs + ceilMs(o.Delay)
	if e.state.Seq < o.Pops && at >= e.popMs(e.state.Seq+1)+int64(e.rank)*o.Skew.Milliseconds() {
		e.next(nowMs, node, o)
		return
	}
	e.fail(nowMs, node, o)
	e.lookMs = at
}

// ask compares one state with the copy; ok says that it is the same and idle.
func (s *shard) ask(now time.Time, st scheduler.KeyState) (d scheduler.Difference, ok bool) {
	e, nowMs := s.entries[st.Key], now.UnixMilli()
	if e == nil {
		return scheduler.Difference{Missing: true}, false
	}
	d.State = e.state
	if end := e.markMs(nowMs); end > 0 {
		d.Firing = ms(end - nowMs)
	}
	return d, d.Firing == 0 && st.State.Compare(e.state) == 0
}
