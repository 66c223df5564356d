package scheduler

import (
	"context"

	"chronos/scheduler/listing"
	"chronos/scheduler/replica"
	"chronos/scheduler/timer"
)

// Copies tells of each copy of a timer, in one round of reads: the owners in the order of their ranks, then
// further shards that have a copy, or may have a copy and gave no answer. Errors: ErrNotFound, if all shards
// have answered and none has a copy, live or ended; ErrUnavailable, if this node doesn't know where timers
// belong.
func (s *Scheduler) Copies(ctx context.Context, id timer.ID) ([]listing.Copy, error) {
	found, err := s.copies.Copies(ctx, id)
	if err != nil {
		return nil, err
	}
	all := make([]listing.Copy, len(found))
	for i := range found {
		all[i] = copyOf(&found[i])
	}
	return all, nil
}

func copyOf(f *replica.Found) listing.Copy {
	state := f.Record.State
	c := listing.Copy{Shard: f.Shard.Name, Rank: f.Rank, Owner: f.Home, State: stateOf(f)}
	if state.Version == 0 {
		return c
	}
	c.Rank, c.Version, c.Look, c.Lease = f.Record.Rank, state, f.Look, f.Holder
	if !state.Ended {
		c.Due = f.Due
	}
	return c
}

func stateOf(f *replica.Found) listing.CopyState {
	switch state := f.Record.State; {
	case !f.Reached:
		return listing.CopyUnreached
	case state.Version == 0:
		return listing.CopyMissing
	case state.Ended:
		return listing.CopyTombstone
	case f.Fired:
		return listing.CopyFiring
	case f.Leased:
		return listing.CopyLeased
	case state.Attempt > 0:
		return listing.CopyRetrying
	}
	return listing.CopyWaiting
}
