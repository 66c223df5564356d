package replica

import (
	"context"
	"slices"
	"sync"
	"time"

	"chronos/scheduler/shard"
	"chronos/scheduler/store"
	"chronos/scheduler/timer"
	"chronos/scheduler/timing"
)

const (
	// maxRepairs is how many repairs may wait. Further repairs are left to the sweep.
	maxRepairs = 10_000
	// repairBatch is how many repairs are made together. maxRepairTries is how often a repair is
	// tried while its timer is about to fire.
	repairBatch    = 100
	maxRepairTries = 3
)

// repairs are the writes that missed an owner. The node that wrote repairs a write once, and leaves
// the rest to the sweep. Safe for concurrent use.
type repairs struct {
	mu      sync.Mutex
	pending []repair      // in the order of at
	ready   chan struct{} // has a token when a repair is pending
}

// repair is a write to a timer that some owners lack.
type repair struct {
	id      timer.ID
	written timer.State // version and revision
	missed  []*shard.Shard
	at      time.Time
	tries   int
}

func newRepairs() *repairs { return &repairs{ready: make(chan struct{}, 1)} }

// add takes a write that missed some shards.
func (r *repairs) add(id timer.ID, written timer.State, missed []*shard.Shard) {
	r.put(repair{id: id, written: written, missed: missed})
}

func (r *repairs) put(one repair) {
	one.at = time.Now().Add(timing.RepairDelay)
	r.mu.Lock()
	full := len(r.pending) >= maxRepairs
	if !full {
		r.pending = append(r.pending, one)
	}
	r.mu.Unlock()
	if full {
		one.leave()
		return
	}
	select {
	case r.ready <- struct{}{}:
	default:
	}
}

// leave leaves the repair to the sweep, once the shards answer.
func (r *repair) leave() {
	for _, sh := range r.missed {
		sh.Answers.Outage.Missed()
	}
}

// next waits for repairs that are due, and returns nil once ctx has ended.
func (r *repairs) next(ctx context.Context) (due []repair) {
	for {
		wait := time.Hour
		r.mu.Lock()
		for len(r.pending) > 0 && len(due) < repairBatch {
			if wait = time.Until(r.pending[0].at); wait > 0 {
				break
			}
			due, r.pending = append(due, r.pending[0]), r.pending[1:]
		}
		r.mu.Unlock()
		if len(due) > 0 {
			return due
		}
		alarm := time.NewTimer(wait)
		select {
		case <-alarm.C:
		case <-r.ready:
		case <-ctx.Done():
		}
		alarm.Stop()
		if ctx.Err() != nil {
			return nil
		}
	}
}

// Repair brings up owners that writes have missed until ctx ends (rule "repair what a write missed").
func (k *Keeper) Repair(ctx context.Context) {
	for {
		due := k.repairs.next(ctx)
		if len(due) == 0 {
			return
		}
		bounded, cancel := context.WithTimeout(ctx, timing.AnswerLimit)
		k.repairAll(bounded, due)
		cancel()
		if ctx.Err() != nil { // some repairs may have been cut off
			k.repairs.mu.Lock()
			k.repairs.pending = append(k.repairs.pending, due...)
			k.repairs.mu.Unlock()
			return
		}
	}
}

func (k *Keeper) repairAll(ctx context.Context, due []repair) {
	ids := make([]timer.ID, len(due))
	for i := range due {
		ids[i] = due[i].id
	}
	doubtful := k.store.Writable() != nil
	var writes []store.Write
	var to []*shard.Shard
	for i, c := range k.compare(ctx, ids) {
		r := &due[i]
		switch {
		case doubtful:
			r.leave()
		case c.later():
			// Upgraded nodes see to the timer.
		case c.newest == nil && c.unanswered() == nil:
			// The timer is over.
		case c.newest == nil || c.newest.Record.State.Version < r.written.Version || r.written.Revised(c.newest.Record.State):
			r.leave()
		case c.newest.Record.State.Version > r.written.Version || c.newest.Record.State.Revised(r.written):
			// The newer write has told the owners, or has its own repair.
		case slices.ContainsFunc(c.copies, func(f finding) bool { return f.there() && f.aboutToFire(k.shards) }):
			if r.tries++; r.tries < maxRepairTries {
				k.repairs.put(*r)
			}
		default:
			for f := range each(c.copies) {
				switch {
				case !f.Home || !slices.Contains(r.missed, f.Shard):
				case !f.answered():
					f.Shard.Answers.Outage.Missed()
				case f.lacks(c.newest.Record.State) && (f.there() || !c.newest.Record.State.Ended):
					writes, to = append(writes, k.fix(c.newest, f.Place)), append(to, f.Shard)
				}
			}
		}
	}
	for i, answer := range k.tell(ctx, writes) {
		if answer.Err != nil {
			to[i].Answers.Outage.Missed()
			continue
		}
		k.repaired.Inc()
	}
}

// LeaveRepairs leaves repairs that still wait to the sweep of other nodes, when this node stops.
func (k *Keeper) LeaveRepairs(ctx context.Context) {
	k.repairs.mu.Lock()
	left := k.repairs.pending
	k.repairs.pending = nil
	k.repairs.mu.Unlock()
	missed := map[*shard.Shard]bool{}
	for i := range left {
		for _, sh := range left[i].missed {
			missed[sh] = true
		}
	}
	bounded, cancel := context.WithTimeout(ctx, k.config.Settling)
	defer cancel()
	for sh := range missed {
		if err := k.sweeps.Of(sh).wantAllSwept(bounded, timing.RepairDelay); err != nil {
			sh.Log.Warn("the shard could not be told that it has missed writes", "writes", len(left), "err", err)
		}
	}
}
