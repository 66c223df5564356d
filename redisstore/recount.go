package redisstore

import (
	"context"
	"math"
	"slices"
	"strconv"

	"chronos/redisstore/shard"
)

const (
	tallyPage     = 200 // timers that are looked at together
	recountTries  = 3
	recountedOnce = shard.MaxItems // types that are corrected by one call
)

// Recount is store.Store's. Sums that are off stay off by as much whatever the
// scripts do, so what was measured may be corrected at any later time, but once: the
// write counter, which every writing call raises, says that nobody else did.
func (s *Store) Recount(ctx context.Context, name string, partition int) (bool, error) {
	sh, err := s.shard(name)
	if err != nil {
		return false, err
	}
	for range recountTries {
		right, err := recount(ctx, sh, s.keys[partition])
		if right || err != nil {
			return right, err
		}
	}
	return false, nil
}

// recount counts once, and corrects what is off if nothing was written meanwhile.
func recount(ctx context.Context, sh *shard.Shard, keys partitionKeys) (bool, error) {
	want, counter, quiet, err := tally(ctx, sh, keys)
	if !quiet || err != nil {
		return false, err
	}
	found, _, err := tagHashes(ctx, sh, []partitionKeys{keys}, math.MaxInt)
	if err != nil {
		return false, err
	}
	off := want // less what is found
	for field, sum := range found[0] {
		off[field] -= sum
	}
	var fields []string
	for field, by := range off {
		if by != 0 {
			fields = append(fields, field)
		}
	}
	slices.Sort(fields)
	for part := range slices.Chunk(fields, recountedOnce) {
		args := []any{strconv.FormatInt(counter, 10)}
		for _, field := range part {
			args = append(args, field, off[field])
		}
		said, err := sh.Do(ctx, "recount", []string{keys.timers, keys.tags}, args...)
		if err != nil || said[0] != "ok" {
			return false, err
		}
		counter++ // by this call
	}
	return true, nil
}

// tally sums up the tags of all timers of a partition by what their records say.
// counter is the write counter; quiet says that it stood still meanwhile.
func tally(ctx context.Context, sh *shard.Shard, keys partitionKeys) (sums map[string]int64, counter int64, quiet bool, err error) {
	sums = map[string]int64{}
	for first := 0; ; first += tallyPage {
		page, err := sh.Do(ctx, "tally", []string{keys.due, keys.timers}, first, tallyPage)
		if err != nil {
			return nil, 0, false, err
		}
		r := reader{text: page[0]}
		now, looked := r.int64(), r.int64()
		for _, line := range page[1:] {
			r.text = line
			field := r.word()
			sums[field] += r.int64()
		}
		switch {
		case r.err != nil:
			return nil, 0, false, sh.Unavailable(r.err)
		case first > 0 && now != counter:
			return nil, 0, false, nil
		case looked < tallyPage:
			return sums, now, true, nil
		}
		counter = now
	}
}
