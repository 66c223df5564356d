package shard

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"chronos/scheduler/store"
)

// Facts asks the shard what the shard says of itself, as FactsOf does.
func (s *Shard) Facts(ctx context.Context) (store.ShardFacts, error) {
	facts, err := FactsOf(ctx, s.Poll)
	if err != nil {
		return store.ShardFacts{}, s.Unavailable(err)
	}
	return facts, nil
}

// FactsOf asks a Redis what the Redis says of itself. A Redis that refuses INFO, or lacks some of it, has
// unknown facts.
func FactsOf(ctx context.Context, client redis.UniversalClient) (store.ShardFacts, error) {
	pipe := client.Pipeline()
	now, info, save := pipe.Time(ctx), pipe.Info(ctx), pipe.ConfigGet(ctx, "save")
	before := time.Now()
	_, err := pipe.Exec(ctx)
	after := time.Now()
	var answer redis.Error
	if err != nil && !errors.As(err, &answer) || now.Err() != nil {
		return store.ShardFacts{}, err
	}
	said := parseInfo(info.Val())
	facts := store.ShardFacts{
		Version: said["redis_version"], UsedMemory: number(said["used_memory"]), MaxMemory: number(said["maxmemory"]),
		ClockAhead: ahead(now.Val(), before, after),
	}
	if valkey := said["valkey_version"]; valkey != "" {
		facts.Version = "valkey " + valkey
	}
	policy := said["maxmemory_policy"]
	facts.Evicts = policy != "" && policy != "noeviction"
	switch {
	case said["aof_enabled"] == "1":
		facts.Persists = "aof"
	case save.Err() == nil && save.Val()["save"] != "":
		facts.Persists = "rdb"
	case save.Err() == nil && said["aof_enabled"] == "0":
		facts.Persists = "none"
	}
	facts.Version = strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return -1
		}
		return r
	}, facts.Version[:min(len(facts.Version), 32)])
	return facts, nil
}

// ahead is how far a clock is ahead at least, which was read between two instants; negative if the clock is behind.
func ahead(clock, before, after time.Time) time.Duration {
	switch {
	case clock.After(after):
		return clock.Sub(after)
	case clock.Before(before):
		return clock.Sub(before)
	}
	return 0
}

// number is a number of an INFO, 0 if the text is none.
func number(text string) int64 {
	n, _ := strconv.ParseInt(text, 10, 64)
	return max(n, 0)
}
