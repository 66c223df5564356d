package replica

import (
	"context"
	"fmt"

	"chronos/scheduler/shard"
	"chronos/scheduler/store"
	"chronos/scheduler/timer"
)

// hastening has the copies of a timer come due.
type hastening struct {
	comparison
	k       *Keeper
	cond    timer.Condition
	receipt timer.Receipt
}

// Hasten has the next pop of a timer, or the retry that the timer waits for, come due now, on a condition
// (rule "fire now"). Errors: timer.ErrNotFound; timer.ErrFiring; *timer.ConditionError; timer.ErrOvertaken;
// timer.ErrUnavailable; timer.ErrOverloaded. With ErrUnavailable the pop may come due all the same.
func (k *Keeper) Hasten(ctx context.Context, id timer.ID, cond timer.Condition) (timer.Receipt, error) {
	if err := k.store.Writable(); err != nil {
		return timer.Receipt{}, err
	}
	h := hastening{comparison: k.ask(ctx, id), k: k, cond: cond}
	if err := h.judge(); err != nil {
		return timer.Receipt{}, err
	}
	best, err := h.decide(ctx)
	if err != nil {
		return timer.Receipt{}, err
	}
	h.tellRest(ctx, best)
	return h.receipt, nil
}

// judge says whether the timer is there, meets the condition, and has no callback under way, as far as the
// copies that answered know.
func (h *hastening) judge() error {
	if h.newest == nil {
		if err := h.unanswered(); err != nil {
			return err
		}
	}
	present := timer.Version(0)
	if h.newest != nil && !h.newest.Record.State.Ended {
		present = h.newest.Record.State.Written()
	}
	switch {
	case !h.cond.Met(present):
		return &timer.ConditionError{Present: present}
	case present == 0:
		return timer.ErrNotFound
	case h.newest.Err != nil:
		return h.newest.Err
	case h.firing():
		return timer.ErrFiring
	}
	return nil
}

// decide hastens the copy of the best rank that answers. Only then the other copies come due, so that a
// refusal leaves all copies as they are.
func (h *hastening) decide(ctx context.Context) (best *finding, err error) {
	var why error
	unanswered := false // a copy may be due, and may have popped
	for f := range each(h.copies) {
		switch order := f.Record.State.Compare(h.newest.Record.State); {
		case !f.answered():
			why = f.Err
			continue
		case f.there() && f.Home && order < 0:
			return nil, fmt.Errorf("%w: shard %s has not heard yet of the last callback or write", timer.ErrUnavailable, f.Shard.Name)
		case !f.there() || order < 0:
			continue
		}
		answer := h.send(ctx, f)[0]
		if answer.Err != nil {
			why, unanswered = answer.Err, true
			continue
		}
		switch err := h.refused(&answer); {
		case err != nil && unanswered:
			return nil, fmt.Errorf("%w: a copy gave no answer, and another copy has changed: the pop may have come", timer.ErrUnavailable)
		case err != nil:
			return nil, err
		}
		state := h.newest.Record.State
		h.receipt = timer.Receipt{ID: h.id, Version: state.Written(), Due: answer.Due.Add(-answer.Wait), Copies: 1}
		h.receipt.ID.Hint = f.Shard.Mask
		f.Shard.PokeIfSoon(answer.Partition, f.Offset(h.spacing()))
		return f, nil
	}
	if why == nil {
		why = timer.ErrUnavailable
	}
	return nil, fmt.Errorf("no copy of the timer comes due: %w", why)
}

// refused is why a copy was not hastened; nil if the copy is due now, or leased.
func (h *hastening) refused(answer *store.Written) error {
	want, there := h.newest.Record.State, answer.State
	switch {
	case answer.Status == store.WriteNone:
		return fmt.Errorf("%w: the copy has gone meanwhile", timer.ErrUnavailable)
	case there.Ended:
		return timer.ErrNotFound
	case there.Version != want.Version || there.Rev > want.Rev:
		if h.cond.OneOf != nil {
			return &timer.ConditionError{Present: there.Written()}
		}
		return timer.ErrOvertaken
	case there.Compare(want) != 0:
		return timer.ErrFiring
	}
	return nil
}

// send hastens copies. The copy of the best rank, which is alone, must have no later revision.
func (h *hastening) send(ctx context.Context, to ...*finding) []store.Written {
	state, spacing := h.newest.Record.State, h.spacing()
	writes := make([]store.Write, len(to))
	for i, f := range to {
		writes[i] = store.Hasten(f.Copy(h.id), state, f.Offset(spacing))
		if h.receipt.Copies == 0 {
			writes[i] = writes[i].If(store.Newest{Version: state.Version, Rev: state.Rev})
		}
	}
	return h.k.merge(ctx, writes)
}

// tellRest hastens the other copies, as far as the copies can be reached.
func (h *hastening) tellRest(ctx context.Context, best *finding) {
	var rest []*finding
	for f := range each(h.copies) {
		switch {
		case f == best || f.answered() && !f.there():
		case f.Shard.Away():
			h.missed(f)
		default:
			rest = append(rest, f)
		}
	}
	if len(rest) == 0 {
		return
	}
	for i, answer := range h.send(ctx, rest...) {
		switch f := rest[i]; {
		case answer.Err != nil:
			h.missed(f)
		case f.Home && answer.Status != store.WriteNone && h.refused(&answer) == nil:
			h.receipt.Copies++
			h.receipt.ID.Hint |= f.Shard.Mask
		}
	}
}

func (h *hastening) missed(f *finding) {
	if f.Home {
		h.receipt.Unreached++
	}
}

func (h *hastening) spacing() shard.Spacing { return h.k.shards.Spacing(&h.newest.Record) }
