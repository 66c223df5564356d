package scheduler

import (
	"context"
	"slices"
	"time"

	"chronos/scheduler/store"
)

// graveRest is how long a tombstone waits when copies that must hear of it can't
// be told.
const graveRest = 10 * time.Second

// bury tells the copies that a tombstone names of the end of their timer, and
// removes it once all have heard (rule "tombstones outlive what was missed").
func (l *lane) bury(ctx context.Context, batch []*claim) {
	bounded, cancel := l.d.config.Awake.WithTimeout(ctx, tellPatience)
	defer cancel()
	for _, c := range batch {
		heard := true
		for _, p := range c.others {
			if !p.home || c.names(p) {
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
func (c *claim) names(p place) bool {
	return slices.ContainsFunc(c.Record.Away, func(a store.Away) bool { return a.Shard == p.shard.name })
}

func (d *dispatcher) tellOfEnd(ctx context.Context, c *claim, p place) (heard bool) {
	switch {
	case p.shard.gone(), d.store.Lost(p.shard.name):
		return true // nobody waits for it
	case p.shard.away():
		return false
	}
	w := d.copies.endOf(&store.ReadResult{Record: c.Record}, p)
	return d.store.Tell(ctx, p.shard.name, []store.Write{w})[0].Err == nil || p.shard.gone()
}

// keepTombstones is how long past their life tombstones stay: those that were there when
// another shard began to miss what it was told, or were made since then, while that shard
// is away, or back and not swept yet; what has ended since then may live there. For a shard
// that is given up nobody waits.
func (d *dispatcher) keepTombstones(of *shard) time.Duration {
	since := time.Duration(0)
	for _, sh := range d.shards.load() {
		if sh == of || d.store.Lost(sh.name) {
			continue
		}
		for _, lost := range []time.Duration{sh.silence.lostFor(d.config.TombLife), sh.unheardFor()} {
			if lost > 0 {
				since = max(since, lost+lostTail)
			}
		}
		since = max(since, sh.missedFor())
	}
	if !d.shards.takes("", of.name) { // what is there holds up the shard's removal, and the owners have tombstones of their own
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
			if p.home && !slices.ContainsFunc(c.settlement.Untold, func(a store.Away) bool { return a.Shard == p.shard.name }) {
				all = append(all, message{claim: c, to: p, lasts: true})
			}
		}
	}
	return all
}
