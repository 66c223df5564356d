package scheduler

import (
	"context"
	"errors"
	"time"
)

// hesitation is how long before a copy is looked at again when a better one's
// shard was slow to answer.
const hesitation = 250 * time.Millisecond

// contend takes for each claim the best copy that can be claimed (rule P3): the
// right to fire is the lease on that one. Leases are sought only upwards, so
// nobody waits in a circle.
func (sh *shard) contend(ctx context.Context, batch []*claim) {
	at := make([]int, len(batch)) // into each claim's others
	for len(batch) > 0 {
		by := make(map[*shard][]int)
		for i, c := range batch {
			for at[i] < len(c.others) && !c.better(c.others[at[i]]) {
				at[i]++
			}
			if at[i] == len(c.others) {
				sh.fireOwn(c)
				continue
			}
			better := c.others[at[i]].shard
			by[better] = append(by[better], i)
		}
		var still []*claim
		var stillAt []int
		for better, indexes := range by {
			for k, taken := range sh.takeFrom(ctx, better, batch, indexes) {
				i := indexes[k]
				if sh.contended(ctx, batch[i], better, taken) {
					still, stillAt = append(still, batch[i]), append(stillAt, at[i]+1)
				}
			}
		}
		batch, at = still, stillAt
	}
}

// takeFrom takes the copies of some of the batch from another shard.
func (sh *shard) takeFrom(ctx context.Context, from *shard, batch []*claim, indexes []int) []Taken {
	if from.silence.lasts() {
		answers := make([]Taken, len(indexes))
		for k := range answers {
			answers[k].Err = ErrRefused
		}
		return answers
	}
	keys := make([]string, len(indexes))
	for k, i := range indexes {
		keys[k] = batch[i].Lease.Key
	}
	began := from.silence.now()
	answers := sh.s.store.Take(ctx, from.name, sh.s.config.Grace, keys)
	from.silence.heard(began, answers[0].Err)
	return answers
}

// contended takes the answer to an attempt at a better copy, and reports whether
// the next best should be tried.
func (sh *shard) contended(ctx context.Context, c *claim, better *shard, taken Taken) (goOn bool) {
	switch taken.Status {
	case TakeGot:
		next := newClaim(better, &taken.Claimed)
		next.contended = true
		better.credit.take(next.weight)
		c.settle(Settlement{Outcome: OutcomeRelease, Delay: c.skew()})
		better.accept(next, time.Now())
		return false
	case TakeLeased, TakeWaiting:
		c.settle(Settlement{Outcome: OutcomeRelease, Delay: taken.Wait + c.skew()})
		return false
	case TakeEnded:
		sh.adopt(ctx, c, better)
		return false
	case TakeMissing:
		return true
	case TakeFailed:
	}
	if errors.Is(taken.Err, ErrRefused) || better.silence.lasts() {
		return true
	}
	c.settle(Settlement{Outcome: OutcomeRelease, Delay: hesitation})
	return false
}

// fireOwn goes on with the claim itself: there is no better copy.
func (sh *shard) fireOwn(c *claim) {
	c.contended = true
	sh.s.turnIn(time.Now(), c)
}
