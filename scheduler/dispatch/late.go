package dispatch

import (
	"slices"
	"time"

	"chronos/scheduler/flow"
	"chronos/scheduler/shard"
	"chronos/scheduler/timing"
)

// putOff is how long a claim on a slow shard waits for the other copies, until all have come due.
// putOff is 0 if no other copy can fire, or if the claim has waited.
func (c *claim) putOff() time.Duration {
	if c.lane.shard.Reach() < shard.Late {
		return 0
	}
	last := -1
	for _, p := range c.others {
		if p.Home && !p.Shard.Away() {
			last = max(last, p.Rank)
		}
	}
	if last < 0 {
		return 0
	}
	return max(time.Until(c.due())+time.Duration(last)*c.skew()+timing.LateMargin, 0)
}

// hold moves claims that wait for a shard with late answers to the queue held, and returns the
// rest. The queue has more loops, so that few batches wait for the answer to another batch. If the
// claims' own shard answers late, hold moves all claims for which waits is true.
func (l *lane) hold(batch []*claim, held *flow.Queue[*claim], waits func(c *claim) bool) []*claim {
	late, own := false, l.shard.Answers.Tardy.Load()
	for _, other := range l.d.shards.All() {
		late = late || other.Answers.Tardy.Load()
	}
	if !late {
		return batch
	}
	var prompt, rest []*claim
	for _, c := range batch {
		if waits(c) && (own || slices.ContainsFunc(c.others, func(p shard.Place) bool { return p.Shard.Answers.Tardy.Load() && !p.Shard.Away() })) {
			rest = append(rest, c)
		} else {
			prompt = append(prompt, c)
		}
	}
	held.Put(rest...)
	return prompt
}
