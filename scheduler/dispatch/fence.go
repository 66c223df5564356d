package dispatch

import (
	"context"
	"time"

	"chronos/scheduler/awake"
	"chronos/scheduler/store"
	"chronos/scheduler/timer"
	"chronos/scheduler/timing"
)

const fencePause = 25 * time.Millisecond // before an unanswered fence is sent again

// turnAt puts a claim into the wheel, or back to the shard if the wheel has stopped.
func (d *Dispatcher) turnAt(at time.Time, c *claim) {
	if !d.wheel.Add(at, turn{claim: c}) {
		c.settle(store.Settlement{Outcome: store.OutcomeRelease})
	}
}

// expire takes due items of the wheel: a claim that comes due, and that its destination's rate and
// pause admit, asks for a slot. A claim that waited for a slot in vain goes back to the shard.
func (d *Dispatcher) expire(due []turn) {
	rules := d.config.Destinations.Rules()
	for _, t := range due {
		switch c := t.claim; {
		case t.endsWait > 0:
			d.endWait(t)
		case rules == nil && !c.hasTurn && c.most == 0:
			d.takeSlot(c)
		case d.admit(rules, c):
			d.takeSlot(c)
		}
	}
}

// takeSlot asks for a slot for c.
func (d *Dispatcher) takeSlot(c *claim) {
	switch answer, delay := d.slots.take(c); answer {
	case slotGranted:
		c.lane.fences.Put(c)
	case slotRefused:
		d.noSlot(c, delay)
	case slotWaiting:
		c.lane.credit.ToReceiver(c.weight)
		end, until := turn{claim: c, endsWait: c.waits}, c.patience
		if until.IsZero() {
			until = time.Now().Add(timing.SlotWait)
		}
		if !d.wheel.Add(until, end) {
			d.endWait(end)
		}
	}
}

func (d *Dispatcher) endWait(t turn) {
	if waited, delay := d.slots.abandon(t); waited {
		t.claim.lane.credit.FromReceiver(t.claim.weight)
		d.noSlot(t.claim, delay)
	}
}

// noSlot puts a claim back that has got no slot.
func (d *Dispatcher) noSlot(c *claim, delay time.Duration) {
	d.gate.refund(c)
	if c.limited {
		d.metrics.heldLimit.Inc()
	}
	c.settle(store.Settlement{Outcome: store.OutcomeRelease, Delay: delay})
}

// freeSlot gives c's slot back, and c's turn unless the turn is used up. The claim that gets the slot
// goes on to the fence.
func (d *Dispatcher) freeSlot(c *claim) {
	if c.hasTurn {
		d.gate.refund(c)
	}
	if next := d.slots.free(c); next != nil {
		next.lane.credit.FromReceiver(next.weight)
		next.lane.fences.Put(next)
	}
}

// putBack lets the timer come due again after delay, with nothing sent.
func (d *Dispatcher) putBack(c *claim, delay time.Duration) {
	d.freeSlot(c)
	c.settle(store.Settlement{Outcome: store.OutcomeRelease, Delay: delay})
}

// fence asks the other copies, and then the shard, for leave to call back. Claims that have to ask
// a shard with late answers don't delay the rest.
func (l *lane) fence(ctx context.Context, batch []*claim) {
	batch = l.hold(batch, l.held.fences, func(c *claim) bool { return c.began == 0 })
	l.fenceWithin(ctx, batch, timing.PromptAnswer)
}

func (l *lane) fenceHeld(ctx context.Context, batch []*claim) {
	l.fenceWithin(ctx, batch, timing.LateAskPatience)
}

