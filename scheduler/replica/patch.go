package replica

import (
	"context"
	"fmt"
	"slices"
	"time"

	"chronos/scheduler/shard"
	"chronos/scheduler/store"
	"chronos/scheduler/timer"
)

// Read is a timer as a PATCH or a delay has read the timer from all owners.
type Read struct {
	present       Present
	newest        finding
	firing        bool          // a callback is under way
	begun, answer time.Duration // since boot: before the question, and after the answers
}

// Timer is the timer that was read.
func (r *Read) Timer() timer.Timer { return r.newest.Record.Timer }

// Present is the newest copy that was read.
func (r *Read) Present() Present { return r.present }

// Written is as of Present; 0 if nothing was read.
func (r *Read) Written() timer.Version { return r.present.Written() }

// ReadAll reads a timer for a PATCH or a delay, on a condition. Errors: as Judge; timer.ErrNotFound; and
// timer.ErrUndecided also where an owner has no copy: the timer may just have ended.
func (k *Keeper) ReadAll(ctx context.Context, id timer.ID, cond timer.Condition) (Read, error) {
	begun := k.config.SinceBoot()
	c, found, err := k.judge(ctx, id, cond)
	switch {
	case err != nil:
		return Read{}, err
	case c.newest == nil || c.newest.Record.State.Ended:
		return Read{}, timer.ErrNotFound
	case c.newest.Err != nil:
		return Read{}, c.newest.Err
	case slices.ContainsFunc(c.copies, func(f finding) bool { return f.Home && !f.there() }):
		return Read{}, fmt.Errorf("%w: an owner has no copy", timer.ErrUndecided)
	}
	return Read{present: found, newest: *c.newest, firing: c.firing(), begun: begun, answer: k.config.SinceBoot()}, nil
}

// Revise is a PATCH of a timer that was read: a new revision with the timer t, which has the timing that
// was read (rule "a patch is a revision"). The revision is above all that was found.
func (k *Keeper) Revise(read Read, t *timer.Timer) Wish {
	read.newest.Record.Timer = *t
	r := &read.newest.Record
	r.State.Rev = max(k.shards.NextVersion(), r.State.Written().Above(k.shards.NextTag()))
	return Wish{
		ID: timer.ID{Key: r.ID.Key, RF: r.ID.RF}, Version: r.State.Version, Timer: &r.Timer, Begun: read.begun,
		judged: &read.present, read: &read.newest,
	}
}

// amend is the write of a PATCH to a copy.
func (a *attempt) amend(t *target) store.Write {
	r := &a.read.Record
	offset, retry := a.k.looksFrom(&a.read.ReadResult, t.Place)
	at := store.Times{DueIn: a.read.DueIn - (a.k.config.SinceBoot() - a.Begun), Offset: offset, Retry: retry}
	if t.Home {
		return store.Amend(t.Copy(a.ID), r, at)
	}
	at.Offset = shard.Place{}.Offset(a.k.shards.Spacing(r))
	return store.AmendLeft(t.Copy(a.ID), r, at)
}
