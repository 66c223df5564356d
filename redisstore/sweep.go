package redisstore

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"chronos/redisstore/record"
	"chronos/scheduler/store"
	"chronos/scheduler/timer"
)

// sweptKey is a hash of each shard that says how far its sweep is, for each lane.
const sweptKey = "chronos:swept"

// lanes are all that there may be.
func lanes() []string { return []string{"http", "kafka"} }

// identityFields are where the lanes say of which process they have noticed that it answers.
func identityFields() (all []string) {
	for _, lane := range lanes() {
		all = append(all, lane+identityField)
	}
	return all
}

const identityField = ".identity"

func sweptField(lane string, partition int) string { return fmt.Sprintf("%s.%02d", lane, partition) }

// Scan is store.Store's.
func (s *Store) Scan(ctx context.Context, shard string, partition int, cursor string, n int) (keys []string, next string, err error) {
	sh, err := s.readyShard(ctx, shard)
	if err != nil {
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

// Swept is store.Store's.
func (s *Store) Swept(ctx context.Context, shard string) (store.SweepState, error) {
	sh, err := s.shard(shard)
	if err != nil {
		return store.SweepState{}, err
	}
	return sh.swept(ctx, s.lane)
}

// MarkSwept is store.Store's.
func (s *Store) MarkSwept(ctx context.Context, shard string, partition int, mark store.SweepMark) error {
	sh, err := s.shard(shard)
	if err != nil {
		return err
	}
	return sh.noteSweep(ctx, s.lane, "mark", "", 0, partition, mark)
}

// WantSweep is store.Store's.
func (s *Store) WantSweep(ctx context.Context, shard string, missed time.Duration) error {
	sh, err := s.readyShard(ctx, shard)
	if err != nil {
		return err
	}
	gap := sh.gap.Load()
	if err := sh.noteSweep(ctx, s.lane, "want", *sh.identity.Load(), missed, 0, store.SweepMark{}); err != nil {
		return err
	}
	sh.gap.CompareAndSwap(gap, 0)
	return nil
}

func (s *shard) noteSweep(ctx context.Context, lane, what, identity string, missed time.Duration, partition int, mark store.SweepMark) error {
	c := &call{script: "sweep", keys: []string{sweptKey}, args: []any{
		what, lane, Partitions, identity, missed.Milliseconds(), partition, mark.Epoch, mark.AtMs,
	}}
	s.eval(ctx, s.poll, []*call{c})
	return c.err
}

// swept reads how far the sweep is. A shard that has another identity than the one
// that wanted it swept last, or none, has restarted since, or lost all.
func (s *shard) swept(ctx context.Context, lane string) (state store.SweepState, err error) {
	if err := s.ready(ctx); err != nil {
		return state, err
	}
	fields := []string{lane + ".wanted_ms", lane + ".missed_since_ms", lane + identityField}
	for p := range Partitions {
		fields = append(fields, sweptField(lane, p))
	}
	pipe := s.poll.Pipeline()
	now, found := pipe.Time(ctx), pipe.HMGet(ctx, sweptKey, fields...)
	if _, err := pipe.Exec(ctx); err != nil {
		return state, s.unavailable(err)
	}
	text := func(i int) string {
		said, _ := found.Val()[i].(string) // nil for none
		return said
	}
	number := func(text string) int64 {
		n, _ := strconv.ParseInt(text, 10, 64) // what can't be read is swept again
		return n
	}
	state.NowMs, state.WantedMs = now.Val().UnixMilli(), number(text(0))
	if since := number(text(1)); since != 0 {
		state.Missed = max(record.Milliseconds(state.NowMs-since), 1)
	}
	if state.Restarted = text(2) != *s.identity.Load(); state.Restarted {
		state.Missed = max(state.Missed, time.Duration(s.gap.Load()))
	}
	for p := range state.Marks {
		epoch, at, _ := strings.Cut(text(3+p), " ")
		state.Marks[p] = store.SweepMark{Epoch: number(epoch), AtMs: number(at)}
	}
	return state, nil
}

// isSwept is nil if all of a shard has been swept for the epoch, or nothing is there.
func (s *Store) isSwept(ctx context.Context, name string, epoch int64) error {
	sh, err := s.shard(name)
	if err != nil {
		return err
	}
	for _, lane := range lanes() {
		if err := sh.isSwept(ctx, lane, epoch); err != nil {
			return err
		}
	}
	return nil
}

// isSwept is nil if all of a lane on the shard has been swept for the epoch, or
// nothing is there.
func (s *shard) isSwept(ctx context.Context, lane string, epoch int64) error {
	state, err := s.swept(ctx, lane)
	if err != nil {
		return err
	}
	keys := laneKeys(lane)
	var missing []string
	pipe := s.poll.Pipeline()
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
		return s.unavailable(err)
	}
	for p, count := range counts {
		if count.Val() > 0 {
			missing = append(missing, sweptField(lane, p))
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("%w: shard %s: not swept yet: %s", timer.ErrRefused, s.name, strings.Join(missing, " "))
	}
	return nil
}
