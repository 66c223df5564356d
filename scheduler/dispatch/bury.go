package dispatch

import (
	"context"
	"slices"
	"time"

	"chronos/scheduler/shard"
	"chronos/scheduler/store"
	"chronos/scheduler/timing"
)

// graveRest is how long a tombstone waits if a copy that must hear of the end can't be told.
const graveRest = 10 * time.Second

// bury tells the end of a timer to the copies that the tombstone names, and removes the tombstone
// once all have heard (rule "tombstones outlive what was missed").
func (l *lane) bury(ctx context.Context, batch []*claim) {
	bounded, cancel := l.d.config.Awake.WithTimeout(ctx, timing.TellPatience)
	defer cancel()
	for _, c := range batch {
		heard := true
		for _, p := range c.others {
			if !p.Home || c.names(p) {
				heard = heard && l.d.tellOfEnd(bounded, c, p)
			}
		}
		if heard {
			c.told = true
			c.settle(store.Settlement{Outcome: store.OutcomeDone})
			continue
		}
		c.settle(store.Settlement{Outcome: store.OutcomeRelease, Delay: graveRest})
	}
}

// names reports whether the record names a copy at p.
func (c *claim) names(p shard.Place) bool {
	return slices.ContainsFunc(c.Record.Away, func(a store.Away) bool { return a.Shard == p.Shard.Name })
}

func (d *Dispatcher) tellOfEnd(ctx context.Context, c *claim, p shard.Place) (heard bool) {
	switch {
	case p.Shard.Gone(), d.store.Lost(p.Shard.Name):
		return true // nobody waits for the shard
	case p.Shard.Away():
		return false
	}
	w := d.copies.EndOf(&c.Record, p)
	return d.store.Tell(ctx, p.Shard.Name, []store.Write{w})[0].Err == nil || p.Shard.Gone()
}

// keepTombstones is how long beyond their life the tombstones of a shard stay. While another shard
// is away, or back and not swept yet, every tombstone stays that was there when the other shard
// began to miss writes, or was made since. Timers that have ended since may live on the other
// shard. Nobody waits for a shard that is given up.
func (d *Dispatcher) keepTombstones(of *shard.Shard) time.Duration {
	since := time.Duration(0)
	for _, sh := range d.shards.All() {
		if sh == of || d.store.Lost(sh.Name) {
			continue
		}
		if gap := sh.GapFor(d.config.TombLife); gap > 0 {
			since = max(since, gap+timing.LostTail)
		}
	}
	if since > 0 && !d.shards.Takes("", of.Name) { // tombstones hold up the removal of this shard, and the owners have tombstones of their own
		return max(since-d.config.TombLife, 0)
	}
	return since
}

// lasting are the ends that all owners must keep. A copy that missed an end asks only the owners
// before a callback, and the tombstone that names the copy may be on a shard that is away by then.
func lasting(batch []*claim) (all []message) {
	for _, c := range batch {
		if len(c.settlement.Untold) == 0 || !c.after().Ended {
			continue
		}
		for _, p := range c.others {
			if p.Home && !slices.ContainsFunc(c.settlement.Untold, func(a store.Away) bool { return a.Shard == p.Shard.Name }) {
				all = append(all, message{claim: c, to: p, lasts: true})
			}
		}
	}
	return all
}
