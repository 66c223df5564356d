package storetest

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"chronos/scheduler/store"
	"chronos/scheduler/timer"
	"chronos/scheduler/timing"
)

// view is one node's store.Store on a model.
type view struct {
	m       *Model
	node    string
	counter atomic.Uint64
}

var _ store.Store = (*view)(nil)

// aliveFor is how long an announcement counts.
const aliveFor = 3 * time.Second

func (v *view) NewKey(prefix string) (string, error) {
	key, err := timer.NewKey()
	return prefix + key, err
}

// byShard calls do in parallel for every shard that some of the n items are on, with the items' indexes.
func byShard(n int, shard func(i int) string, do func(name string, indexes []int)) {
	all := make(map[string][]int)
	for i := range n {
		all[shard(i)] = append(all[shard(i)], i)
	}
	var wg sync.WaitGroup
	for name, indexes := range all {
		wg.Go(func() { do(name, indexes) })
	}
	wg.Wait()
}

func (v *view) Merge(ctx context.Context, writes []store.Write) []store.Written {
	answers := make([]store.Written, len(writes))
	byShard(len(writes), func(i int) string { return writes[i].Shard }, func(name string, indexes []int) {
		v.merge(ctx, "merge", name, writes, answers, indexes)
	})
	return answers
}

func (v *view) Tell(ctx context.Context, name string, writes []store.Write) []store.Written {
	answers, indexes := make([]store.Written, len(writes)), make([]int, len(writes))
	for i := range indexes {
		indexes[i] = i
	}
	v.merge(ctx, "tell", name, writes, answers, indexes)
	return answers
}

func (v *view) merge(ctx context.Context, op, name string, writes []store.Write, answers []store.Written, indexes []int) {
	results := make([]store.Written, len(indexes))
	err := v.m.call(ctx, v.node, op, name, func(s *shard, now time.Time) {
		for k, i := range indexes {
			results[k] = s.merge(now, &writes[i])
		}
	})
	for k, i := range indexes {
		answers[i] = results[k]
		if err != nil {
			answers[i] = store.Written{Err: err}
		}
		answers[i].Partition = PartitionOf(writes[i].Key)
	}
}

func (v *view) Read(ctx context.Context, spots []store.Spot) []store.ReadResult {
	results := make([]store.ReadResult, len(spots))
	byShard(len(spots), func(i int) string { return spots[i].Shard }, func(name string, indexes []int) {
		err := v.m.call(ctx, v.node, "read", name, func(s *shard, now time.Time) {
			for _, i := range indexes {
				results[i] = s.read(now, spots[i].Key)
			}
		})
		for _, i := range indexes {
			if err != nil {
				results[i] = store.ReadResult{Err: err}
			}
		}
	})
	return results
}

func (s *shard) read(now time.Time, key string) store.ReadResult {
	e := s.entries[key]
	if e == nil {
		return store.ReadResult{Err: timer.ErrNotFound}
	}
	look, due := time.UnixMilli(e.lookMs).UTC(), time.UnixMilli(e.popMs(e.state.Seq)).UTC()
	r := store.ReadResult{
		Record: s.record(key, e), Look: look, LookIn: look.Sub(now), Leased: e.lease != nil, Due: due, DueIn: due.Sub(now),
	}
	if r.Leased {
		r.Holder, r.Fired = nodeOf(e.lease.token), e.lease.fired
	}
	if e.state.Ended {
		r.Err = timer.ErrNotFound
	}
	if e.state.Attempt > 0 && !r.Leased {
		r.Due = r.Look
	}
	return r
}

// token is the token of a lease taken now.
func (v *view) token(now time.Time) string {
	return v.node + ":" + strconv.FormatUint(v.counter.Add(1), 10) + ":" + strconv.FormatInt(now.UnixMilli(), 10)
}

func (v *view) Claim(ctx context.Context, name string, req store.ClaimRequest) (store.ClaimResult, error) {
	var result store.ClaimResult
	if req.Limit <= 0 {
		return result, nil
	}
	err := v.m.call(ctx, v.node, "claim", name, func(s *shard, now time.Time) {
		result.Claims, result.More = s.claim(now, v.node, v.token(now), req)
	})
	if err != nil {
		return store.ClaimResult{}, err
	}
	return result, nil
}

