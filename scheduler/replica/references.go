package replica

import (
	"context"
	"fmt"
	"slices"

	"chronos/scheduler/store"
	"chronos/scheduler/timer"
)

// referenceBytes is about how many bytes of records are read together when copies are dropped.
const referenceBytes = 4 << 20

var errUnsteady = fmt.Errorf("%w: where timers belong is about to change", timer.ErrUnavailable)

// DropReferences removes the timers' copies on a shard from which the timers have moved, once all
// owners are up to date, as the sweep does (rule "sweep copies to their owners"). The only copy of
// a timer stays, and so does a copy that is about to fire or firing. Errors: ErrShardUnknown, and
// ErrUnavailable, with which some copies may have been removed.
func (k *Keeper) DropReferences(ctx context.Context, shard string, keys []string) error {
	if err := k.shards.Knows(shard); err != nil {
		return err
	}
	sh := k.shards.Shard(shard)
	if sh == nil || sh.Away() {
		return fmt.Errorf("%w: shard %s is silent", timer.ErrUnavailable, shard)
	}
	epoch, steady := k.store.Epoch(shard)
	if !steady {
		return errUnsteady
	}
	heads, err := k.store.Heads(ctx, shard, slices.Compact(slices.Sorted(slices.Values(keys))), store.Pick{})
	if err != nil {
		return err
	}
	heads = slices.DeleteFunc(heads, func(h store.Head) bool { return h.State.Version == 0 || k.shards.IsHome(shard, &h) })
	for len(heads) > 0 {
		var page []string
		for bytes := 0; len(heads) > 0 && len(page) < sweepPage && bytes < referenceBytes; heads = heads[1:] {
			page, bytes = append(page, heads[0].Key), bytes+heads[0].Bytes
		}
		if now, steady := k.store.Epoch(shard); now != epoch || !steady {
			return errUnsteady
		}
		k.sweeps.Of(sh).sweepKeys(ctx, page)
		if ctx.Err() != nil {
			return fmt.Errorf("%w: shard %s: %w", timer.ErrUnavailable, shard, ctx.Err())
		}
	}
	return nil
}
