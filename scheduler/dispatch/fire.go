package dispatch

import (
	"cmp"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"chronos/scheduler/pulse"
	"chronos/scheduler/store"
	"chronos/scheduler/timer"
)

// maxIdleWorkers is how many goroutines wait for further callbacks: their stacks
// have grown already.
const maxIdleWorkers = 512

// shot is a callback to be made until ctx ends. The ctx belongs to the claim's shard, since a
// worker may outlive the shard.
type shot struct {
	ctx   context.Context
	claim *claim // nil for none
}

// startFire hands c to an idle worker, or to a new worker.
func (d *Dispatcher) startFire(ctx context.Context, c *claim) {
	select {
	case d.handed <- shot{ctx, c}:
	default:
		d.firing.Go(func() { d.fireEach(shot{ctx, c}) })
	}
}

// fireEach is a worker: it makes callbacks until enough other workers are idle, the shard of the
// first callback is gone, or the engine stops.
func (d *Dispatcher) fireEach(next shot) {
	lasting := next.ctx
	for next.claim != nil {
		span := d.pace.Begin()
		d.fire(next.ctx, next.claim)
		d.pace.End(span)
		next = d.handedNext(lasting)
	}
}

func (d *Dispatcher) handedNext(ctx context.Context) shot {
	defer d.idle.Add(-1)
	if d.idle.Add(1) > maxIdleWorkers {
		return shot{}
	}
	select {
	case next := <-d.handed:
		return next
	case <-ctx.Done():
		return shot{}
	}
}

// fire makes the callback that the fence has allowed, and settles the outcome.
func (d *Dispatcher) fire(ctx context.Context, c *claim) {
	began := c.began
	if c.asked != 0 {
		began = min(began, c.asked) // the answers of the other copies are as old
	}
	since := d.config.SinceBoot() - began
	if since >= d.config.Sending(c.renews()) || c.afar != 0 && d.config.SinceBoot()-c.afar >= d.config.Limit {
		// The fence was counted as an attempt, but nothing was sent.
		d.putBack(c, 0)
		return
	}
	bounded := &fenceContext{Context: ctx, sinceBoot: d.config.SinceBoot}
	bounded.ends.Store(int64(began + d.config.Limit))
	defer bounded.release()
	endRenewal := func() {}
	timeout := c.Record.Timer.Callback.Timeout
	if c.renews() {
		bounded.deadline = deadlineAfter(timeout)
		endRenewal = c.lane.renewals.keep(c, bounded)
	} else {
		bounded.deadline = time.Now().Add(min(d.config.Limit-since, cmp.Or(timeout, d.config.Limit)))
	}
	c.hasTurn = false // used up
	d.metrics.inFlight.Inc()
	if c.fenced.State.Attempt == 1 {
		late := d.lateness(c)
		d.metrics.lateness.Observe(late.Seconds())
		d.pulse.Late(late)
	}
	c.lane.credit.ToReceiver(c.weight)
	late := c.sinceDue()
	delivered := d.deliverer.Deliver(bounded, Delivery{
		Callback: c.Record.Timer.Callback, ID: c.Record.ID, Version: c.fenced.State.Version,
		Seq: c.fenced.State.Seq, Attempt: c.fenced.State.Attempt, Due: c.fenced.Due, Late: max(late, 0),
		LeftOut: c.fenced.LeftOut,
	})
	c.lane.credit.FromReceiver(c.weight)
	endRenewal() // before the settlement: a settled lease would be taken for lost
	d.metrics.inFlight.Dec()
	d.freeSlot(c)
	took := c.sinceDue() - late
	d.metrics.countFired(&delivered, took)
	d.pulse.Count(&pulse.Callback{
		Destination: c.destination, Took: took, Failed: delivered.Verdict == VerdictFailed, Answer: cmp.Or(delivered.Reason, delivered.Answer),
	})
	settlement := d.outcome(c, delivered)
	settlement.Attempt = d.attempt(c, late, &delivered)
	c.settle(settlement)
}

// deadlineAfter is the end of a callback that lasts as long as timeout; the zero time for no end.
func deadlineAfter(timeout time.Duration) time.Time {
	if timeout == 0 {
		return time.Time{}
	}
	return time.Now().Add(timeout)
}

// lateness is the time from a pop's due time to the sending, or from the client's write if the
// write came after the due time; 0 for a pop that comes before its time.
func (d *Dispatcher) lateness(c *claim) time.Duration {
	if asked := c.fenced.State.Version.Time(); c.fenced.Due.Before(asked) {
		return max(d.shards.Clock().Sub(asked), 0)
	}
	return max(c.sinceDue(), 0)
}

