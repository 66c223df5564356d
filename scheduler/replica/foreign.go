package replica

import (
	"context"
	"errors"
	"slices"

	"chronos/scheduler/store"
	"chronos/scheduler/timer"
	"chronos/scheduler/timing"
)

// Seen is what the copies of a site say of a timer.
type Seen struct {
	// Newest is the newest copy, live or ended; without a version if no copy was found.
	Newest store.ReadResult
	// Alike says that every owner has the newest copy; of a timer that has ended, that no owner has another copy.
	Alike bool
	// Whole says that every place where a copy may be has answered.
	Whole bool
}

// See reads the copies of some timers together, as a comparison between sites does.
func (k *Keeper) See(ctx context.Context, ids []timer.ID) []Seen {
	all := make([]Seen, len(ids))
	if k.store.Writable() != nil {
		return all
	}
	for i, c := range k.compare(ctx, ids) {
		s := &all[i]
		s.Whole = c.unanswered() == nil
		if c.newest != nil {
			s.Newest, s.Alike = c.newest.ReadResult, s.Whole
		}
		for f := range each(c.copies) {
			s.Alike = s.Alike && f.isAlike(&s.Newest)
		}
	}
	return all
}

// isAlike reports whether the place has the newest copy, or has no copy and needs none.
func (f *finding) isAlike(newest *store.ReadResult) bool {
	if f.there() {
		return f.Record.State == newest.Record.State
	}
	return !f.Home || newest.Record.State.Ended
}

// Foreign is a copy that was read at another site a moment ago.
type Foreign struct {
	Read store.ReadResult // as CopyOf takes the copy: LookIn is as if the copy were at this site
	// OntoLive says that the copy tells of an outcome: no copy is made where none is.
	OntoLive bool
}

// ErrOtherFactor says that a timer with another replication factor is there, and stays.
var ErrOtherFactor = errors.New("a timer with another replication factor is there")

// BringUp brings the owners of timers up to copies of another site, and returns for each timer the newest state that
// was there before. The error of a timer is ErrOtherFactor, or wraps timer.ErrUnavailable if not all places could be brought up.
func (k *Keeper) BringUp(ctx context.Context, all []Foreign) ([]timer.State, []error) {
	before, errs := make([]timer.State, len(all)), make([]error, len(all))
	if err := k.store.Writable(); err != nil {
		return before, slices.Repeat([]error{err}, len(all))
	}
	ctx, cancel := k.config.Awake.WithTimeout(ctx, timing.AnswerLimit)
	defer cancel()
	ids := make([]timer.ID, len(all))
	for i := range all {
		ids[i] = all[i].Read.Record.ID.WithoutHint()
	}
	var writes []store.Write
	var of []int
	for i, c := range k.compare(ctx, ids) {
		from := &all[i]
		if c.newest != nil {
			before[i] = c.newest.Record.State
		}
		errs[i] = c.unanswered()
		if c.later() {
			errs[i] = timer.ErrUpgrading
			continue
		}
		for f := range each(c.copies) {
			if f.there() && f.Record.State.Lacks(from.Read.Record.State) || !f.there() && f.Home && f.answered() && !from.OntoLive {
				writes, of = append(writes, k.CopyOf(&from.Read, f.Place)), append(of, i)
			}
		}
	}
	for n, answer := range k.tell(ctx, writes) {
		switch {
		case answer.Err != nil:
			errs[of[n]] = answer.Err
		case answer.Status == store.WriteFactor:
			errs[of[n]] = ErrOtherFactor
		}
	}
	return before, errs
}
