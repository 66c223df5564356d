package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"chronos/scheduler"
)

// sweptKey is a hash of each shard: lane and partition to the epoch for which it
// has been swept.
const sweptKey = "chronos:swept"

// lanes are all that there may be.
func lanes() []string { return []string{"http", "kafka"} }

func sweptField(lane string, partition int) string { return fmt.Sprintf("%s.%02d", lane, partition) }

// Epoch is scheduler.Store's.
func (s *Store) Epoch() int64 { return s.current.Load().topology.Moved }

// Scan is scheduler.Store's.
func (s *Store) Scan(ctx context.Context, shard string, partition int, cursor string, n int) (keys []string, next string, err error) {
	sh, err := s.shard(shard)
	if err != nil {
		return nil, "", err
	}
	if err := sh.ready(ctx); err != nil {
		return nil, "", err
	}
	at, _ := strconv.ParseUint(cursor, 10, 64) // "" is the begin
	pairs, at, err := sh.poll.ZScan(ctx, s.keys[partition].due, at, "", int64(n)).Result()
	if err != nil {
		return nil, "", sh.unavailable(err)
	}
	for i := 0; i < len(pairs); i += 2 {
		keys = append(keys, pairs[i])
	}
	if at != 0 {
		next = strconv.FormatUint(at, 10)
	}
	return keys, next, nil
}

// Swept is scheduler.Store's.
func (s *Store) Swept(ctx context.Context, shard string) (epochs [scheduler.Partitions]int64, err error) {
	sh, err := s.shard(shard)
	if err != nil {
		return epochs, err
	}
	return sh.sweptFor(ctx, s.lane)
}

func (s *shard) sweptFor(ctx context.Context, lane string) (epochs [scheduler.Partitions]int64, err error) {
	if err := s.ready(ctx); err != nil {
		return epochs, err
	}
	fields := make([]string, len(epochs))
	for p := range fields {
		fields[p] = sweptField(lane, p)
	}
	marks, err := s.poll.HMGet(ctx, sweptKey, fields...).Result()
	if err != nil {
		return epochs, s.unavailable(err)
	}
	for p, mark := range marks {
		if text, is := mark.(string); is {
			epochs[p], _ = strconv.ParseInt(text, 10, 64) // what can't be read is swept again
		}
	}
	return epochs, nil
}

// MarkSwept is scheduler.Store's.
func (s *Store) MarkSwept(ctx context.Context, shard string, partition int, epoch int64) error {
	sh, err := s.shard(shard)
	if err != nil {
		return err
	}
	if err := sh.poll.HSet(ctx, sweptKey, sweptField(s.lane, partition), epoch).Err(); err != nil {
		return sh.unavailable(err)
	}
	return nil
}

// Forget is scheduler.Store's.
func (s *Store) Forget(ctx context.Context, epoch int64) error {
	t := s.Topology()
	if t.Moved != epoch || len(t.Former) == 0 || t.Next != nil {
		return nil
	}
	for _, sh := range s.current.Load().shards {
		for _, lane := range lanes() {
			if err := sh.isSwept(ctx, lane, epoch); err != nil {
				return err
			}
		}
	}
	_, err := s.change(ctx, func(now *Topology) (Topology, error) {
		if now.Moved != epoch || len(now.Former) == 0 || now.Next != nil {
			return *now, now.refuse("the topology has changed since")
		}
		return now.swept(), nil
	})
	if _, refused := errors.AsType[*RefusedError](err); refused {
		return nil // somebody else did it, or another change came first
	}
	return err
}

// isSwept is nil if all of a lane on the shard has been swept for the epoch, or
// nothing is there.
func (s *shard) isSwept(ctx context.Context, lane string, epoch int64) error {
	epochs, err := s.sweptFor(ctx, lane)
	if err != nil {
		return err
	}
	keys := laneKeys(lane)
	var missing []string
	pipe := s.poll.Pipeline()
	counts := map[int]*redis.IntCmd{}
	for p, mark := range epochs {
		if mark < epoch {
			counts[p] = pipe.ZCard(ctx, keys[p].due)
		}
	}
	if len(counts) == 0 {
		return nil
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return s.unavailable(err)
	}
	for p, count := range counts {
		if count.Val() > 0 {
			missing = append(missing, sweptField(lane, p))
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("%w: shard %s: not swept yet: %s", scheduler.ErrRefused, s.name, strings.Join(missing, " "))
	}
	return nil
}
