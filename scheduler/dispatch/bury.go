package dispatch

import (
	"context"
	"slices"
	"time"

	"chronos/scheduler/shard"
	"chronos/scheduler/store"
	"chronos/scheduler/timing"
)

// graveRest is how long a tombstone waits when copies that must hear of it can't
// be told.
const graveRest = 10 * time.Second

// bury tells the copies that a tombstone names of the end of their timer, and
// removes it once all have heard (rule "tombstones outlive what was missed").
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

// names reports whether the record says that a copy may be at p.
func (c *claim) names(p shard.Place) bool {
	return slices.ContainsFunc(c.Record.Away, func(a store.Away) bool { return a.Shard == p.Shard.Name })
}

func (d *Dispatcher) tellOfEnd(ctx context.Context, c *claim, p shard.Place) (heard bool) {
	switch {
	case p.Shard.Gone(), d.store.Lost(p.Shard.Name):
		return true // nobody waits for it
	case p.Shard.Away():
		return false
	}
	w := d.copies.EndOf(&c.Record, p)
	return d.store.Tell(ctx, p.Shard.Name, []store.Write{w})[0].Err == nil || p.Shard.Gone()
}

// keepTombstones is how long past their life tombstones stay: those that were there when
// another shard began to miss what it was told, or were made since then, while that shard
// is away, or back and not swept yet; what has ended since then may live there. For a shard
// that is given up nobody waits.
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
	if !d.shards.Takes("", of.Name) { // what is there holds up the shard's removal, and the owners have tombstones of their own
		return max(since-d.config.TombLife, 0)
	}
	return since
}

// lasting are the ends that all homes must keep: a copy that has not heard of one asks
// these alone before it fires, and the one that names it may be away by then.
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
