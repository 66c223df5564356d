package storetest

import (
	"context"
	"time"

	"chronos/scheduler/store"
)

// tags are the sums over the live copies of rank 0. A store that keeps sums must have the same sums at any time.
func (s *shard) tags() map[string]int64 {
	sums := map[string]int64{}
	for _, e := range s.entries {
		if e.rank != 0 || e.state.Ended {
			continue
		}
		for _, tag := range e.timer.Tags {
			sums[tag.Type] += int64(tag.Count)
		}
	}
	return sums
}

func (v *view) Tags(ctx context.Context, name string, most int) (store.TagSums, error) {
	var sums store.TagSums
	err := v.m.call(ctx, v.node, "tags", name, func(s *shard, _ time.Time) { sums.ByType = s.tags() })
	if err != nil {
		return store.TagSums{}, err
	}
	for typ := range sums.ByType {
		if len(sums.ByType) <= most {
			break
		}
		delete(sums.ByType, typ)
		sums.Partial = true
	}
	return sums, nil
}

// Recount finds nothing to correct.
func (v *view) Recount(ctx context.Context, name string, _ int, _ map[string]int64) (map[string]int64, error) {
	return nil, v.m.call(ctx, v.node, "recount", name, func(*shard, time.Time) {})
}
