package replica

import (
	"context"

	"chronos/scheduler/store"
	"chronos/scheduler/timer"
	"chronos/scheduler/timing"
)

// Lookup reads the newest copy of a timer. Errors: ErrNotFound, if no shard has a live copy;
// ErrUnavailable, if no copy was found and some shard did not answer, or this node doesn't know
// where timers belong.
func (k *Keeper) Lookup(ctx context.Context, id timer.ID) (store.ReadResult, error) {
	if err := k.store.Writable(); err != nil {
		return store.ReadResult{}, err
	}
	if k.shards.Several() {
		var cancel context.CancelFunc
		ctx, cancel = k.config.Awake.WithTimeout(ctx, timing.RoundPatience)
		defer cancel()
	}
	c := k.compare(ctx, []timer.ID{id})[0]
	if c.newest == nil {
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
