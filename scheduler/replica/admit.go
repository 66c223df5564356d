package replica

import (
	"cmp"
	"context"
	"errors"
	"fmt"

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
	for i, found := range k.findAll(ctx, doubtful) {
		a, newest := doubtful[i], newestOf(found)
		a.weigh(found)
		switch {
		case a.Standing == StandingNew:
			free = append(free, a)
			ends = append(ends, k.endsOf(found, newest)...)
		case a.Standing == StandingAgain && !newest.Record.State.Ended:
			k.confirmCopies(a, found, newest)
		}
	}
	if len(ends) > 0 {
		k.merge(ctx, ends)
	}
	return free
}

// endsOf tell the copies that don't know it that their timer is over, unless somebody is
// at them, who will find out.
func (k *Keeper) endsOf(found []finding, newest *finding) (ends []store.Write) {
	for i := range found {
		if f := &found[i]; f.there() && !f.Record.State.Ended && !f.Leased {
			ends = append(ends, k.EndOf(&newest.Record, f.Place))
		}
	}
	return ends
}

// confirmCopies holds what was stored before to what is asked of what is stored now: it
// may be that whoever stored it could not tell all.
func (k *Keeper) confirmCopies(a *Admission, found []finding, newest *finding) {
	copies := 0
	for i := range found {
		if r := &found[i].Record; !r.State.Ended && r.State.Version == newest.Record.State.Version {
			copies++
		}
	}
	if behind := behindOwners(found, newest); len(behind) > 0 {
		k.repairs.add(newest.Record.ID, newest.Record.State.Version, behind)
	}
	if want := min(k.config.MinCopies, newest.Record.ID.RF, len(k.store.Rank(a.Key))); copies < want {
		a.Standing, a.Err = StandingUnknown, fmt.Errorf("%w: timer %s has %d copies, and CHRONOS_MIN_COPIES asks for %d", timer.ErrUnavailable, a.Key, copies, want)
	}
}

// Known finds out how the timers stand.
func (k *Keeper) Known(ctx context.Context, all []Admission) {
	if err := k.store.Writable(); err != nil {
		for i := range all {
			all[i].Standing, all[i].Err = StandingUnknown, err
		}
		return
	}
	open := make([]*Admission, len(all))
	for i := range all {
		open[i] = &all[i]
	}
	for i, found := range k.findAll(ctx, open) {
		open[i].weigh(found)
	}
}

// findAll reads all copies of the timers.
func (k *Keeper) findAll(ctx context.Context, all []*Admission) [][]finding {
	ctx, cancel := k.config.Awake.WithTimeout(ctx, timing.RoundPatience)
	defer cancel()
	ids := make([]timer.ID, len(all))
	for i, a := range all {
		ids[i] = a.id()
	}
	return k.findMany(ctx, ids)
}

func (a *Admission) id() timer.ID {
	return timer.ID{Key: a.Key, RF: cmp.Or(a.Timer.ReplicationFactor, timer.DefaultReplicationFactor)}
}

// weigh takes what the copies say of it. The newest counts, since the others may have
// missed something; but what is over is remembered by whichever it was told to.
func (a *Admission) weigh(found []finding) {
	a.Standing, a.Err = StandingUnknown, fmt.Errorf("%w: all shards of timer %s are silent", timer.ErrUnavailable, a.Key)
	newest, heard := newestOf(found), false
	for i := range found {
		switch f := &found[i]; {
		case f.Record.State.Ended && f.Record.BodyHash == a.Origin:
			a.Standing, a.Err = StandingAgain, nil
			return
		case f.there() || errors.Is(f.Err, timer.ErrNotFound):
			heard = true
		default:
			a.Err = f.Err
		}
	}
	switch {
	case !heard:
	case newest == nil || newest.Record.State.Ended:
		a.Standing, a.Err = StandingNew, nil
	case newest.Record.BodyHash == a.Origin:
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
	for i := range all {
		a := &all[i]
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
		writes, of = k.rememberAbove(ctx, writes, of)
	}
}

// rememberAbove writes that down, and returns what has to go above what is over there.
func (k *Keeper) rememberAbove(ctx context.Context, writes []store.Write, of []*Admission) (above []store.Write, whose []*Admission) {
	for i, written := range k.merge(ctx, writes) {
		w, a := writes[i], of[i]
		switch {
		case written.Status == store.WriteNewer:
			above, whose = append(above, w.At(written.State.Version.Above(k.shards.NextTag()))), append(whose, a)
		case written.Err == nil || a.Err != nil:
			a.Err = written.Err
		}
	}
	return above, whose
}
