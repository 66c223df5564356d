package scheduler

import (
	"slices"
	"time"
)

// slow reports whether the shard answers late, so that timers with another copy fire from the
// other copy (rule "do without silent shards"). Where most shards are late, none is slow:
// then the node, or all of the network, is slow.
func (sh *shard) slow() bool { return sh.slowFor() > 0 }

// slowFor is for how long that has been so.
func (sh *shard) slowFor() time.Duration {
	since := sh.silence.slowFor()
	if since == 0 {
		return 0
	}
	quick, all := 0, sh.s.shards.load()
	for _, other := range all {
		if other.silence.slowFor() == 0 && !other.silence.lasts() {
			quick++
		}
	}
	if 2*quick < len(all) {
		return 0
	}
	return since
}

// tooSlow reports whether nobody asks the shard any more: every callback has ended that
// began there before the shard was slow.
func (sh *shard) tooSlow() bool { return sh.slowFor() >= sh.s.config.sending() }

// lateMargin is how long what fires elsewhere has to tell of it.
const lateMargin = time.Second

// putOff is how long a claim on a slow shard waits for the other copies: until all of
// them came due. putOff is 0 if no other copy can fire, or if the claim has waited.
func (c *claim) putOff() time.Duration {
	if !c.shard.slow() {
		return 0
	}
	last := -1
	for _, p := range c.others {
		if p.home && !p.shard.away() {
			last = max(last, p.rank)
		}
	}
	if last < 0 {
		return 0
	}
	found := &c.Lease.Found
	overdue := time.Duration(found.ScoreMs-found.StartMs-found.IntervalMs*int64(found.State.Seq)) * time.Millisecond
	return max(c.DueIn-overdue+time.Duration(last)*c.skew()+lateMargin, 0)
}

// hold moves claims to another queue if they wait for a shard that answers late, and
// returns the other claims. That queue has more loops, so that few batches have to wait for
// an answer to another batch: where their own shard answers late, all wait.
func (sh *shard) hold(batch []*claim, held *queue[*claim], waits func(c *claim) bool) []*claim {
	late, own := false, sh.silence.tardy.Load()
	for _, other := range sh.s.shards.load() {
		late = late || other.silence.tardy.Load()
	}
	if !late {
		return batch
	}
	var prompt, rest []*claim
	for _, c := range batch {
		if waits(c) && (own || slices.ContainsFunc(c.others, func(p place) bool { return p.shard.silence.tardy.Load() && !p.shard.away() })) {
			rest = append(rest, c)
		} else {
			prompt = append(prompt, c)
		}
	}
	held.put(rest...)
	return prompt
}
