package redisstore

import (
	"context"
	"math"
	"slices"

	"chronos/redisstore/shard"
)

const tallyPage = 200 // timers that are looked at together

// Recount is store.Store's.
func (s *Store) Recount(ctx context.Context, name string, partition int, before map[string]int64) (off map[string]int64, err error) {
	sh, err := s.shard(name)
	if err != nil {
		return nil, err
	}
	keys := s.keys[partition]
	off, sums, err := s.miscounted(ctx, sh, keys)
	if err != nil {
		return nil, err
	}
	var args []any
	for field, by := range off {
		if before[field] == by {
			args = append(args, field, sums[field], sums[field]+by)
			delete(off, field)
		}
	}
	for part := range slices.Chunk(args, 3*shard.MaxItems) {
		if _, err := sh.Do(ctx, "recount", []string{keys.tags}, part...); err != nil {
			return nil, err
		}
	}
	return off, nil
}

// miscounted returns by how much the stored sums differ from the sums over all timers of a partition, and the stored
// sums. A sum that changes while the timers are looked at is left out.
func (s *Store) miscounted(ctx context.Context, sh *shard.Shard, keys partitionKeys) (off, sums map[string]int64, err error) {
	before, _, err := tagHashes(ctx, sh, []partitionKeys{keys}, math.MaxInt)
	if err != nil {
		return nil, nil, err
	}
	if off, err = tally(ctx, sh, keys); err != nil {
		return nil, nil, err
	}
	after, _, err := tagHashes(ctx, sh, []partitionKeys{keys}, math.MaxInt)
	if err != nil {
		return nil, nil, err
	}
	sums = after[0]
	for field, sum := range before[0] {
		if _, there := sums[field]; !there && sum != 0 {
			delete(off, field)
		}
	}
	for field, sum := range sums {
		if off[field] -= sum; off[field] == 0 || before[0][field] != sum {
			delete(off, field)
		}
	}
	return off, sums, nil
}

// tally sums up the tags of all timers of a partition, as the timers' records have the tags.
func tally(ctx context.Context, sh *shard.Shard, keys partitionKeys) (map[string]int64, error) {
	sums := map[string]int64{}
	for cursor := "0"; ; {
		page, err := sh.Do(ctx, "tally", []string{keys.timers}, cursor, tallyPage)
		if err != nil {
			return nil, err
		}
		var r reader
		for _, line := range page[1:] {
			r.text = line
			field := r.word()
			sums[field] += r.int64()
		}
		if r.err != nil {
			return nil, sh.Unavailable(r.err)
		}
		if cursor = page[0]; cursor == "0" {
			return sums, nil
		}
	}
}
