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

// Admission is a timer from a stream. The writer of the stream chose the key, and the message may
// come more than once. The key is taken while a timer of the key waits or fires, and free
// afterwards.
type Admission struct {
	Key string // as in an ID
	// Origin tells messages of one key apart; a repeated message has the same Origin. Origin
	// contains no space.
	Origin string
	Timer  timer.Timer

	// Standing and Err are set by AdmitAll and Known.
	Standing Standing
	Err      error
}

// Standing says how an Admission stands.
type Standing int

// How an Admission stands.
const (
	StandingUnknown   Standing = iota // Err says why
	StandingNew                       // the key was free; AdmitAll has stored the timer
	StandingDuplicate                 // another timer of the key waits or fires: this admission counts for nothing
	StandingAgain                     // this timer waits or fires, or was over less than IdempotencyLife ago
)

// AdmitAll stores the timers that are new, and sets Standing and Err of every timer. The caller has
// checked the timers. Errors: ErrUnavailable and ErrOverloaded, after which a repeated call does no
// harm.
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

// admit stores timers whose key is free, and returns timers whose key seems taken.
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

// confirm looks at all copies of timers whose key seems taken: the copy that says so may have
// missed the end of its timer, or be the only copy. confirm returns the timers that may be stored
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

// endsOf are the writes that tell copies of the end that the copies missed. A leased copy is left
// out, since the node with the lease will find the end.
func (k *Keeper) endsOf(c *comparison) (ends []store.Write) {
	for f := range each(c.copies) {
		if f.there() && !f.Record.State.Ended && !f.Leased {
			ends = append(ends, k.EndOf(&c.newest.Record, f.Place))
		}
	}
	return ends
}

// confirmCopies asks of a timer that was stored before as many copies as of a new timer. The node
// that stored the timer may not have reached all owners.
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
		k.repairs.add(newest.ID, newest.State, behind)
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

// weigh takes the answers of the copies. The newest copy counts, since older copies may have missed
// something. The end of this very admission counts on every copy.
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

// Remember notes that timers are over that were never stored.
func (k *Keeper) Remember(ctx context.Context, all []Admission) {
	ctx, cancel := context.WithTimeout(ctx, timing.AnswerLimit)
	defer cancel()
	var writes []store.Write
	var of []*Admission
	for a := range each(all) {
		a.Err = fmt.Errorf("%w: all shards of timer %s are silent", timer.ErrUnavailable, a.Key)
		id := a.id()
		// As old as can be: the note says nothing of a timer of the key. A copy of a waiting timer
		// elsewhere must not take the note for the end of the waiting timer.
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
			case written.Status == store.WriteNewer: // the note needs a version above the end there
				above, whose = append(above, writes[i].At(written.State.Version.Above(k.shards.NextTag()))), append(whose, a)
			case written.Err == nil || a.Err != nil:
				a.Err = written.Err
			}
		}
		writes, of = above, whose
	}
}
