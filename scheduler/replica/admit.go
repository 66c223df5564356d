package replica

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"chronos/scheduler/shard"
	"chronos/scheduler/store"
	"chronos/scheduler/timer"
	"chronos/scheduler/timing"
)

// Admission is a timer that a stream brings, maybe more than once, under a key that
// was chosen by who wrote it there. The key is taken while a timer of it waits or
// fires, and free once that is over.
type Admission struct {
	Key string // as of an ID
	// Origin tells it from others of the same key, and is the same when it comes again.
	// It has no space.
	Origin string
	Timer  timer.Timer

	// Standing and Err are set by AdmitAll and Known.
	Standing Standing
	Err      error
}

// Standing is what is known of an Admission.
type Standing int

// What is known of an Admission.
const (
	StandingUnknown   Standing = iota // Err says why
	StandingNew                       // no timer of its key was there; AdmitAll has stored it
	StandingDuplicate                 // another one of its key waits or fires: this one counts for nothing
	StandingAgain                     // this very one waits or fires, or was over less than IdempotencyLife ago
)

// AdmitAll stores those of the timers that are new, and sets Standing and Err of each. The
// caller has checked them. Errors: ErrUnavailable and ErrOverloaded, with which the same once
// more does no harm.
func (k *Keeper) AdmitAll(ctx context.Context, open []*Admission) {
	for range 2 {
		if open = k.confirm(ctx, k.admit(ctx, open)); len(open) == 0 {
			return
		}
	}
	for _, a := range open {
		a.Standing, a.Err = StandingUnknown, fmt.Errorf("%w: some copy of timer %s has yet to hear that it is over", timer.ErrUnavailable, a.Key)
	}
}

// admit has each stored where none is, and returns those for which one is said to wait.
func (k *Keeper) admit(ctx context.Context, all []*Admission) (doubtful []*Admission) {
	wishes := make([]Wish, len(all))
	for i, a := range all {
		w := k.NewWish(timer.ID{Key: a.Key, RF: a.Timer.ReplicationFactor}, &a.Timer)
		w.BodyHash, w.anew = a.Origin, true
		wishes[i] = w
	}
	for i, answer := range k.WriteEach(ctx, wishes) {
		a := all[i]
		a.Standing, a.Err = StandingNew, answer.Err
		switch {
		case errors.Is(a.Err, timer.ErrKeyReused):
			a.Standing, a.Err = StandingDuplicate, nil
			doubtful = append(doubtful, a)
		case a.Err != nil:
			a.Standing = StandingUnknown
		case answer.Receipt.Replayed:
			a.Standing = StandingAgain
			if !answer.Receipt.Over {
				doubtful = append(doubtful, a)
			}
		}
	}
	return doubtful
}

// confirm looks at all copies of those of which one copy is said to wait: it may have
// missed that its timer is over, or be all there is. It returns those that may be stored
// after all.
func (k *Keeper) confirm(ctx context.Context, doubtful []*Admission) (free []*Admission) {
	if len(doubtful) == 0 {
		return nil
	}
	var ends []store.Write
	for i, c := range k.findAll(ctx, doubtful) {
		a := doubtful[i]
		a.weigh(&c)
		switch {
		case a.Standing == StandingNew:
			free = append(free, a)
			ends = append(ends, k.endsOf(&c)...)
		case a.Standing == StandingAgain && !c.newest.Record.State.Ended:
			k.confirmCopies(a, &c)
		}
	}
	if len(ends) > 0 {
		k.merge(ctx, ends)
	}
	return free
}

// endsOf tell the copies that don't know it that their timer is over, unless somebody is
// at them, who will find out.
func (k *Keeper) endsOf(c *comparison) (ends []store.Write) {
	for f := range each(c.copies) {
		if f.there() && !f.Record.State.Ended && !f.Leased {
			ends = append(ends, k.EndOf(&c.newest.Record, f.Place))
		}
	}
	return ends
}

