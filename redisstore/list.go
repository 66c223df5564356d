package redisstore

import (
	"context"
	"strconv"
	"strings"
	"time"

	"chronos/scheduler/store"
)

// List is store.Store's: one call for each partition, all in one round trip.
func (s *Store) List(ctx context.Context, shard string, after store.Place, n int, hot time.Duration) ([]store.Head, *store.Place, error) {
	sh, err := s.shard(shard)
	if err != nil {
		return nil, nil, err
	}
	calls := make([]*call, Partitions)
	for p := range calls {
		calls[p] = &call{script: "list", keys: s.keys[p].three(), args: []any{after.At.UnixMilli(), after.Key, n, hot.Milliseconds()}}
	}
	sh.eval(ctx, sh.front, calls)
	var heads []store.Head
	var until *store.Place
	for _, c := range calls {
		var all []store.Head
		last, err := sh.readHeads(c, &all)
		if err != nil {
			return nil, nil, err
		}
		for _, h := range all {
			if h.State.Version != 0 { // else it can't be read
				heads = append(heads, h)
			}
		}
		if ms, key, more := strings.Cut(last, " "); more {
			at, err := strconv.ParseInt(ms, 10, 64)
			if err != nil {
				return nil, nil, sh.unavailable(errReply)
			}
			place := store.Place{At: time.UnixMilli(at).UTC(), Key: key}
			if until == nil || place.Compare(*until) < 0 {
				until = &place
			}
		}
	}
	return heads, until, nil
}

// Heads is store.Store's.
func (s *Store) Heads(ctx context.Context, shard string, keys []string) ([]store.Head, error) {
	sh, err := s.shard(shard)
	if err != nil {
		return nil, err
	}
	var calls []*call
	var indexes [][]int // of the keys that each call asks about
	var open [Partitions]int
	for i, key := range keys {
		p := partitionOf(key)
		if k := open[p] - 1; k < 0 || len(indexes[k]) == maxItems {
			calls = append(calls, &call{script: "list", keys: s.keys[p].three(), args: []any{0, "", 0, 0}})
			indexes = append(indexes, nil)
			open[p] = len(calls)
		}
		k := open[p] - 1
		calls[k].args, indexes[k] = append(calls[k].args, key), append(indexes[k], i)
	}
	sh.eval(ctx, sh.front, calls)
	heads := make([]store.Head, len(keys))
	for k, c := range calls {
		var all []store.Head
		if _, err := sh.readHeads(c, &all); err != nil {
			return nil, err
		}
		if len(all) != len(indexes[k]) {
			return nil, sh.unavailable(errReply)
		}
		for n, i := range indexes[k] {
			heads[i] = all[n]
		}
	}
	return heads, nil
}

// readHeads reads the place of the last that was looked at, and key and "look_ms taken_ms
// bytes head" of each.
func (s *shard) readHeads(c *call, into *[]store.Head) (last string, err error) {
	if c.err != nil {
		return "", c.err
	}
	all, err := texts(c.reply, 0, len(c.reply))
	if err != nil || len(all)%2 != 1 {
		return "", s.unavailable(errReply)
	}
	for i := 1; i < len(all); i += 2 {
		h := store.Head{Key: all[i]}
		if all[i+1] != "" {
			r := reader{text: all[i+1]}
			lookMs, takenMs, bytes, rec := r.int64(), r.int64(), r.int64(), r.head()
			if r.err != nil {
				return "", s.unavailable(r.err)
			}
			h.State, h.Rank, h.RF, h.Bytes = rec.State, rec.Rank, rec.RF, int(bytes)
			h.Look, h.Due = time.UnixMilli(lookMs).UTC(), time.UnixMilli(rec.DueMs()).UTC()
			if takenMs > 0 {
				h.Taken = time.UnixMilli(takenMs).UTC()
			}
		}
		*into = append(*into, h)
	}
	return all[0], nil
}
