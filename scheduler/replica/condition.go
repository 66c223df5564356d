package replica

import (
	"context"
	"fmt"

	"chronos/scheduler/store"
	"chronos/scheduler/timer"
)

// Present is what a condition was judged by: the newest copy of a timer, live or ended; zero without a
// copy.
type Present struct {
	store.Newest
	RF int // of the live timer; 0 if the timer does not exist
}

// Written is the version, or the later revision, of the newest copy; 0 without a copy.
func (p *Present) Written() timer.Version { return max(p.Version, p.Rev) }

// Judge asks all owners of a timer for the newest version, and judges the condition (rule
// "conditions"). Errors: *timer.ConditionError; timer.ErrUndecided, if an owner does not answer or
// the topology changes; timer.ErrOverloaded; timer.ErrUnavailable, if this node doesn't know where
// timers belong.
func (k *Keeper) Judge(ctx context.Context, id timer.ID, cond timer.Condition) (Present, error) {
	_, found, err := k.judge(ctx, id, cond)
	return found, err
}

// judge is Judge, with the copies that were read.
func (k *Keeper) judge(ctx context.Context, id timer.ID, cond timer.Condition) (c comparison, found Present, err error) {
	if err := k.store.Writable(); err != nil {
		return c, found, err
	}
	if k.shards.Changing(id.Key) {
		return c, found, fmt.Errorf("%w: the topology changes", timer.ErrUndecided)
	}
	c = k.ask(ctx, id)
	if err := c.unanswered(); err != nil {
		return c, found, fmt.Errorf("%w: %w", timer.ErrUndecided, err)
	}
	live := timer.Version(0)
	if c.newest != nil {
		state := &c.newest.Record.State
		if found.Version, found.Rev = state.Version, state.Rev; !state.Ended {
			live, found.RF = state.Written(), c.newest.Record.ID.RF
		}
	}
	if !cond.Met(live) {
		return c, Present{}, &timer.ConditionError{Present: live}
	}
	return c, found, nil
}

// If is a wish with a condition: the timer is as Judge has found the timer. Such a wish is never sent
// again above a newer version, so the wish's version is above all that was found.
func (k *Keeper) If(w Wish, found Present) Wish {
	w.judged = &found
	w.Version = max(w.Version, max(found.Version, found.Rev).Above(k.shards.NextTag())).WithCondition()
	return w
}

// firstOwner decides about a wish with a condition.
func (a *attempt) firstOwner() *target {
	for t := range each(a.targets) {
		if t.Home && t.Rank == 0 {
			return t
		}
	}
	return nil
}

// planFirst plans the write to the first owner alone, until the first owner has taken the write.
func (a *attempt) planFirst(writes []store.Write) []store.Write {
	if t := a.firstOwner(); t != nil && t.progress == toTell {
		return a.send(t, sentWrite, a.writeTo(t).If(a.judged.Newest), writes)
	}
	return writes
}

// undecided reports whether a wish with a condition waits for its first owner.
func (a *attempt) undecided() bool { return a.judged != nil && !a.decided }

// judgeFirst says how a try ended in which the first owner did not take the write. No other copy was
// written to. An earlier try without an answer may have been carried out, and replaced since.
func (a *attempt) judgeFirst() {
	t := a.firstOwner()
	a.err, a.over = nil, true
	switch {
	case t == nil:
		a.err = fmt.Errorf("%w: the timer has no owner", timer.ErrUndecided)
	case t.progress != told && !t.tried && !a.unanswered:
		a.err = fmt.Errorf("%w: %w", timer.ErrUndecided, t.answer.Err)
	case t.progress != told:
		a.unanswered, a.over, a.err = true, false, t.answer.Err
		a.again(0)
	case t.answer.Status == store.WriteFactor:
		a.err = FactorChanged(t.answer.RF)
	case a.unanswered:
		a.err = timer.ErrOvertaken
	case a.goesOn != nil && t.answer.Firing > 0 && t.answer.State.Version == a.judged.Version:
		a.err = timer.ErrFiring
	case a.read != nil && t.answer.Status != store.WriteNewer, t.answer.Status == store.WriteOlder:
		a.err = fmt.Errorf("%w: the first owner lacks the version", timer.ErrUndecided)
	default:
		present := t.answer.State.Written()
		if t.answer.State.Ended {
			present = 0
		}
		a.err = &timer.ConditionError{Present: present}
	}
}
