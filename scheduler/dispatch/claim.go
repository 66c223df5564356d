package dispatch

import (
	"time"

	"chronos/scheduler/shard"
	"chronos/scheduler/store"
	"chronos/scheduler/timer"
	"chronos/scheduler/timing"
)

// claim is a leased timer on its way through this node: wheel, slot, fence,
// delivery, settlement. It belongs to one of these at a time.
type claim struct {
	store.Claimed
	lane        *lane
	look        time.Time     // when the copy was to be looked at, by this node's clock
	own         shard.Place   // its copy's
	others      []shard.Place // where else copies of its timer may be, in rank order
	located     int64         // in which epoch that was so
	destination string

	weight  int  // in credit
	waiting bool // for a slot; guarded by slots
	waits   int  // for one so far; changed only in take

	other    otherCopy     // what the other copies say
	asked    time.Duration // since boot, when the other copies were last asked; 0 if there are none
	began    time.Duration // since boot, when the fence was first asked for; 0 before
	fenced   store.Fenced  // the fence's answer
	answered time.Time     // when it came

	settlement store.Settlement
	buried     bool          // an end leaves a tombstone, since writes may still arrive (rule "a young end leaves a tombstone")
	tries      int           // to settle
	settled    time.Time     // when the settlement that was answered was sent
	told       bool          // the others of the outcome
	lacking    []shard.Place // copies that were missing then, or too old
	strays     []shard.Place // copies that were told, and belong elsewhere
}

// turn is what the wheel holds: a claim that comes due, or the end of its n-th
// wait for a slot.
type turn struct {
	claim    *claim
	endsWait int // n; 0 if the claim comes due
}

func (c *claim) pops() int { return c.Record.Timer.Pops() }

// settle hands the claim to the loop that writes its outcome.
func (c *claim) settle(o store.Settlement) {
	o.Lease = c.Lease
	c.settlement = o
	c.fit()
	c.lane.settlements.Put(c)
}

// fit has the settlement be one for the copy's place. What a tombstone remembers has had
// its time when that is claimed.
func (c *claim) fit() {
	c.settlement.Offset = c.own.Offset(c.skew())
	if c.Record.State.Ended || !c.after().Ended {
		return
	}
	config := c.lane.d.config
	c.buried = c.pops() > 1 || c.lane.d.shards.Clock().Sub(c.Record.State.Version.Time()) < timing.YoungFor
	switch {
	case c.Record.BodyHash != "":
		c.settlement.Keep = c.own.Tombstone(config, c.Record.State, c.Record.BodyHash).Keep
	case c.buried:
		c.settlement.Keep = min(config.TombLife, timing.YoungLife)
	}
}

// locate finds out where the other copies of the timer may be.
func (c *claim) locate() {
	d, id := c.lane.d, &c.Record.ID
	c.own, c.others = shard.Place{Shard: c.lane.shard, Rank: c.Record.Rank}, nil
	c.located, _ = d.store.Epoch(c.lane.shard.Name)
	if !d.shards.Several() {
		c.own.Home, id.Hint = true, c.lane.shard.Mask
		return
	}
	all := d.shards.Places(timer.ID{Key: id.Key, RF: id.RF})
	for _, a := range c.Record.Away { // those that have not heard of an end
		all = shard.WithPlace(all, shard.Place{Shard: d.shards.Shard(a.Shard), Rank: a.Rank})
	}
	id.Hint = c.lane.shard.Mask
	others := all[:0]
	for _, p := range all {
		if p.Shard == c.lane.shard {
			c.own = p
			continue
		}
		id.Hint |= p.Shard.Mask
		others = append(others, p)
	}
	c.others = others
}

// relocate finds that out again if the shards have changed since.
func (c *claim) relocate() {
	if epoch, _ := c.lane.d.store.Epoch(c.lane.shard.Name); epoch == c.located {
		return
	}
	c.locate()
	c.fit()
}

// better reports whether c's own copy leaves a pop to the copy at p (rule "yield to the
// better copy"): at equal rank the copy on an owner is better.
func (c *claim) better(p shard.Place) bool {
	return p.Rank < c.own.Rank || p.Rank == c.own.Rank && p.Home && !c.own.Home
}

func (c *claim) skew() time.Duration {
	return c.lane.d.config.Skew.Of(c.Record.Timer.Interval, c.Record.ID.RF)
}

// sinceDue is how long ago the fenced pop was due, by its shard's clock.
func (c *claim) sinceDue() time.Duration { return c.fenced.Late + time.Since(c.answered) }

// due is when the pop came due, by this node's clock.
func (c *claim) due() time.Time {
	r := &c.Record
	return c.at(r.Start.Add(time.Duration(r.State.Seq) * r.Timer.Interval).UnixMilli())
}

// retryDue is when a retry of the pop came due at the latest; the zero time if there is none.
func (c *claim) retryDue() time.Time {
	if r := &c.Record; r.State.Attempt > 0 && r.Failure.Node != "" {
		return c.at(r.Failure.At.Add(longestBackoff(r.State.Attempt)).UnixMilli())
	}
	return time.Time{}
}

// overdue is for how long the pop, or its retry, has been due.
func (c *claim) overdue() time.Duration { return min(time.Since(c.due()), time.Since(c.retryDue())) }

// at is an instant of the shard's clock, in ms, by this node's clock.
func (c *claim) at(ms int64) time.Time {
	return c.look.Add(time.Duration(ms-c.Lease.Found.ScoreMs) * time.Millisecond)
}

// done ends the claim's way: its credit is free again.
func (c *claim) done() { c.lane.credit.Give(c.weight) }
