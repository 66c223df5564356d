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

// Facts asks the shard what the shard says of itself. A Redis that refuses INFO, or lacks some of it, has
// unknown facts.
func (s *Shard) Facts(ctx context.Context) (store.ShardFacts, error) {
	pipe := s.Poll.Pipeline()
	now, info, save := pipe.Time(ctx), pipe.Info(ctx), pipe.ConfigGet(ctx, "save")
	_, err := pipe.Exec(ctx)
	here := time.Now()
	var answer redis.Error
	if err != nil && !errors.As(err, &answer) || now.Err() != nil {
		return store.ShardFacts{}, s.Unavailable(err)
	}
	said := parseInfo(info.Val())
	facts := store.ShardFacts{
		Version: said["redis_version"], UsedMemory: number(said["used_memory"]), MaxMemory: number(said["maxmemory"]),
		ClockAhead: now.Val().Sub(here),
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

// number is a number of an INFO, 0 if the text is none.
func number(text string) int64 {
	n, _ := strconv.ParseInt(text, 10, 64)
	return max(n, 0)
}