// confirmCopies holds what was stored before to what is asked of what is stored now: it
// may be that whoever stored it could not tell all.
func (k *Keeper) confirmCopies(a *Admission, c *comparison) {
	copies, newest := 0, &c.newest.Record
	for f := range each(c.copies) {
		if f.Record.State.Version == newest.State.Version {
			copies++
		}
	}
	var behind []*shard.Shard
	for _, f := range c.behind() {
		if f.Home {
			behind = append(behind, f.Shard)
		}
	}
	if len(behind) > 0 {
		k.repairs.add(newest.ID, newest.State.Version, behind)
	}
	if want := min(k.config.MinCopies, newest.ID.RF, len(k.store.Rank(a.Key))); copies < want {
		a.Standing, a.Err = StandingUnknown, fmt.Errorf("%w: timer %s has %d copies, and CHRONOS_MIN_COPIES asks for %d", timer.ErrUnavailable, a.Key, copies, want)
	}
}

// Known finds out how the timers stand.
func (k *Keeper) Known(ctx context.Context, all []Admission) {
	if err := k.store.Writable(); err != nil {
		for a := range each(all) {
			a.Standing, a.Err = StandingUnknown, err
		}
		return
	}
	open := slices.AppendSeq(make([]*Admission, 0, len(all)), each(all))
	for i, c := range k.findAll(ctx, open) {
		open[i].weigh(&c)
	}
}

// findAll reads all copies of the timers.
func (k *Keeper) findAll(ctx context.Context, all []*Admission) []comparison {
	ctx, cancel := k.config.Awake.WithTimeout(ctx, timing.RoundPatience)
	defer cancel()
	ids := make([]timer.ID, len(all))
	for i, a := range all {
		ids[i] = a.id()
	}
	return k.compare(ctx, ids)
}

func (a *Admission) id() timer.ID {
	return timer.ID{Key: a.Key, RF: cmp.Or(a.Timer.ReplicationFactor, timer.DefaultReplicationFactor)}
}

// weigh takes what the copies say of it. The newest counts, since the others may have
// missed something; but what is over is remembered by whichever it was told to.
func (a *Admission) weigh(c *comparison) {
	a.Standing, a.Err = StandingUnknown, fmt.Errorf("%w: all shards of timer %s are silent", timer.ErrUnavailable, a.Key)
	heard := false
	for f := range each(c.copies) {
		switch {
		case f.Record.State.Ended && f.Record.BodyHash == a.Origin:
			a.Standing, a.Err = StandingAgain, nil
			return
		case f.answered():
			heard = true
		default:
			a.Err = f.Err
		}
	}
	switch {
	case !heard:
	case c.newest == nil || c.newest.Record.State.Ended:
		a.Standing, a.Err = StandingNew, nil
	case c.newest.Record.BodyHash == a.Origin:
		a.Standing, a.Err = StandingAgain, nil
	default:
		a.Standing, a.Err = StandingDuplicate, nil
	}
}

// Remember notes of timers that were never stored that they are over.
func (k *Keeper) Remember(ctx context.Context, all []Admission) {
	ctx, cancel := context.WithTimeout(ctx, timing.AnswerLimit)
	defer cancel()
	var writes []store.Write
	var of []*Admission
	for a := range each(all) {
		a.Err = fmt.Errorf("%w: all shards of timer %s are silent", timer.ErrUnavailable, a.Key)
		id := a.id()
		// As old as can be: it says nothing of a timer of the key, and a copy elsewhere of
		// one that waits must not take it for that one's end.
		state := timer.State{Version: timer.Version(0).Above(k.shards.NextTag())}
		over := store.Tombstone{State: state, Keep: k.config.IdempotencyLife, BodyHash: a.Origin}
		for _, p := range k.shards.Homes(id) {
			if !p.Shard.Away() {
				writes, of = append(writes, store.Remember(p.Copy(id), over)), append(of, a)
			}
		}
	}
	for try := 0; len(writes) > 0 && try < maxWriteTries; try++ {
		above, whose := writes[:0], of[:0]
		for i, written := range k.merge(ctx, writes) {
			switch a := of[i]; {
			case written.Status == store.WriteNewer: // the note has to go above what is over there
				above, whose = append(above, writes[i].At(written.State.Version.Above(k.shards.NextTag()))), append(whose, a)
			case written.Err == nil || a.Err != nil:
				a.Err = written.Err
			}
		}
		writes, of = above, whose
	}
}
