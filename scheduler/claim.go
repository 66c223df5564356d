package scheduler

import "time"

// claim is a leased timer on its way through this node: wheel, slot, fence,
// delivery, settlement. It belongs to one of these at a time.
type claim struct {
	Claimed
	shard       *shard
	destination string

	weight  int  // in credit
	waiting bool // for a slot; guarded by slots
	waits   int  // for one so far; changed only in take

	began    time.Duration // since boot, when the fence was first asked for; 0 before
	fenced   Fenced        // the fence's answer
	answered time.Time     // when it came

	settlement Settlement
	tries      int // to settle
}

// turn is what the wheel holds: a claim that comes due, or the end of its n-th
// wait for a slot.
type turn struct {
	claim    *claim
	endsWait int // n; 0 if the claim comes due
}

func (c *claim) pops() int { return c.Record.Timer.Pops() }

// settle hands the claim to the loop that writes its outcome.
func (c *claim) settle(o Settlement) {
	o.Lease, o.Pops = c.Lease, c.pops()
	o.Skew = c.shard.s.config.Skew.Of(c.Record.Timer.Interval, c.Record.ID.RF)
	if c.Record.BodyHash != "" {
		o.Keep = c.shard.s.config.IdempotencyLife
	}
	c.settlement = o
	c.shard.settlements.put(c)
}

// done ends the claim's way: its credit is free again.
func (c *claim) done() { c.shard.credit.give(c.weight) }

// weightBytes is how much of a timer one unit of credit carries, so that credit
// bounds memory too: with 4,096 slots to 72 MiB a shard.
const weightBytes = 16 << 10

func weightOf(t *Timer) int {
	const tag = 24 // bytes of a Tag beside its type
	size := len(t.Callback.URI) + len(t.Callback.Opaque)
	for i := range t.Tags {
		size += tag + len(t.Tags[i].Type)
	}
	return 1 + size/weightBytes
}
