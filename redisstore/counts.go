package redisstore

import (
	"context"
	"strconv"
	"time"

	"chronos/redisstore/shard"
	"chronos/scheduler/store"
)

// countedTogether is how many buckets the calls of a round trip count: about a millisecond of Redis' time. Samples of
// sampledTogether partitions take as long.
const countedTogether, sampledTogether = 300, 8

// DueCounts is store.Store's.
func (s *Store) DueCounts(ctx context.Context, name string, from time.Time, step time.Duration, buckets int) ([]int64, error) {
	sums := make([]int64, buckets)
	err := s.eachPartition(ctx, name, countedTogether/buckets, func(p int) *shard.Call {
		return &shard.Call{Script: "histogram", Keys: []string{s.keys[p].due}, Args: []any{from.UnixMilli(), step.Milliseconds(), buckets}}
	}, func(numbers []int64) bool {
		if len(numbers) != buckets {
			return false
		}
		for i, n := range numbers {
			sums[i] += n
		}
		return true
	})
	return sums, err
}

const (
	// sampled is how many copies of a partition a sample looks at, sampledBytes about how long their records
	// are at most.
	sampled      = 32
	sampledBytes = 256 << 10
)

// Sample is store.Store's.
func (s *Store) Sample(ctx context.Context, name string) (found store.Sample, err error) {
	err = s.eachPartition(ctx, name, sampledTogether, func(p int) *shard.Call {
		return &shard.Call{Script: "sample", Keys: []string{s.keys[p].timers}, Args: []any{sampled, sampledBytes}}
	}, func(numbers []int64) bool {
		if len(numbers) != 3 {
			return false
		}
		copies, looked, first := numbers[0], numbers[1], numbers[2]
		found.Copies, found.Looked = found.Copies+copies, found.Looked+int(looked)
		if looked > 0 {
			found.Timers += float64(copies) * float64(first) / float64(looked)
		}
		return true
	})
	return found, err
}

// eachPartition makes a call for each partition of a shard, so many in a round trip, and has the numbers of each
// answer taken. The function take reports whether the answer fits.
func (s *Store) eachPartition(ctx context.Context, name string, together int, callOf func(p int) *shard.Call, take func(numbers []int64) bool) error {
	sh, err := s.readyShard(ctx, name)
	if err != nil {
		return err
	}
	calls := make([]*shard.Call, Partitions)
	for p := range calls {
		calls[p] = callOf(p)
	}
	inGroups(ctx, sh, sh.Poll, together, calls)
	for _, c := range calls {
		words, err := sh.Texts(c)
		if err != nil {
			return err
		}
		numbers := make([]int64, len(words))
		for i, word := range words {
			if numbers[i], err = strconv.ParseInt(word, 10, 64); err != nil {
				return sh.Unavailable(shard.ErrReply)
			}
		}
		if !take(numbers) {
			return sh.Unavailable(shard.ErrReply)
		}
	}
	return nil
}
