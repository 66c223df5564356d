package replica

import (
	"cmp"
	"context"
	"slices"

	"chronos/scheduler/shard"
	"chronos/scheduler/store"
	"chronos/scheduler/timer"
)

// Found is what a shard has of a timer.
type Found struct {
	shard.Place
	store.ReadResult
	Reached bool // the shard has answered, and this node can read the answer
}

// Copies reads all copies of a timer in one round. The owners come first, in the order of their ranks, also
// without a copy or an answer; then come further places with a copy, or without an answer. Errors:
// timer.ErrNotFound, if all places have answered and no place has a copy, live or ended; timer.ErrUnavailable,
// if this node doesn't know where timers belong.
func (k *Keeper) Copies(ctx context.Context, id timer.ID) ([]Found, error) {
	if err := k.store.Writable(); err != nil {
		return nil, err
	}
	c := k.ask(ctx, id)
	if c.newest == nil && c.unanswered() == nil {
		return nil, timer.ErrNotFound
	}
	all := make([]Found, 0, len(c.copies))
	for f := range each(c.copies) {
		found := Found{Place: f.Place, ReadResult: f.ReadResult, Reached: f.answered()}
		if f.Home || f.there() || !found.Reached && !f.Vanished() {
			all = append(all, found)
		}
	}
	slices.SortStableFunc(all, func(a, b Found) int { return cmp.Compare(a.order(), b.order()) })
	return all, nil
}

// order is the rank of an owner; further places come behind all owners.
func (f *Found) order() int {
	if f.Home {
		return f.Rank
	}
	return timer.MaxReplicationFactor + f.Rank
}