// fenceWithin waits for the other copies as long as patience says.
func (l *lane) fenceWithin(ctx context.Context, batch []*claim, patience time.Duration) {
	d := l.d
	if d.shards.Several() {
		batch = l.ask(ctx, batch, patience)
	}
	now := d.config.SinceBoot()
	fences := make([]store.Fence, 0, len(batch))
	live := make([]*claim, 0, len(batch))
	for _, c := range batch {
		if c.began == 0 {
			if !c.inTouch() {
				d.putBack(c, 0)
				continue
			}
			if c.PreviousFired && c.Record.State.Attempt >= max(c.policy().Attempts, d.config.Attempts) {
				// Fences passed and nothing was settled: the callback may be the reason why nodes
				// end. An attempt that was given back was never sent, and is not the last. Nor is
				// an attempt of which nobody knows, if the timer asks for few.
				d.freeSlot(c)
				c.settle(d.giveUp(c, c.Record.State, "no attempt at it was ever settled"))
				continue
			}
			c.began = now
		}
		sending := d.config.Sending(c.renews())
		if age := now - c.began; age < sending {
			age += d.config.Limit - sending // the shard lets no callback begin later, either
			fences, live = append(fences, c.fence(age)), append(live, c)
			continue
		}
		// Whether the fence passed is unknown, but nothing was sent and nothing will be.
		d.putBack(c, 0)
	}
	if len(live) == 0 {
		return
	}
	began := l.shard.Answers.Begin()
	answers := d.store.Fire(ctx, l.shard.Name, d.config.Terms(), fences)
	answered := time.Now()
	l.shard.Answers.Heard(began, answers[0].Err)
	var unanswered, late []*claim
	for i, c := range live {
		c.fenced, c.answered = answers[i], answered
		if answers[i].Status == store.FenceFailed {
			unanswered = append(unanswered, c)
			continue
		}
		if answers[i].Status == store.FencePassed && c.outdated() {
			late = append(late, c)
			continue
		}
		d.afterFence(ctx, c)
	}
	l.askAgain(ctx, late)
	if len(unanswered) > 0 {
		l.shard.Log.Debug("fences were not answered", "count", len(unanswered), "err", unanswered[0].fenced.Err)
		awake.Sleep(ctx, fencePause)
		l.fences.Put(unanswered...)
	}
}

// fence is the fence of the claim's pop, first asked for so long ago.
func (c *claim) fence(age time.Duration) store.Fence {
	return store.Fence{Lease: c.Lease, Pops: c.pops(), Age: age, ExpiresAfter: c.Record.Timer.ExpiresAfter}
}

// expired ends a pop that may be attempted no longer: a one-shot timer goes to the dead letters, a
// recurring timer goes on.
func (d *Dispatcher) expired(c *claim) store.Settlement {
	const reason = "expired"
	state := c.fenced.State
	d.noteLeftOut(c)
	d.metrics.expired.Inc()
	outcome, _ := outcomeOf(Delivered{Final: true}, state.Seq, state.Attempt, c.pops(), timer.Retry{})
	d.lines.expired.Log(d.log, expiredLine, "timer", c.Record.ID.String(), "seq", state.Seq, "attempts", state.Attempt, "late", c.fenced.Late)
	return store.Settlement{Outcome: outcome, Reason: reason, Attempt: d.attempt(c, c.fenced.Late, &Delivered{Reason: reason})}
}

// noteLeftOut counts the pops that the fence has left out before its pop.
func (d *Dispatcher) noteLeftOut(c *claim) {
	left, now := c.fenced.LeftOut-c.Record.LeftOut, c.fenced.State.Seq
	if left <= 0 {
		return
	}
	d.metrics.leftOut.Add(float64(left))
	d.lines.leftOut.Log(d.log, leftOutLine, "timer", c.Record.ID.String(), "from", now-left, "to", now-1, "interval", c.Record.Timer.Interval)
}

// outdated reports whether the answers of the other copies are old by now.
func (c *claim) outdated() bool {
	return len(c.others) > 0 && c.lane.d.config.SinceBoot()-c.asked >= timing.AnswerLife
}

// askAgain asks the other copies once more before callbacks whose fence was answered late: another
// node may have called back meanwhile. Nobody waits for a shard that gives no answer at once,
// since the shard answered the question before the fence.
func (l *lane) askAgain(ctx context.Context, batch []*claim) {
	if len(batch) == 0 {
		return
	}
	for _, c := range batch {
		c.other = otherCopy{}
	}
	l.question(ctx, questionsOf(batch), timing.PromptAnswer)
	for _, c := range batch {
		if c.other.newer != nil || c.other.wait > 0 {
			l.d.putBack(c, max(c.other.wait, hesitation))
			continue
		}
		l.d.afterFence(ctx, c)
	}
}

func (d *Dispatcher) afterFence(ctx context.Context, c *claim) {
	switch c.fenced.Status {
	case store.FencePassed:
		d.noteLeftOut(c)
		d.startFire(ctx, c)
	case store.FenceEarly:
		d.freeSlot(c)
		c.began = 0
		d.turnAt(c.answered.Add(c.fenced.Wait), c)
	case store.FenceLost:
		// A client's write ended the lease, or another node took over the timer in time.
		if c.fenced.Free {
			c.lane.shard.PokeIfSoon(c.Lease.Partition, 0) // a PATCH leaves the timer due
		}
		d.freeSlot(c)
		c.done()
	case store.FenceExpired:
		d.freeSlot(c)
		c.settle(d.expired(c))
	case store.FenceTooLate, store.FenceFailed:
		d.putBack(c, 0)
	}
}
