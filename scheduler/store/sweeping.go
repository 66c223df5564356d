package store

import (
	"context"
	"time"
)

// Sweeping serves the sweep, which brings copies to the owners.
type Sweeping interface {
	GivingUp

	// Epoch is the epoch of the topology for which a shard is to be swept: of the last change
	// of where timers belong, or of the time when the shard was given up; 0 for none. Nothing
	// must be swept unless the epoch is steady: another change may be about to come, or this
	// node may have missed a change.
	Epoch(shard string) (epoch int64, steady bool)
	// Scan lists about n of the copies in a partition of a shard, tombstones included, from a
	// cursor on: "" for the beginning; next is "" at the end. A copy that exists throughout is
	// listed at least once.
	Scan(ctx context.Context, shard string, partition int, cursor string, n int) (keys []string, next string, err error)
	// Swept says how far the sweep of a shard is.
	Swept(ctx context.Context, shard string) (SweepState, error)
	// MarkSwept notes that a partition is swept. Once all partitions have been swept since the last
	// WantSweep, the shard misses nothing any more.
	MarkSwept(ctx context.Context, shard string, partition int, mark SweepMark) error
	// WantSweep has all of a shard swept again, since this shard or another shard may lack
	// copies. Missed is how long ago the shard began to miss writes; 0 if the shard has
	// missed none.
	WantSweep(ctx context.Context, shard string, missed time.Duration) error
	// Forget ends the time in which copies may be on former owners, if epoch is the present epoch
	// and all shards have been swept for the epoch. Otherwise Forget does nothing.
	Forget(ctx context.Context, epoch int64) error
}

// SweepMark says for which topology a partition has been swept.
type SweepMark struct {
	Epoch int64
	AtMs  int64 // the beginning of the sweep, by the shard's clock
}

// SweepState is how far the sweep of a shard is.
type SweepState struct {
	Marks    [Partitions]SweepMark
	NowMs    int64         // by the shard's clock, as all times here
	WantedMs int64         // when the sweep was wanted last; 0 if never
	Missed   time.Duration // how long ago the shard began to miss writes that are still missing; 0 if nothing is missing
	// Restarted says that the shard may have lost the last writes, or all data, and that nobody
	// has wanted the shard swept since.
	Restarted bool
}

// Done reports whether a partition has been swept for an epoch, and since the sweep was
// wanted last.
func (s *SweepState) Done(partition int, epoch int64) bool {
	mark := s.Marks[partition]
	return mark.Epoch >= epoch && mark.AtMs >= s.WantedMs
}

// GivingUp is for shards that stay away for too long.
type GivingUp interface {
	// Lost reports whether a shard is given up: no timer belongs there. Lost does not block.
	Lost(shard string) bool
	// Lose gives a shard up, unless another node has: the shard is drained. Lose may do
	// nothing while another change comes first.
	Lose(ctx context.Context, shard string) error
	// Regain has a shard that was given up join again, once the shard is swept. Regain may
	// do nothing, as Lose.
	Regain(ctx context.Context, shard string) error
}
