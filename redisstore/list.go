package redisstore

import (
	"context"
	"strconv"
	"strings"
	"time"

	"chronos/redisstore/shard"
	"chronos/scheduler/store"
)

// List is store.Store's: one call for each partition, all in one round trip.
func (s *Store) List(ctx context.Context, name string, after store.Place, n int, hot time.Duration) ([]store.Head, *store.Place, error) {
	sh, err := s.shard(name)
	if err != nil {
		return nil, nil, err
	}
	calls := make([]*shard.Call, Partitions)
	for p := range calls {
		calls[p] = &shard.Call{Script: "list", Keys: s.calls.three[p], Args: []any{after.At.UnixMilli(), after.Key, n, hot.Milliseconds()}}
	}
	sh.Eval(ctx, sh.Front, calls)
	var heads []store.Head
	var until *store.Place
	for _, c := range calls {
		var all []store.Head
		last, err := readHeads(sh, c, &all)
		if err != nil {
			return nil, nil, err
		}
		for _, h := range all {
			if h.State.Version != 0 { // version 0 stands for an unreadable record
				heads = append(heads, h)
			}
		}
		if ms, key, more := strings.Cut(last, " "); more {
			at, err := strconv.ParseInt(ms, 10, 64)
			if err != nil {
				return nil, nil, sh.Unavailable(shard.ErrReply)
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
func (s *Store) Heads(ctx context.Context, name string, keys []string) ([]store.Head, error) {
	sh, err := s.shard(name)
	if err != nil {
		return nil, err
	}
	var calls []*shard.Call
	var indexes [][]int // for each call the indexes of the call's keys
	var open [Partitions]int
	for i, key := range keys {
		p := partitionOf(key)
		if k := open[p] - 1; k < 0 || len(indexes[k]) == shard.MaxItems {
			calls = append(calls, &shard.Call{Script: "list", Keys: s.calls.three[p], Args: []any{0, "", 0, 0}})
			indexes = append(indexes, nil)
			open[p] = len(calls)
		}
		k := open[p] - 1
		calls[k].Args, indexes[k] = append(calls[k].Args, key), append(indexes[k], i)
	}
	sh.Eval(ctx, sh.Front, calls)
	heads := make([]store.Head, len(keys))
	for k, c := range calls {
		var all []store.Head
		if _, err := readHeads(sh, c, &all); err != nil {
			return nil, err
		}
		if len(all) != len(indexes[k]) {
			return nil, sh.Unavailable(shard.ErrReply)
		}
		for n, i := range indexes[k] {
			heads[i] = all[n]
		}
	}
	return heads, nil
}

// readHeads reads the place of the last copy that was looked at, and then key and "look_ms taken_ms bytes head" of
// every copy.
func readHeads(sh *shard.Shard, c *shard.Call, into *[]store.Head) (last string, err error) {
	all, err := sh.Texts(c)
	if err == nil && len(all)%2 != 1 {
		err = sh.Unavailable(shard.ErrReply)
	}
	if err != nil {
		return "", err
	}
	for i := 1; i < len(all); i += 2 {
		h := store.Head{Key: all[i]}
		if all[i+1] != "" {
			r := reader{text: all[i+1]}
			lookMs, takenMs, bytes, rec := r.int64(), r.int64(), r.int64(), r.head()
			if r.err != nil {
				return "", sh.Unavailable(r.err)
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
