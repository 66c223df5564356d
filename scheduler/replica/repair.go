package replica

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"chronos/scheduler/shard"
	"chronos/scheduler/store"
	"chronos/scheduler/timer"
	"chronos/scheduler/timing"
)

const (
	// maxRepairs is how many may wait. What comes on top is left to the sweep.
	maxRepairs = 10_000
	// repairBatch is how many are made together, maxRepairTries how often one is put off
	// since its timer is about to fire.
	repairBatch    = 100
	maxRepairTries = 3
)

// repairs are writes that missed an owner. Each is repaired once by the node that wrote;
// what can't be repaired then is left to the sweep. Safe for concurrent use.
type repairs struct {
	mu      sync.Mutex
	pending []repair      // in the order of at
	ready   chan struct{} // has a token when there is something pending
}

// repair is a timer some of whose owners lack a version.
type repair struct {
	id      timer.ID
	version timer.Version
	missed  []*shard.Shard
	at      time.Time
	tries   int
}

func newRepairs() *repairs { return &repairs{ready: make(chan struct{}, 1)} }

// add takes what a write has missed.
func (r *repairs) add(id timer.ID, version timer.Version, missed []*shard.Shard) {
	r.put(repair{id: id, version: version, missed: missed})
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

// leave has the sweep repair it, once the shards answer.
func (r *repair) leave() {
	for _, sh := range r.missed {
		sh.Answers.Outage.Missed()
	}
}

// next waits for repairs whose time has come; none once ctx has ended.
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

// Repair brings up what writes have missed until ctx ends (rule "repair what a write missed").
func (k *Keeper) Repair(ctx context.Context) {
	for {
		due := k.repairs.next(ctx)
		if len(due) == 0 {
			return
		}
		bounded, cancel := context.WithTimeout(ctx, timing.AnswerLimit)
		k.repairAll(bounded, due)
		cancel()
		if ctx.Err() != nil { // some may have been cut off
			k.repairs.mu.Lock()
			k.repairs.pending = append(k.repairs.pending, due...)
			k.repairs.mu.Unlock()
		}
	}
}

func (k *Keeper) repairAll(ctx context.Context, due []repair) {
	ids := make([]timer.ID, len(due))
	for i := range due {
		ids[i] = due[i].id
	}
	doubtful := k.store.Writable() != nil
	for i, found := range k.findMany(ctx, ids) {
		r := &due[i]
		newest := newestOf(found)
		switch {
		case doubtful:
			r.leave()
		case newest == nil && allRead(found):
			// The timer is over.
		case newest == nil || newest.Record.State.Version < r.version:
			r.leave()
		case newest.Record.State.Version > r.version:
			// The newer write has told the owners, or has a repair of its own.
		case k.aboutToFire(found):
			if r.tries++; r.tries < maxRepairTries {
				k.repairs.put(*r)
			}
		default:
			k.repairOne(ctx, r, found, newest)
		}
	}
}

// allRead reports whether every place has said what it has.
func allRead(found []finding) bool {
	return !slices.ContainsFunc(found, func(f finding) bool { return !f.there() && !errors.Is(f.Err, timer.ErrNotFound) })
}

// aboutToFire reports whether a copy is leased, or soon will be.
func (k *Keeper) aboutToFire(found []finding) bool {
	return slices.ContainsFunc(found, func(f finding) bool {
		return f.there() && !f.Record.State.Ended && (f.Leased || f.soon(k.config.Skew))
	})
}

func (k *Keeper) repairOne(ctx context.Context, r *repair, found []finding, newest *finding) {
	for i := range found {
		f := &found[i]
		if !f.Home || !slices.Contains(r.missed, f.Shard) {
			continue
		}
		if !f.there() && !errors.Is(f.Err, timer.ErrNotFound) {
			f.Shard.Answers.Outage.Missed()
			continue
		}
		if !f.behind(newest.Record.State) {
			continue
		}
		w := k.CopyOf(&newest.ReadResult, f.Place)
		if newest.Record.State.Ended {
			w = k.EndOf(&newest.Record, f.Place)
		}
		if k.store.Tell(ctx, f.Shard.Name, []store.Write{w})[0].Err != nil {
			f.Shard.Answers.Outage.Missed()
		}
	}
}

// LeaveRepairs has the sweep of other nodes make the repairs that still wait when this node
// stops.
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

// behindOwners are the owners whose copy is older than the newest, or missing.
func behindOwners(found []finding, newest *finding) (all []*shard.Shard) {
	for i := range found {
		if f := &found[i]; f.Home && f.behind(newest.Record.State) {
			all = append(all, f.Shard)
		}
	}
	return all
}

// behind reports whether the copy should be brought up to a state: a copy that is
// there and older, or that an owner lacks though the timer is not over.
func (f *finding) behind(state timer.State) bool {
	if f.there() {
		return f.Record.State.Compare(state) < 0
	}
	return errors.Is(f.Err, timer.ErrNotFound) && f.Home && !state.Ended
}

// soon reports whether the timer's first copy is due soon.
func (f *finding) soon(skew store.Skew) bool {
	asked := &f.Record.Timer
	return f.LookIn-f.Offset(skew.Of(asked.Interval, f.Record.ID.RF)) < timing.DueSoon
}
