package dispatch

import (
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"chronos/scheduler/awake"
	"chronos/scheduler/store"
	"chronos/scheduler/timer"
	"chronos/scheduler/timing"
)

const (
	maxSettlements = 500
	settlePause    = 25 * time.Millisecond // before unanswered settlements are sent again
	maxSettleTries = 1200                  // with the pause and a silent shard's 1.4 s: half a minute to half an hour
)

// settleBatch writes outcomes to the other copies, then to the leased copies. An outcome for a
// shard with late answers doesn't delay the rest.
func (l *lane) settleBatch(ctx context.Context, batch []*claim) {
	l.settleWithin(ctx, l.hold(batch, l.held.settlements, (*claim).tells), timing.TellPatience)
}

func (l *lane) settleHeld(ctx context.Context, batch []*claim) {
	l.settleWithin(ctx, batch, timing.LateTellPatience)
}

// tells reports whether the other copies have to hear of the claim's outcome yet.
func (c *claim) tells() bool { return !c.told && c.settlement.Outcome != store.OutcomeRelease }

// settleWithin waits for the other copies as long as patience says.
func (l *lane) settleWithin(ctx context.Context, batch []*claim, patience time.Duration) {
	l.markAfar(ctx, batch)
	batch = l.writeLetters(ctx, batch)
	if l.d.shards.Several() {
		l.tell(ctx, batch, patience)
	}
	for c, answer := range l.settleAll(ctx, batch) {
		l.settled(ctx, c, answer)
	}
}

// writeLetters writes the dead letters of timers with other copies before these copies hear of the
// end. writeLetters returns the claims that may go on.
func (l *lane) writeLetters(ctx context.Context, batch []*claim) []*claim {
	isLetter := func(c *claim) bool { return c.settlement.Outcome == store.OutcomeDead && len(c.others) > 0 }
	if !slices.ContainsFunc(batch, isLetter) {
		return batch
	}
	var letters, rest []*claim
	for _, c := range batch {
		if isLetter(c) {
			c.settlement.Outcome = store.OutcomeLetter
			letters = append(letters, c)
		} else {
			rest = append(rest, c)
		}
	}
	for c, answer := range l.settleAll(ctx, letters) {
		if !answer.Accepted {
			l.settled(ctx, c, answer)
			continue
		}
		l.d.metrics.countSettled(store.OutcomeDead)
		c.settlement.Outcome, c.tries = store.OutcomeDone, 0
		rest = append(rest, c)
	}
	return rest
}

// settleAll yields the shard's answers; an unanswered settlement is sent again later.
func (l *lane) settleAll(ctx context.Context, batch []*claim) iter.Seq2[*claim, store.Settled] {
	return func(yield func(*claim, store.Settled) bool) {
		if len(batch) == 0 {
			return
		}
		settlements := make([]store.Settlement, len(batch))
		for i, c := range batch {
			settlements[i] = c.settlement
			c.tries++
		}
		began, sent := l.shard.Answers.Begin(), time.Now()
		answers := l.d.store.Settle(ctx, l.shard.Name, settlements)
		l.shard.Answers.Heard(began, answers[0].Err)
		var unanswered []*claim
		var why error
		for i, c := range batch {
			if answers[i].Err != nil && errors.Is(answers[i].Err, timer.ErrUnavailable) && c.tries < maxSettleTries {
				if c.settlement.Outcome == store.OutcomeLetter {
					c.settlement.Outcome = store.OutcomeDead
				}
				unanswered, why = append(unanswered, c), answers[i].Err
				continue
			}
			c.settled = sent
			if !yield(c, answers[i]) {
				return
			}
		}
		if len(unanswered) > 0 {
			l.shard.Log.Debug("outcomes were not answered", "count", len(unanswered), "err", why)
			awake.Sleep(ctx, settlePause)
			l.settlements.Put(unanswered...)
		}
	}
}

// settled ends a claim whose settlement was answered.
func (l *lane) settled(ctx context.Context, c *claim, answer store.Settled) {
	defer c.done()
	o := c.settlement
	switch {
	case answer.Err != nil:
		l.d.lines.unsettled.Log(l.shard.Log, "outcome could not be settled; the timer fires again when its lease ends",
			"timer", c.Record.ID.String(), "outcome", o.Outcome.String(), "err", answer.Err)
	case answer.Accepted:
		l.d.metrics.countSettled(o.Outcome)
		c.tellAfar()
		// A node that may not know where copies belong makes no copies: a copy in a wrong place
		// hears of no end.
		if l.d.store.Writable() == nil && c.restore(ctx) && len(o.Untold) == 0 {
			c.leave(ctx)
		}
		l.pokeNext(c)
	case answer.Holder != "" && answer.Holder != l.d.config.Node:
		l.d.metrics.lost.Inc()
		l.d.lines.overtaken.Log(l.shard.Log, l.d.nameOf(&c.Record)+" was taken over by another node before this one had settled it",
			"timer", c.Record.ID.String(), "holder", answer.Holder, "outcome", o.Outcome.String())
	}
}

// pokeNext makes sure of a poll in time for a timer that comes due again soon.
func (l *lane) pokeNext(c *claim) {
	switch o := c.settlement; o.Outcome {
	case store.OutcomeNext:
		next := c.Record.Timer.Interval - c.sinceDue()
		l.shard.PokeIfSoon(c.Lease.Partition, next)
	case store.OutcomeAgain:
		l.shard.PokeIfSoon(c.Lease.Partition, o.Delay+o.Offset)
	case store.OutcomeRelease:
		if o.Delay > 0 {
			l.shard.PokeIfSoon(c.Lease.Partition, o.Delay)
		}
	case store.OutcomeDone, store.OutcomeDead, store.OutcomeLetter:
	}
}
