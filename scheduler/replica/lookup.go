package replica

import (
	"context"
	"errors"

	"chronos/scheduler/shard"
	"chronos/scheduler/store"
	"chronos/scheduler/timer"
	"chronos/scheduler/timing"
)

// Lookup reads the newest copy of a timer. Errors: ErrNotFound, if no shard has a live copy;
// ErrUnavailable, if no copy was found and some shard did not answer, if no live copy was found and only a later chronos can read
// some copy, or this node doesn't know where timers belong.
func (k *Keeper) Lookup(ctx context.Context, id timer.ID) (store.ReadResult, error) {
	if err := k.store.Writable(); err != nil {
		return store.ReadResult{}, err
	}
	c := k.ask(ctx, id)
	// A tombstone says nothing of a timer in a later format: the DELETE may have reached no owner.
	if c.newest == nil || c.newest.Record.State.Ended && c.later() {
		if err := c.unanswered(); err != nil {
			return store.ReadResult{}, err
		}
		return store.ReadResult{}, timer.ErrNotFound
	}
	result := c.newest.ReadResult
	for f := range each(c.copies) {
		if f.there() && f.Err == nil {
			result.Record.ID.Hint |= f.Shard.Mask
		}
	}
	return result, result.Err
}

// ask reads all copies of a timer.
func (k *Keeper) ask(ctx context.Context, id timer.ID) comparison {
	if k.shards.Several() {
		var cancel context.CancelFunc
		ctx, cancel = k.config.Awake.WithTimeout(ctx, timing.RoundPatience)
		defer cancel()
	}
	return k.compare(ctx, []timer.ID{id})[0]
}

// Silent are the shards that did not answer a moment ago, and why.
type Silent map[*shard.Shard]error

// OwnFactor is the replication factor with which a timer is stored, which decides where the copies
// are; 0 if no copy was found. A silent shard is left out: a copy on another shard decides, and
// without such a copy the timer counts as new. Errors: ErrOverloaded; a copy can't be read.
func (k *Keeper) OwnFactor(ctx context.Context, id timer.ID) (own int, silent Silent, err error) {
	c := k.ask(ctx, id)
	for f := range each(c.copies) {
		if errors.Is(f.Err, timer.ErrOverloaded) {
			return 0, nil, f.Err
		}
		if errors.Is(f.Err, timer.ErrUnavailable) {
			if silent == nil {
				silent = make(Silent)
			}
			silent[f.Shard] = f.Err
		}
	}
	switch {
	case c.newest == nil || c.newest.Record.State.Ended:
		return 0, silent, nil
	case c.newest.Err != nil:
		return 0, nil, c.newest.Err
	}
	return c.newest.Record.ID.RF, silent, nil
}
