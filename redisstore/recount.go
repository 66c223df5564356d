package redisstore

import (
	"context"
	"math"
	"slices"
	"strconv"
)

const (
	tallyPage     = 200 // timers that are looked at together
	recountTries  = 3
	recountedOnce = maxItems // types that are corrected by one call
)

// Recount is store.Store's. Sums that are off stay off by as much whatever the
// scripts do, so what was measured may be corrected at any later time, but once: the
// write counter, which every writing call raises, says that nobody else did.
func (s *Store) Recount(ctx context.Context, shard string, partition int) (bool, error) {
	sh, err := s.shard(shard)
	if err != nil {
		return false, err
	}
	for range recountTries {
		right, err := sh.recount(ctx, s.keys[partition])
		if right || err != nil {
			return right, err
		}
	}
	return false, nil
}

// recount counts once, and corrects what is off if nothing was written meanwhile.
func (s *shard) recount(ctx context.Context, keys partitionKeys) (bool, error) {
	want, counter, quiet, err := s.tally(ctx, keys)
	if !quiet || err != nil {
		return false, err
	}
	found, _, err := s.tagHashes(ctx, []partitionKeys{keys}, math.MaxInt)
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
		c := &call{script: "recount", keys: []string{keys.timers, keys.tags}, args: args}
		s.eval(ctx, s.poll, []*call{c})
		if c.err != nil {
			return false, c.err
		}
		if len(c.reply) != 1 || c.reply[0] != "ok" {
			return false, nil
		}
		counter++ // by this call
	}
	return true, nil
}

// tally sums up the tags of all timers of a partition by what their records say.
// counter is the write counter; quiet says that it stood still meanwhile.
func (s *shard) tally(ctx context.Context, keys partitionKeys) (sums map[string]int64, counter int64, quiet bool, err error) {
	sums = map[string]int64{}
	for first := 0; ; first += tallyPage {
		c := &call{script: "tally", keys: []string{keys.due, keys.timers}, args: []any{first, tallyPage}}
		s.eval(ctx, s.poll, []*call{c})
		if c.err != nil {
			return nil, 0, false, c.err
		}
		page, err := texts(c.reply, 0, max(len(c.reply), 1))
		if err != nil {
			return nil, 0, false, s.unavailable(err)
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
			return nil, 0, false, s.unavailable(r.err)
		case first > 0 && now != counter:
			return nil, 0, false, nil
		case looked < tallyPage:
			return sums, now, true, nil
		}
		counter = now
	}
}
