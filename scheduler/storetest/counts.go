package storetest

import (
	"context"
	"time"

	"chronos/scheduler/store"
)

func (v *view) DueCounts(ctx context.Context, name string, from time.Time, step time.Duration, buckets int) ([]int64, error) {
	counts := make([]int64, buckets)
	err := v.m.call(ctx, v.node, "due counts", name, func(s *shard, _ time.Time) {
		for _, e := range s.entries {
			ahead := e.lookMs - from.UnixMilli()
			if n := ahead / step.Milliseconds(); ahead >= 0 && n < int64(buckets) {
				counts[n]++
			}
		}
	})
	return counts, err
}

// Sample looks at all copies.
func (v *view) Sample(ctx context.Context, name string) (found store.Sample, err error) {
	err = v.m.call(ctx, v.node, "sample", name, func(s *shard, _ time.Time) {
		for _, e := range s.entries {
			found.Copies++
			found.Looked++
			if e.rank == 0 && !e.state.Ended {
				found.Timers++
			}
		}
	})
	return found, err
}
