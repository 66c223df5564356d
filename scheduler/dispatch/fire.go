package dispatch

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"chronos/scheduler/store"
	"chronos/scheduler/timer"
)

// maxIdleWorkers is how many goroutines wait for further callbacks: their stacks
// have grown already.
const maxIdleWorkers = 512

// shot is a callback to be made until ctx ends, which is that of the claim's own shard:
// a worker outlives the shards whose callbacks it made.
type shot struct {
	ctx   context.Context
	claim *claim // nil for none
}

// startFire has an idle worker fire c, or a new one.
func (d *Dispatcher) startFire(ctx context.Context, c *claim) {
	select {
	case d.handed <- shot{ctx, c}:
	default:
		d.firing.Go(func() { d.fireEach(shot{ctx, c}) })
	}
}

// fireEach fires what it is handed, until enough others are idle, or its first shard is
// gone or the engine stops.
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

// fire makes the callback that the fence has allowed, and settles it.
func (d *Dispatcher) fire(ctx context.Context, c *claim) {
	began := c.began
	if c.asked != 0 {
		began = min(began, c.asked) // what the others said is as old as that
	}
	since := d.config.SinceBoot() - began
	if since >= d.config.Sending() {
		// The fence was counted as an attempt, but nothing was sent.
		d.putBack(c, 0)
		return
	}
	bounded := &fenceContext{Context: ctx, sinceBoot: d.config.SinceBoot}
	bounded.ends.Store(int64(began + d.config.Limit))
	defer bounded.release()
	endRenewal := func() {}
	if d.config.Renew {
		endRenewal = c.lane.renewals.keep(c, bounded)
	} else {
		bounded.deadline = time.Now().Add(d.config.Limit - since)
	}
	d.metrics.inFlight.Inc()
	if c.fenced.State.Attempt == 1 {
		d.metrics.lateness.Observe(d.lateness(c).Seconds())
	}
	delivered := d.deliverer.Deliver(bounded, Delivery{
		Callback: c.Record.Timer.Callback, ID: c.Record.ID, Version: c.fenced.State.Version,
		Seq: c.fenced.State.Seq, Attempt: c.fenced.State.Attempt, Due: c.fenced.Due, Late: c.sinceDue(),
		LeftOut: c.fenced.LeftOut,
	})
	endRenewal() // before it is settled: a lease that is settled would be taken for lost
	d.metrics.inFlight.Dec()
	d.freeSlot(c)
	d.metrics.countFired(delivered.Verdict)
	c.settle(d.outcome(c, delivered))
}

// lateness is how long after its due time a pop is sent; after it was asked for,
// if that was later.
func (d *Dispatcher) lateness(c *claim) time.Duration {
	if asked := c.fenced.State.Version.Time(); c.fenced.Due.Before(asked) {
		return max(d.shards.Clock().Sub(asked), 0)
	}
	return c.sinceDue()
}

// outcome is what an attempt means for the timer.
func (d *Dispatcher) outcome(c *claim, delivered Delivered) store.Settlement {
	state := c.fenced.State
	outcome, delay := outcomeOf(delivered, state.Seq, state.Attempt, c.pops(), d.config.Attempts)
	if delivered.Verdict == VerdictDelivered {
		return store.Settlement{Outcome: outcome, Delay: delay, Reason: delivered.Reason}
	}
	log := d.log.With("timer", c.Record.ID.String(), "seq", state.Seq, "attempt", state.Attempt, "reason", delivered.Reason)
	if next := c.Record.Timer.Interval - c.sinceDue(); outcome == store.OutcomeAgain && state.Seq < c.pops() && delay >= next {
		outcome, delay = store.OutcomeNext, 0 // a retry never runs past the next pop
	}
	switch {
	case delivered.Verdict == VerdictGone:
		d.lines.ended.Log(log, "receiver wants no more of this timer; it is ended")
	case outcome == store.OutcomeAgain:
		log.Debug("callback failed", "again_in", delay)
	case state.Attempt < d.config.Attempts && !delivered.Final:
		log.Debug("callback failed; the timer goes on with its next pop")
	default:
		return d.giveUp(c, state, delivered.Reason)
	}
	return store.Settlement{Outcome: outcome, Delay: delay, Reason: delivered.Reason}
}

// giveUp ends a pop whose attempts are used up: a one-shot timer goes to the
// dead letters, a recurring one goes on.
func (d *Dispatcher) giveUp(c *claim, state timer.State, reason string) store.Settlement {
	outcome, _ := outcomeOf(Delivered{}, state.Seq, d.config.Attempts, c.pops(), d.config.Attempts)
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

// fenceContext ends when its Context does, and when the time since boot says
// that the fence is over: while a machine is suspended, timers stand still. Only
// who asks for its Done pays for a timer.
type fenceContext struct {
	context.Context
	deadline  time.Time    // zero if the fence is renewed
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

// end ends it now.
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

// Value finds what context.AfterFunc looks for, so that watching takes no
// goroutine.
func (c *fenceContext) Value(key any) any {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timed != nil {
		return c.timed.Value(key)
	}
	return c.Context.Value(key)
}

// release ends the timer, if there is one. Nobody may use c any more.
func (c *fenceContext) release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cancel != nil {
		c.cancel()
	}
}
