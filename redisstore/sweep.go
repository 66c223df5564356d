package redisstore

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"chronos/redisstore/shard"
	"chronos/scheduler/store"
	"chronos/scheduler/timer"
)

// Scan is store.Store's.
func (s *Store) Scan(ctx context.Context, name string, partition int, cursor string, n int) (keys []string, next string, err error) {
	sh, err := s.readyShard(ctx, name)
	if err != nil {
		return nil, "", err
	}
	at, _ := strconv.ParseUint(cursor, 10, 64) // "" is the beginning
	pairs, at, err := sh.Poll.ZScan(ctx, s.keys[partition].due, at, "", int64(n)).Result()
	if err != nil {
		return nil, "", sh.Unavailable(err)
	}
	for i := 0; i < len(pairs); i += 2 {
		keys = append(keys, pairs[i])
	}
	if at != 0 {
		next = strconv.FormatUint(at, 10)
	}
	return keys, next, nil
}

// Swept is store.Store's.
func (s *Store) Swept(ctx context.Context, name string) (store.SweepState, error) {
	sh, err := s.shard(name)
	if err != nil {
		return store.SweepState{}, err
	}
	return sh.Swept(ctx, s.lane)
}

// MarkSwept is store.Store's.
func (s *Store) MarkSwept(ctx context.Context, name string, partition int, mark store.SweepMark) error {
	sh, err := s.shard(name)
	if err != nil {
		return err
	}
	return sh.MarkSwept(ctx, s.lane, partition, mark)
}

// WantSweep is store.Store's.
func (s *Store) WantSweep(ctx context.Context, name string, missed time.Duration) error {
	sh, err := s.shard(name)
	if err != nil {
		return err
	}
	return sh.WantSweep(ctx, s.lane, missed)
}

// isSwept is nil if all of a shard has been swept for the epoch, or is empty.
func (s *Store) isSwept(ctx context.Context, name string, epoch int64) error {
	sh, err := s.shard(name)
	if err != nil {
		return err
	}
	for _, lane := range shard.Lanes() {
		if err := isSwept(ctx, sh, lane, epoch); err != nil {
			return err
		}
	}
	return nil
}

// isSwept is nil if all of a deliverer kind on the shard has been swept for the epoch, or is empty.
func isSwept(ctx context.Context, sh *shard.Shard, lane string, epoch int64) error {
	state, err := sh.Swept(ctx, lane)
	if err != nil {
		return err
	}
	keys := laneKeys(lane)
	var missing []string
	pipe := sh.Poll.Pipeline()
	counts := map[int]*redis.IntCmd{}
	for p, mark := range state.Marks {
		if mark.Epoch < epoch {
			counts[p] = pipe.ZCard(ctx, keys[p].due)
		}
	}
	if len(counts) == 0 {
		return nil
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return sh.Unavailable(err)
	}
	for p, count := range counts {
		if count.Val() > 0 {
			missing = append(missing, fmt.Sprintf("%s.%02d", lane, p))
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("%w: shard %s: not swept yet: %s", timer.ErrRefused, sh.Name(), strings.Join(missing, " "))
	}
	return nil
}
