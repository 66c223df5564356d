package storetest

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"chronos/scheduler/store"
	"chronos/scheduler/timer"
)

func (v *view) View() string {
	l := v.m.layoutOf(v.node)
	return fmt.Sprintf("%016x", hash(strings.Join(l.active(), ",")))
}

// Formerly takes the first former list of Others, if there is any.
func (v *view) Formerly(key string) []string {
	l := v.m.layoutOf(v.node)
	former := l.Others
	if l.Announced {
		former = former[1:]
	}
	if len(former) == 0 {
		return rank(l.active(), key)
	}
	return rank(former[0], key)
}

func (v *view) List(ctx context.Context, name string, q store.ListQuery) (page store.ListPage, err error) {
	err = v.m.call(ctx, v.node, "list", name, func(s *shard, now time.Time) {
		tell := func(key string) {
			if h := s.head(key, &q.Pick); h.Brief != nil && h.Brief.Picked {
				page.Heads = append(page.Heads, h)
			}
		}
		var partitions [store.Partitions][]store.Place
		for key, e := range s.entries {
			p := store.Place{At: time.UnixMilli(e.lookMs).UTC(), Key: key}
			if p.Compare(q.After) > 0 {
				partitions[PartitionOf(key)] = append(partitions[PartitionOf(key)], p)
			}
			if e.lease != nil && q.After.At.UnixMilli() <= now.Add(q.Hot).UnixMilli() {
				tell(key)
			}
		}
		for _, places := range partitions {
			slices.SortFunc(places, store.Place.Compare)
			if len(places) >= q.N {
				places = places[:q.N]
				if last := places[q.N-1]; page.Until == nil || last.Compare(*page.Until) < 0 {
					page.Until = &last
				}
			}
			page.Looked += len(places)
			for _, p := range places {
				if s.entries[p.Key].lease == nil {
					tell(p.Key)
				}
			}
		}
	})
	return page, err
}

func (v *view) Heads(ctx context.Context, name string, keys []string, pick store.Pick) (heads []store.Head, err error) {
	err = v.m.call(ctx, v.node, "heads", name, func(s *shard, _ time.Time) {
		for _, key := range keys {
			heads = append(heads, s.head(key, &pick))
		}
	})
	return heads, err
}

func (s *shard) head(key string, pick *store.Pick) store.Head {
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
	if !e.state.Ended {
		h.Brief = e.brief(key, pick)
	}
	return h
}

// brief says more of a live copy, and whether a pick picks the copy.
func (e *entry) brief(key string, pick *store.Pick) *store.Brief {
	b := &store.Brief{URI: e.timer.Callback.URI, Tags: e.timer.Tags, Interval: e.timer.Interval, RepeatFor: e.timer.RepeatFor}
	state := store.CopyWaiting
	switch {
	case e.lease != nil:
		state = store.CopyLeased
	case e.state.Attempt > 0:
		state = store.CopyRetrying
	}
	b.Picked = (pick.State == "" || pick.State == state) && strings.HasPrefix(key, pick.KeyPrefix) &&
		(strings.Contains(key, pick.Text) || strings.Contains(b.URI, pick.Text)) && strings.Contains(strings.ToLower(b.URI), pick.Host) &&
		(pick.Tag == "" || slices.ContainsFunc(b.Tags, func(t timer.Tag) bool { return t.Type == pick.Tag }))
	return b
}
