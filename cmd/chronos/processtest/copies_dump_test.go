package processtest

import (
	"context"
	"fmt"
	"regexp"
	"time"

	"github.com/redis/go-redis/v9"

	"chronos/scheduler/verify/history"
	"chronos/scheduler/verify/record"
)

// contents are the contents of all shards.
type contents struct {
	copies     []history.Copy
	strays     []history.Stray
	live       int // copies, without tombstones
	leases     int
	tombstones int
	letters    int // dead letters
}

var (
	partitionKey = regexp.MustCompile(`^chronos:\{http\.(?:0\d|1[0-5])\}:(due|timers|leases|dead|tags|deliveries)$`)
	shardKey     = regexp.MustCompile(`^chronos:(\{[a-z]+\}:(nodes|clocks|status)|shard|topology|swept)$`)
)

// readContents reads all shards directly, not through the nodes.
func (c *cluster) readContents(ctx context.Context) (contents, error) {
	var all contents
	for _, s := range c.shards {
		if err := all.readShard(ctx, s); err != nil {
			return all, fmt.Errorf("read shard %s: %w", s.name, err)
		}
	}
	return all, nil
}

func (all *contents) readShard(ctx context.Context, s *shardProcess) error {
	now, err := s.Admin.Time(ctx).Result()
	if err != nil {
		return err
	}
	keys, err := s.Admin.Keys(ctx, "*").Result()
	if err != nil {
		return err
	}
	for _, key := range keys {
		if !partitionKey.MatchString(key) && !shardKey.MatchString(key) {
			all.stray(s, key)
		}
	}
	for p := range 16 {
		if err := all.readPartition(ctx, s, "chronos:{http."+twoDigits(p)+"}:", now); err != nil {
			return err
		}
	}
	return nil
}

func (all *contents) stray(s *shardProcess, key string) {
	all.strays = append(all.strays, history.Stray{Shard: s.name, Key: key})
}

// readPartition reads all keys of a partition at the same instant.
func (all *contents) readPartition(ctx context.Context, s *shardProcess, prefix string, now time.Time) error {
	pipe := s.Admin.TxPipeline()
	timers, leased := pipe.HGetAll(ctx, prefix+"timers"), pipe.HGetAll(ctx, prefix+"leases")
	due, dead := pipe.ZRangeWithScores(ctx, prefix+"due", 0, -1), pipe.ZCard(ctx, prefix+"dead")
	if _, err := pipe.Exec(ctx); err != nil {
		return err
	}
	all.letters += int(dead.Val())
	scores := scoresOf(due.Val())
	for key, text := range timers.Val() {
		if key == "#" {
			continue
		}
		found, err := record.Parse(key, text)
		if err != nil {
			return err
		}
		score, scheduled := scores[key]
		if delete(scores, key); !scheduled {
			all.stray(s, prefix+"timers "+key+" (without a time)")
		}
		_, found.Leased = leased.Val()[key]
		found.Shard, found.ScoreMs = s.name, score-now.UnixMilli()
		all.copies = append(all.copies, found)
		if found.Ended {
			all.tombstones++
		} else {
			all.live++
		}
	}
	for key := range scores {
		all.stray(s, prefix+"due "+key+" (without a record)")
	}
	for key := range leased.Val() {
		all.leases++
		if timers.Val()[key] == "" {
			all.stray(s, prefix+"leases "+key+" (without a record)")
		}
	}
	return nil
}

func scoresOf(due []redis.Z) map[string]int64 {
	scores := make(map[string]int64, len(due))
	for _, z := range due {
		if key, ok := z.Member.(string); ok {
			scores[key] = int64(z.Score)
		}
	}
	return scores
}
