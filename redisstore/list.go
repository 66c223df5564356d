package redisstore

import (
	"context"
	"strconv"
	"strings"
	"time"

	"chronos/redisstore/record"
	"chronos/redisstore/shard"
	"chronos/scheduler/store"
)

// conditions are the arguments state, prefix, text, host and tag of the script.
func conditions(pick *store.Pick) []any {
	tag := ""
	if pick.Tag != "" {
		tag = record.Escape(pick.Tag)
	}
	return []any{string(pick.State), pick.KeyPrefix, record.Quote(pick.Text), pick.Host, tag}
}

// listedTogether is about how many copies the calls of a round trip look at. Redis carries out all calls of a round trip
// before calls of other clients, so fences wait for as long as the calls of a round trip take.
const listedTogether = 50

// List is store.Store's: one call for each partition.
func (s *Store) List(ctx context.Context, name string, q store.ListQuery) (page store.ListPage, err error) {
	sh, err := s.shard(name)
	if err != nil {
		return page, err
	}
	calls := make([]*shard.Call, Partitions)
	for p := range calls {
		args := append([]any{q.After.At.UnixMilli(), q.After.Key, q.N, q.Hot.Milliseconds()}, conditions(&q.Pick)...)
		calls[p] = &shard.Call{Script: "list", Keys: s.calls.three[p], Args: args}
	}
	inGroups(ctx, sh, sh.Front, listedTogether/q.N, calls)
	for _, c := range calls {
		all, err := readHeads(sh, c)
		if err != nil {
			return store.ListPage{}, err
		}
		page.Heads = append(page.Heads, all.heads...)
		page.Looked += all.looked
		if all.last != nil && (page.Until == nil || all.last.Compare(*page.Until) < 0) {
			page.Until = all.last
		}
	}
	return page, nil
}

// Heads is store.Store's.
func (s *Store) Heads(ctx context.Context, name string, keys []string, pick store.Pick) ([]store.Head, error) {
	sh, err := s.shard(name)
	if err != nil {
		return nil, err
	}
	var calls []*shard.Call
	var indexes [][]int // for each call the indexes of the call's keys
	var open [Partitions]int
	for i, key := range keys {
		p := partitionOf(key)
		if k := open[p] - 1; k < 0 || len(indexes[k]) == listedTogether {
			calls = append(calls, &shard.Call{Script: "list", Keys: s.calls.three[p], Args: append([]any{0, "", 0, 0}, conditions(&pick)...)})
			indexes = append(indexes, nil)
			open[p] = len(calls)
		}
		k := open[p] - 1
		calls[k].Args, indexes[k] = append(calls[k].Args, key), append(indexes[k], i)
	}
	inGroups(ctx, sh, sh.Front, listedTogether*len(calls)/max(len(keys), 1), calls)
	heads := make([]store.Head, len(keys))
	for k, c := range calls {
		all, err := readHeads(sh, c)
		if err != nil {
			return nil, err
		}
		if len(all.heads) != len(indexes[k]) {
			return nil, sh.Unavailable(shard.ErrReply)
		}
		for n, i := range indexes[k] {
			heads[i] = all.heads[n]
		}
	}
	return heads, nil
}

// listed is the answer to a call.
type listed struct {
	last   *store.Place // of the page; nil at the end
	looked int
	heads  []store.Head
}

// readHeads reads a page: the place of the last copy, the number of copies that the script looked at, and three words a
// copy. The words are the key, "look_ms taken_ms bytes head", and the brief.
func readHeads(sh *shard.Shard, c *shard.Call) (found listed, err error) {
	const each = 3
	all, err := sh.Texts(c)
	if err == nil && (len(all) < 2 || (len(all)-2)%each != 0) {
		err = sh.Unavailable(shard.ErrReply)
	}
	if err != nil {
		return listed{}, err
	}
	if ms, key, more := strings.Cut(all[0], " "); more {
		at, err := strconv.ParseInt(ms, 10, 64)
		if err != nil {
			return listed{}, sh.Unavailable(shard.ErrReply)
		}
		found.last = &store.Place{At: time.UnixMilli(at).UTC(), Key: key}
	}
	if found.looked, err = strconv.Atoi(all[1]); err != nil {
		return listed{}, sh.Unavailable(shard.ErrReply)
	}
	for i := 2; i < len(all); i += each {
		h, err := readHead(all[i : i+each])
		if err != nil {
			return listed{}, sh.Unavailable(err)
		}
		found.heads = append(found.heads, h)
	}
	return found, nil
}

func readHead(words []string) (store.Head, error) {
	h := store.Head{Key: words[0]}
	if words[1] == "" {
		return h, nil
	}
	r := reader{text: words[1]}
	lookMs, takenMs, bytes, rec := r.int64(), r.int64(), r.int64(), r.head()
	if r.err != nil {
		return h, r.err
	}
	h.State, h.Rank, h.RF, h.Bytes = rec.State, rec.Rank, rec.RF, int(bytes)
	h.Look, h.Due = time.UnixMilli(lookMs).UTC(), time.UnixMilli(rec.DueMs()).UTC()
	if takenMs > 0 {
		h.Taken = time.UnixMilli(takenMs).UTC()
	}
	if words[2] != "" {
		var err error
		h.Brief, h.State.Rev, err = record.ParseBrief(words[2])
		if err != nil {
			return h, err
		}
		h.Brief.Interval = rec.Interval()
	}
	return h, nil
}
