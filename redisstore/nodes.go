package redisstore

import (
	"context"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"chronos/scheduler"
)

// deadAfter is how long a node counts as alive after it announced itself.
const deadAfter = 3 * time.Second

// Beat is scheduler.Store's. The time is the shard's, as estimated from its last
// answer: a node's clock may be wrong.
func (s *Store) Beat(ctx context.Context, shard string) ([]string, error) {
	sh, err := s.shard(shard)
	if err != nil {
		return nil, err
	}
	if err := sh.ready(ctx); err != nil {
		return nil, err
	}
	now := sh.clock.in(0)
	dead := strconv.FormatInt(now-deadAfter.Milliseconds(), 10)
	pipe := sh.poll.Pipeline()
	pipe.ZRemRangeByScore(ctx, nodesKey, "-inf", "("+dead)
	pipe.ZAdd(ctx, nodesKey, redis.Z{Score: float64(now), Member: s.node})
	nodes := pipe.ZRange(ctx, nodesKey, 0, -1)
	clock := pipe.Time(ctx)
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, sh.unavailable(err)
	}
	sh.clock.learn(clock.Val().UnixMicro())
	return nodes.Val(), nil
}

// Leave withdraws this node from the shard, so that nobody counts on it.
func (s *Store) Leave(ctx context.Context, shard string) error {
	sh, err := s.shard(shard)
	if err != nil {
		return err
	}
	if err := sh.poll.ZRem(ctx, nodesKey, s.node).Err(); err != nil {
		return sh.unavailable(err)
	}
	return nil
}

// Survey is scheduler.Store's.
func (s *Store) Survey(ctx context.Context, shard string) (scheduler.Survey, error) {
	sh, err := s.shard(shard)
	if err != nil {
		return scheduler.Survey{}, err
	}
	if err := sh.ready(ctx); err != nil {
		return scheduler.Survey{}, err
	}
	pipe := sh.poll.Pipeline()
	var counts [Partitions]*redis.IntCmd
	var firsts [Partitions]*redis.ZSliceCmd
	for p := range s.keys {
		counts[p] = pipe.ZCard(ctx, s.keys[p].due)
		firsts[p] = pipe.ZRangeWithScores(ctx, s.keys[p].due, 0, 0)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return scheduler.Survey{}, sh.unavailable(err)
	}
	var survey scheduler.Survey
	now := sh.clock.in(0)
	for p := range s.keys {
		survey.Pending += counts[p].Val()
		for _, first := range firsts[p].Val() {
			survey.Overdue = max(survey.Overdue, milliseconds(now-int64(first.Score)))
		}
	}
	return survey, nil
}
