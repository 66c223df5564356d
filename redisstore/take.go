package redisstore

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"chronos/scheduler/store"
	"chronos/scheduler/timer"
)

// Take is store.Store's.
func (s *Store) Take(ctx context.Context, shard string, grace time.Duration, keys []string) []store.Taken {
	results := make([]store.Taken, len(keys))
	sh, err := s.shard(shard)
	if err == nil {
		err = sh.fires()
	}
	if err != nil {
		for i := range results {
			results[i].Err = err
		}
		return results
	}
	counter := s.nextCounter()
	items := make([]*item, len(keys))
	for i, key := range keys {
		items[i] = &item{partition: partitionOf(key), args: []any{key}}
	}
	script := itemScript{name: "take", keys: partitionKeys.three, replies: 2, head: func() []any {
		return []any{s.node, counter, wholeMs(grace), sh.clock.in(s.notAfter)}
	}}
	sh.evalItems(ctx, sh.ask, &s.keys, script, items)
	for i, it := range items {
		if results[i].Err = sh.fires(); results[i].Err == nil {
			results[i] = s.readTaken(sh, counter, keys[i], it)
		}
	}
	return results
}

func takeStatus(word string) store.TakeStatus {
	switch word {
	case "got":
		return store.TakeGot
	case "leased":
		return store.TakeLeased
	case "waiting":
		return store.TakeWaiting
	case "ended":
		return store.TakeEnded
	case "missing":
		return store.TakeMissing
	}
	return store.TakeFailed
}

func (s *Store) readTaken(sh *shard, counter, key string, it *item) store.Taken {
	if it.err != nil {
		return store.Taken{Err: it.err}
	}
	r := reader{text: it.reply[0]}
	taken := store.Taken{Status: takeStatus(r.word())}
	taken.Wait = milliseconds(r.int64())
	scoreMs, previous := r.int64(), r.word()
	if r.err != nil || taken.Status == store.TakeFailed {
		return store.Taken{Err: fmt.Errorf("%w: take: %w", timer.ErrUnavailable, errReply)}
	}
	if taken.Status != store.TakeGot {
		if taken.Status != store.TakeMissing {
			there := reader{text: it.reply[1]}
			taken.Record.State = there.position()
			taken.Record.State.Ended = taken.Status == store.TakeEnded
		}
		return taken
	}
	token := s.node + ":" + counter + ":" + strconv.FormatInt(it.nowUs/1000, 10)
	taken.Claimed = s.claimed(store.Lease{Shard: sh.name, Key: key, Token: token, Partition: it.partition}, scoreMs, it.reply[1])
	taken.DueIn = sh.clock.until(scoreMs)
	if previous != "-" {
		taken.Previous = nodeOf(previous)
	}
	return taken
}
