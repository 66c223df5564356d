package storetest

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"chronos/scheduler/store"
)

func (v *view) View() string {
	l := v.m.layoutOf(v.node)
	return fmt.Sprintf("%016x", hash(strings.Join(l.active(), ",")))
}

// Formerly takes the first list of Others for the former owners, if there is any.
func (v *view) Formerly(key string) []string {
	l := v.m.layoutOf(v.node)
	if len(l.Others) == 0 {
		return rank(l.active(), key)
	}
	return rank(l.Others[0], key)
}

func (v *view) List(ctx context.Context, name string, after store.Place, n int, hot time.Duration) (heads []store.Head, until *store.Place, err error) {
	err = v.m.call(ctx, v.node, "list", name, func(s *shard, now time.Time) {
		var partitions [store.Partitions][]store.Place
		for key, e := range s.entries {
			p := store.Place{At: time.UnixMilli(e.lookMs).UTC(), Key: key}
			if p.Compare(after) > 0 {
				partitions[PartitionOf(key)] = append(partitions[PartitionOf(key)], p)
			}
			if e.lease != nil && after.At.UnixMilli() <= now.Add(hot).UnixMilli() {
				heads = append(heads, s.head(key))
			}
		}
		for _, places := range partitions {
			slices.SortFunc(places, store.Place.Compare)
			if len(places) >= n {
				places = places[:n]
				if last := places[n-1]; until == nil || last.Compare(*until) < 0 {
					until = &last
				}
			}
			for _, p := range places {
				if s.entries[p.Key].lease == nil {
					heads = append(heads, s.head(p.Key))
				}
			}
		}
	})
	return heads, until, err
}

func (v *view) Heads(ctx context.Context, name string, keys []string) (heads []store.Head, err error) {
	err = v.m.call(ctx, v.node, "heads", name, func(s *shard, _ time.Time) {
		for _, key := range keys {
			heads = append(heads, s.head(key))
		}
	})
	return heads, err
}

func (s *shard) head(key string) store.Head {
	e := s.entries[key]
	if e == nil {
		return store.Head{Key: key}
	}
	h := store.Head{
		Key: key, State: e.state, Rank: e.rank, RF: e.rf, Bytes: len(e.timer.Callback.URI) + len(e.timer.Callback.Opaque),
		Look: time.UnixMilli(e.lookMs).UTC(), Due: time.UnixMilli(e.popMs(e.state.Seq)).UTC(),
	}
	if e.lease != nil {
		parts := strings.Split(e.lease.token, ":")
		ms, _ := strconv.ParseInt(parts[len(parts)-1], 10, 64) // token has made the number
		h.Taken = time.UnixMilli(ms).UTC()
	}
	return h
}