// outcome is the settlement that follows from an attempt.
func (d *Dispatcher) outcome(c *claim, delivered Delivered) store.Settlement {
	state := c.fenced.State
	policy := c.policy()
	outcome, delay := outcomeOf(delivered, state.Seq, state.Attempt, c.pops(), policy)
	if delivered.Verdict == VerdictDelivered {
		return store.Settlement{Outcome: outcome, Delay: delay, Reason: delivered.Reason}
	}
	log := d.log.With("timer", c.Record.ID.String(), "seq", state.Seq, "attempt", state.Attempt, "reason", delivered.Reason)
	if next := c.Record.Timer.Interval - c.sinceDue(); outcome == store.OutcomeAgain && state.Seq < c.pops() && delay >= next {
		outcome, delay = store.OutcomeNext, 0 // a retry never runs past the next pop
	}
	if expires := c.Record.Timer.ExpiresAfter; outcome == store.OutcomeAgain && expires > 0 {
		delay = min(delay, max(expires-c.sinceDue(), 0)+time.Millisecond) // the fence then ends the pop
	}
	switch {
	case delivered.Verdict == VerdictGone:
		d.lines.ended.Log(log, "receiver wants no more of this timer; it is ended")
	case outcome == store.OutcomeAgain:
		log.Debug("callback failed", "again_in", delay)
	case state.Attempt < policy.Attempts && !delivered.Final:
		log.Debug("callback failed; the timer goes on with its next pop")
	default:
		return d.giveUp(c, state, delivered.Reason)
	}
	return store.Settlement{Outcome: outcome, Delay: delay, Reason: delivered.Reason}
}

// giveUp ends a pop that gets no further attempt: a one-shot timer goes to the dead letters, a
// recurring timer goes on.
func (d *Dispatcher) giveUp(c *claim, state timer.State, reason string) store.Settlement {
	outcome, _ := outcomeOf(Delivered{Final: true}, state.Seq, state.Attempt, c.pops(), timer.Retry{})
	message := "all attempts at a pop failed; the timer goes on with its next"
	switch outcome {
	case store.OutcomeDead:
		message = "all attempts failed; the timer goes to the dead letters"
	case store.OutcomeDone:
		message = "all attempts at the last pop failed; the timer is over"
	case store.OutcomeNext, store.OutcomeAgain, store.OutcomeLetter, store.OutcomeRelease:
	}
	d.lines.givenUp.Log(d.log, message, "timer", c.Record.ID.String(), "seq", state.Seq, "attempts", state.Attempt, "reason", reason)
	return store.Settlement{Outcome: outcome, Reason: reason}
}

// fenceContext ends with Context, and when the fence is over by the time since boot: timers stand
// still while a machine is suspended. Only a caller of Done pays for a timer.
type fenceContext struct {
	context.Context
	deadline  time.Time    // zero for a callback without a time limit, whose fence is renewed
	ends      atomic.Int64 // since boot, ns
	sinceBoot func() time.Duration

	mu     sync.Mutex
	timed  context.Context // Context with the deadline, once Done was asked for
	cancel context.CancelFunc
}

func (c *fenceContext) Deadline() (time.Time, bool) { return c.deadline, !c.deadline.IsZero() }

func (c *fenceContext) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.watch()
	return c.timed.Done()
}

// watch makes timed; c.mu is held.
func (c *fenceContext) watch() {
	switch {
	case c.timed != nil:
	case c.deadline.IsZero():
		c.timed, c.cancel = context.WithCancel(c.Context)
	default:
		c.timed, c.cancel = context.WithDeadline(c.Context, c.deadline)
	}
}

// end ends the context now.
func (c *fenceContext) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ends.Store(0)
	c.watch()
	c.cancel()
}

func (c *fenceContext) Err() error {
	if int64(c.sinceBoot()) >= c.ends.Load() {
		return context.DeadlineExceeded
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timed != nil {
		return c.timed.Err()
	}
	return c.Context.Err()
}

// Value lets the context package find timed, so that context.AfterFunc takes no goroutine.
func (c *fenceContext) Value(key any) any {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timed != nil {
		return c.timed.Value(key)
	}
	return c.Context.Value(key)
}

// release ends the timer, if any. Nobody may use c afterwards.
func (c *fenceContext) release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cancel != nil {
		c.cancel()
	}
}
