package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/redis/go-redis/v9"

	"chronos/redisstore/shard"
	"chronos/scheduler/timer"
)

// scatter does the work for all items at the same time, and returns when all work is done. For a single item scatter
// starts no goroutine.
func scatter[T any](all []T, do func(i int, one T)) {
	if len(all) == 1 {
		do(0, all[0])
		return
	}
	var wg sync.WaitGroup
	for i, one := range all {
		wg.Go(func() { do(i, one) })
	}
	wg.Wait()
}

// share is one shard's part of a call.
type share struct {
	*shard.Shard
	items   []*shard.Item
	indexes []int // among the items of the call

	job shard.Job // of gathered
	err error
}

// share gives the items to their shards. The function to names an item's shard, and where to put the error if no
// shard has the name. A nil item goes nowhere.
func (s *Store) share(items []*shard.Item, to func(i int) (name string, fault *error)) []share {
	shares := make([]share, 0, len(s.Placement().Shards))
	for i, it := range items {
		if it == nil {
			continue
		}
		name, fault := to(i)
		at := slices.IndexFunc(shares, func(sh share) bool { return sh.Name() == name })
		if at < 0 {
			found, err := s.shard(name)
			if err != nil {
				*fault = err
				continue
			}
			at, shares = len(shares), append(shares, share{Shard: found})
		}
		shares[at].items, shares[at].indexes = append(shares[at].items, it), append(shares[at].indexes, i)
	}
	return shares
}

// gathered has each shard's batcher send the items together with the items of other callers, and hands on every item
// with its index in the call. The item counts for nothing if the share has an error.
func gathered(ctx context.Context, shares []share, answered func(from *share, it *shard.Item, i int)) {
	for at := range shares {
		to := &shares[at]
		to.job, to.err = to.Submit(ctx, to.items)
	}
	for at := range shares {
		from := &shares[at]
		if from.err == nil {
			from.err = from.job.Wait()
		}
		for k, i := range from.indexes {
			answered(from, from.items[k], i)
		}
	}
}

// failure is the error of all items of the share. The effect of the items is unknown, unless the error is
// timer.ErrOverloaded.
func (s *share) failure() error {
	if errors.Is(s.err, timer.ErrOverloaded) {
		return s.err
	}
	return fmt.Errorf("%w: shard %s: %w", timer.ErrUnavailable, s.Name(), s.err)
}

// inGroups makes calls in groups of so many, one group after another. Redis carries out all calls of a round trip before the
// calls of other connections, so a group must be short.
func inGroups(ctx context.Context, sh *shard.Shard, client redis.UniversalClient, size int, calls []*shard.Call) {
	for group := range slices.Chunk(calls, max(size, 1)) {
		sh.Eval(ctx, client, group)
	}
}