func (v *view) Fire(ctx context.Context, name string, terms store.FenceTerms, fences []store.Fence) []store.Fenced {
	results := make([]store.Fenced, len(fences))
	err := v.m.call(ctx, v.node, "fire", name, func(s *shard, now time.Time) {
		for i, f := range fences {
			results[i] = s.fire(now, terms, f)
		}
	})
	for i := range results {
		if err != nil {
			results[i] = store.Fenced{Err: err}
		}
	}
	return results
}

func (v *view) Settle(ctx context.Context, name string, settlements []store.Settlement) []store.Settled {
	results := make([]store.Settled, len(settlements))
	err := v.m.call(ctx, v.node, "settle", name, func(s *shard, now time.Time) {
		for i, o := range settlements {
			results[i] = s.settle(now, v.node, o)
			if results[i].Accepted {
				s.note(now, &o, v.m.logs)
			}
		}
	})
	for i := range results {
		if err != nil {
			results[i] = store.Settled{Err: err}
		}
	}
	return results
}

func (v *view) Ask(ctx context.Context, name string, states []store.KeyState) ([]store.Difference, error) {
	differences := []store.Difference{}
	err := v.m.call(ctx, v.node, "ask", name, func(s *shard, now time.Time) {
		for i, st := range states {
			if d, same := s.ask(now, st); !same {
				d.Index = i
				differences = append(differences, d)
			}
		}
	})
	if err != nil {
		return nil, err
	}
	return differences, nil
}

func (v *view) Beat(ctx context.Context, name string, own store.Announcement) (heard store.Announced, err error) {
	err = v.m.call(ctx, v.node, "beat", name, func(s *shard, now time.Time) {
		if !own.Guest {
			s.beats[v.node] = now.UnixMilli()
		}
		s.clocks[v.node] = announced{own, now}
		if own.Text != "" {
			s.told[v.node] = told{fmt.Sprintf(`{"at_ms":%d,%s`, now.UnixMilli(), own.Text), now}
		}
		maps.DeleteFunc(s.told, func(node string, t told) bool {
			return s.beats[node] < now.Add(-aliveFor).UnixMilli() && now.Sub(t.at) > timing.StatusLife
		})
		heard.Fastest = own.Clock
		for _, a := range s.clocks {
			shows := a.Clock.Add(min(now.Sub(a.at), aliveFor))
			if shows.After(heard.Fastest) && shows.Sub(own.Clock) <= timing.MaxClockAhead {
				heard.Fastest = shows
			}
		}
		for node, at := range s.beats {
			if at < now.Add(-aliveFor).UnixMilli() {
				delete(s.beats, node)
				continue
			}
			heard.Nodes = append(heard.Nodes, store.LiveNode{Name: node, Lacks: s.clocks[node].Lacks, Format: s.clocks[node].Format})
		}
		heard.Decisions = s.decided(now)
		slices.SortFunc(heard.Nodes, func(a, b store.LiveNode) int {
			return cmp.Or(cmp.Compare(s.beats[a.Name], s.beats[b.Name]), strings.Compare(a.Name, b.Name))
		})
	})
	return heard, err
}

func (v *view) Leave(ctx context.Context, name string) error {
	return v.m.call(ctx, v.node, "leave", name, func(s *shard, _ time.Time) {
		delete(s.beats, v.node)
		delete(s.told, v.node)
	})
}

func (v *view) Told(ctx context.Context, name string) (all map[string]store.Told, err error) {
	err = v.m.call(ctx, v.node, "told", name, func(s *shard, now time.Time) {
		all = make(map[string]store.Told, len(s.told))
		for node, t := range s.told {
			all[node] = store.Told{Text: t.text, Ago: now.Sub(t.at)}
		}
	})
	return all, err
}

func (v *view) Survey(ctx context.Context, name string) (store.Survey, error) {
	var survey store.Survey
	err := v.m.call(ctx, v.node, "survey", name, func(s *shard, now time.Time) {
		survey.Letters = int64(len(s.dead))
		for key, e := range s.entries {
			if e.state.Ended {
				survey.Tombstones++
			} else {
				survey.Pending++
			}
			if e.lookMs <= now.UnixMilli() {
				survey.Due++
			}
			overdue, first := ms(now.UnixMilli()-e.lookMs), &survey.First[PartitionOf(key)]
			survey.Overdue = max(survey.Overdue, overdue)
			if first.Key == "" || overdue > first.Overdue || overdue == first.Overdue && key < first.Key {
				*first = store.First{Key: key, Look: time.UnixMilli(e.lookMs), Overdue: overdue}
			}
		}
	})
	if err != nil {
		return store.Survey{}, err
	}
	return survey, nil
}
