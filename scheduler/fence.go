package scheduler

import (
	"context"
	"time"
)

const fencePause = 25 * time.Millisecond // before an unanswered fence is sent again

// turnAt puts a claim into the wheel; once that has stopped, the claim goes back
// to its shard.
func (s *Scheduler) turnAt(at time.Time, c *claim) {
	if !s.wheel.Add(at, turn{claim: c}) {
		c.settle(Settlement{Outcome: OutcomeRelease})
	}
}

// expire takes what comes out of the wheel: what is due asks for a slot, what
// waited for one in vain goes back to its shard.
func (s *Scheduler) expire(due []turn) {
	for _, t := range due {
		c := t.claim
		if t.endsWait > 0 {
			s.endWait(t)
			continue
		}
		if c.yields() {
			c.shard.contenders.put(c)
			continue
		}
		switch answer, delay := s.slots.take(c); answer {
		case slotGranted:
			c.shard.fences.put(c)
		case slotRefused:
			c.settle(Settlement{Outcome: OutcomeRelease, Delay: delay})
		case slotWaiting:
			end := turn{claim: c, endsWait: c.waits}
			if !s.wheel.Add(time.Now().Add(slotWait), end) {
				s.endWait(end)
			}
		}
	}
}

func (s *Scheduler) endWait(t turn) {
	if waited, delay := s.slots.abandon(t); waited {
		t.claim.settle(Settlement{Outcome: OutcomeRelease, Delay: delay})
	}
}

// freeSlot gives c's slot back; who waited for it goes on to its fence.
func (s *Scheduler) freeSlot(c *claim) {
	if next := s.slots.free(c); next != nil {
		next.shard.fences.put(next)
	}
}

// fence asks the other copies, and then the shard, for leave to call back.
func (sh *shard) fence(ctx context.Context, batch []*claim) {
	s := sh.s
	if s.several() {
		batch = sh.ask(ctx, batch)
	}
	now := s.config.SinceBoot()
	fences := make([]Fence, 0, len(batch))
	live := make([]*claim, 0, len(batch))
	for _, c := range batch {
		if c.began == 0 {
			c.began = now
		}
		if age := now - c.began; age < s.config.sending() {
			age += s.config.Limit - s.config.sending() // the shard lets nobody begin later than that either
			fences, live = append(fences, Fence{Lease: c.Lease, Pops: c.pops(), Age: age}), append(live, c)
			continue
		}
		// Whether the fence passed is unknown, but nothing was sent and nothing will be.
		s.freeSlot(c)
		c.settle(Settlement{Outcome: OutcomeRelease})
	}
	if len(live) == 0 {
		return
	}
	began := sh.silence.now()
	answers := s.store.Fire(ctx, sh.name, s.config.terms(), fences)
	answered := time.Now()
	sh.silence.heard(began, answers[0].Err)
	var unanswered []*claim
	for i, c := range live {
		c.fenced, c.answered = answers[i], answered
		if answers[i].Status == FenceFailed {
			unanswered = append(unanswered, c)
			continue
		}
		s.afterFence(ctx, c)
	}
	if len(unanswered) > 0 {
		sh.log.Debug("fences were not answered", "count", len(unanswered), "err", unanswered[0].fenced.Err)
		sleep(ctx, fencePause)
		sh.fences.put(unanswered...)
	}
}

// noteLeftOut counts the pops that the fence has passed over and nobody called.
func (s *Scheduler) noteLeftOut(c *claim) {
	found, now := c.Record.State, c.fenced.State.Seq
	first := found.Seq
	if found.Attempt > 0 {
		first++ // a callback for the pop was started
	}
	if now <= first {
		return
	}
	s.metrics.leftOut.Add(float64(now - first))
	s.lines.leftOut.Log(s.log, leftOutLine, "timer", c.Record.ID.String(), "from", first, "to", now-1, "interval", c.Record.Timer.Interval)
}

func (s *Scheduler) afterFence(ctx context.Context, c *claim) {
	switch c.fenced.Status {
	case FencePassed:
		s.noteLeftOut(c)
		s.startFire(ctx, c)
	case FenceEarly:
		s.freeSlot(c)
		c.began = 0
		s.turnAt(c.answered.Add(c.fenced.Wait), c)
	case FenceLost:
		// A client's write ended the lease, or another node took it over in time.
		s.freeSlot(c)
		c.done()
	case FenceTooLate, FenceFailed:
		s.freeSlot(c)
		c.settle(Settlement{Outcome: OutcomeRelease})
	}
}
