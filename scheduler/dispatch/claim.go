package dispatch

import (
	"cmp"
	"time"

	"chronos/scheduler/shard"
	"chronos/scheduler/store"
	"chronos/scheduler/timer"
	"chronos/scheduler/timing"
)

// claim is a leased timer on the way through this node's stations: wheel, slot, fence, delivery,
// settlement. A claim belongs to one station at a time.
type claim struct {
	store.Claimed
	lane        *lane
	look        time.Time     // when the copy was to be looked at, by this node's clock
	own         shard.Place   // of the leased copy
	others      []shard.Place // where other copies of the timer may be, in rank order
	located     int64         // the epoch of own and others
	destination string

	weight  int  // in credit
	waiting bool // for a slot; guarded by slots
	waits   int  // number of waits for a slot so far; changed only in take

	most       int       // callbacks of the destination under way at a time; 0 for no bound
	limited    bool      // most was the reason why no slot was free; guarded by slots
	hasTurn    bool      // of the destination's rate
	awaitsTurn bool      // in the wheel
	patience   time.Time // until when a claim that has waited for its turn may wait for a slot; zero for any other claim

	long bool // the callback lasts for long

	other    otherCopy     // what the other copies say
	asked    time.Duration // since boot, when the other copies were last asked; 0 if there are none
	afar     time.Duration // since boot, when the other sites were asked, or had no mark for this site
	began    time.Duration // since boot, when the fence was first asked for; 0 before
	fenced   store.Fenced  // the fence's answer
	answered time.Time     // when the answer came

	settlement store.Settlement
	buried     bool          // an end leaves a tombstone, since writes may still arrive (rule "a young end leaves a tombstone")
	tries      int           // to settle
	settled    time.Time     // when the answered settlement was sent
	told       bool          // the outcome was sent to the other copies
	lacking    []shard.Place // owners whose copies were missing then, or too old
	strays     []shard.Place // leftovers that were told
}

// turn is an item of the wheel: a claim that comes due, or the end of a claim's n-th wait for a
// slot.
type turn struct {
	claim    *claim
	endsWait int // n; 0 if the claim comes due
}

func (c *claim) pops() int { return c.Record.Timer.Pops() }

// renews reports whether the fence is renewed while the callback lasts.
func (c *claim) renews() bool {
	config := c.lane.d.config
	return config.Renew || c.Record.Timer.Callback.Timeout > config.Limit
}

// beyond is how much longer the callback may last than callbacks whose fences are not renewed.
func (c *claim) beyond() time.Duration {
	return max(c.Record.Timer.Callback.Timeout-c.lane.d.config.Limit, 0)
}

// policy is the timer's own policy for retries, with the node's number of attempts if the timer asks
// for none.
func (c *claim) policy() timer.Retry {
	r := c.Record.Timer.Callback.Retry
	r.Attempts = cmp.Or(r.Attempts, c.lane.d.config.Attempts)
	return r
}

// settle hands the claim to the loop that writes the outcome.
func (c *claim) settle(o store.Settlement) {
	o.Lease = c.Lease
	c.settlement = o
	c.fit()
	c.lane.settlements.Put(c)
}

// fit adapts the settlement to the place of the leased copy. When a tombstone is claimed, the time
// of all that the tombstone remembers is over.
func (c *claim) fit() {
	c.settlement.Offset = c.own.Offset(c.spacing())
	if c.Record.State.Ended || !c.after().Ended {
		return
	}
	config := c.lane.d.config
	c.buried = c.marks() || c.lane.d.sites.Marks() || c.pops() > 1 || c.hastened() || c.Record.State.Attempt > 0 || c.lane.d.shards.Clock().Sub(c.Record.State.Written().Time()) < timing.YoungFor
	switch {
	case c.Record.BodyHash != "":
		c.settlement.Keep = c.own.Tombstone(config, c.Record.State, c.Record.BodyHash).Keep
	case c.buried:
		c.settlement.Keep = min(config.TombLife, timing.YoungLife)
	}
}

// locate finds the places where the other copies of the timer may be.
func (c *claim) locate() {
	d, id := c.lane.d, &c.Record.ID
	c.own, c.others = shard.Place{Shard: c.lane.shard, Rank: c.Record.Rank}, nil
	c.located, _ = d.store.Epoch(c.lane.shard.Name)
	if !d.shards.Several() {
		c.own.Home, id.Hint = true, c.lane.shard.Mask
		return
	}
	all := d.shards.Places(timer.ID{Key: id.Key, RF: id.RF})
	for _, a := range c.Record.Away { // shards that have missed an end
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

// relocate locates the copies again if the shards have changed since, and reports whether they have.
func (c *claim) relocate() (moved bool) {
	if epoch, _ := c.lane.d.store.Epoch(c.lane.shard.Name); epoch == c.located {
		return false
	}
	c.locate()
	return true
}

// better reports whether c's own copy leaves a pop to the copy at p (rule "yield to the
// better copy"): at equal rank the copy on an owner is better.
func (c *claim) better(p shard.Place) bool {
	return p.Rank < c.own.Rank || p.Rank == c.own.Rank && p.Home && !c.own.Home
}

func (c *claim) skew() time.Duration {
	return c.lane.d.config.Skew.Of(c.Record.Timer.Interval, c.Record.ID.RF)
}

func (c *claim) spacing() shard.Spacing { return c.lane.d.shards.Spacing(&c.Record) }

// sinceDue is how long ago the fenced pop was due, by the shard's clock.
func (c *claim) sinceDue() time.Duration { return c.fenced.Late + time.Since(c.answered) }

// hastened reports whether the pop comes before its time (rule "fire now").
func (c *claim) hastened() bool { return c.look.Before(c.turn()) }

// turn is when the pop is due by the grid, by this node's clock.
func (c *claim) turn() time.Time {
	r := &c.Record
	return c.at(r.Start.Add(time.Duration(r.State.Seq) * r.Timer.Interval).UnixMilli())
}

// due is when the pop came due, by this node's clock.
func (c *claim) due() time.Time {
	if turn := c.turn(); turn.Before(c.look) {
		return turn
	}
	return c.look
}

// retryDue is when a retry of the pop came due at the latest; the zero time without a retry. The copy
// waits for the retry, or for the end of a lease after the retry.
func (c *claim) retryDue() time.Time {
	r := &c.Record
	if r.State.Attempt == 0 || r.Failure.Node == "" {
		return time.Time{}
	}
	latest, waited := c.at(r.Failure.At.Add(r.Timer.Callback.Retry.Pause(r.State.Attempt)).UnixMilli()), c.look.Add(-c.own.Offset(c.spacing()))
	if waited.Before(latest) {
		return waited
	}
	return latest
}

// overdue is how long the pop, or the retry of the pop, has been due.
func (c *claim) overdue() time.Duration { return min(time.Since(c.due()), time.Since(c.retryDue())) }

// at converts an instant of the shard's clock, in ms, to this node's clock.
func (c *claim) at(ms int64) time.Time {
	return c.look.Add(time.Duration(ms-c.Lease.Found.ScoreMs) * time.Millisecond)
}

// done ends the way of the claim, and frees the credit.
func (c *claim) done() { c.lane.credit.Give(c.weight) }
