package scheduler

import (
	"context"
	"errors"
	"time"
)

const (
	maxSettlements = 500
	settlePause    = 25 * time.Millisecond // before unanswered settlements are sent again
	maxSettleTries = 1200                  // with the pause and a silent shard's 0.5 s: half a minute to ten
)

// settleBatch writes outcomes to the shard.
func (sh *shard) settleBatch(ctx context.Context, batch []*claim) {
	settlements := make([]Settlement, len(batch))
	for i, c := range batch {
		settlements[i] = c.settlement
		c.tries++
	}
	answers := sh.s.store.Settle(ctx, sh.name, settlements)
	var unanswered []*claim
	var why error
	for i, c := range batch {
		if answers[i].Err != nil && errors.Is(answers[i].Err, ErrUnavailable) && c.tries < maxSettleTries {
			unanswered, why = append(unanswered, c), answers[i].Err
			continue
		}
		sh.settled(c, answers[i])
	}
	if len(unanswered) > 0 {
		sh.log.Debug("outcomes were not answered", "count", len(unanswered), "err", why)
		sleep(ctx, settlePause)
		sh.settlements.put(unanswered...)
	}
}

// settled ends a claim whose outcome was answered.
func (sh *shard) settled(c *claim, answer Settled) {
	defer c.done()
	o := c.settlement
	switch {
	case answer.Err != nil:
		sh.log.Error("outcome could not be settled; the timer fires again when its lease ends",
			"timer", c.Record.ID.String(), "outcome", o.Outcome.String(), "err", answer.Err)
	case answer.Accepted:
		sh.s.metrics.countSettled(o.Outcome)
		sh.pokeNext(c)
	case answer.Holder != "" && answer.Holder != sh.s.config.Node:
		sh.s.metrics.lost.Inc()
		sh.log.Warn("timer was taken over by another node before this one had settled it",
			"timer", c.Record.ID.String(), "holder", answer.Holder, "outcome", o.Outcome.String())
	}
}

// pokeNext has a timer that comes due again soon claimed in time.
func (sh *shard) pokeNext(c *claim) {
	switch o := c.settlement; o.Outcome {
	case OutcomeNext:
		next := c.Record.Timer.Interval - c.fenced.Late - time.Since(c.answered)
		sh.s.poke(sh.name, c.Lease.Partition, next)
	case OutcomeAgain, OutcomeRelease:
		if o.Delay > 0 {
			sh.s.poke(sh.name, c.Lease.Partition, o.Delay)
		}
	case OutcomeDone, OutcomeDead:
	}
}
