package storetest

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"chronos/scheduler"
)

// view is one node's scheduler.Store on a model.
type view struct {
	m       *Model
	node    string
	counter atomic.Uint64
}

var _ scheduler.Store = (*view)(nil)

// aliveFor is how long an announcement counts.
const aliveFor = 3 * time.Second

func (v *view) Shards() []string { return slices.Clone(v.m.names) }

func (v *view) NewKey() (string, error) { return scheduler.NewKey() }

// byShard calls do once for each shard that is home to some of the n keys, in
// list order, with their indexes.
func (v *view) byShard(n int, key func(i int) string, do func(name string, indexes []int)) {
	homes := make(map[string][]int)
	for i := range n {
		name, _ := v.m.home(key(i))
		homes[name] = append(homes[name], i)
	}
	for _, name := range v.m.names {
		if len(homes[name]) > 0 {
			do(name, homes[name])
		}
	}
}

func (v *view) Merge(ctx context.Context, writes []scheduler.Write) []scheduler.Written {
	answers := make([]scheduler.Written, len(writes))
	v.byShard(len(writes), func(i int) string { return writes[i].ID.Key }, func(name string, indexes []int) {
		err := v.m.call(ctx, "merge", name, func(s *shard, now time.Time) {
			for _, i := range indexes {
				answers[i] = written(now, s.merge(now, change(&writes[i])))
			}
		})
		for _, i := range indexes {
			if err != nil {
				answers[i] = scheduler.Written{Err: err, Unreached: 1}
			}
			_, hint := v.m.home(writes[i].ID.Key)
			answers[i].Shard, answers[i].Partition = name, partitionOf(writes[i].ID.Key)
			answers[i].ID = scheduler.ID{Key: writes[i].ID.Key, RF: cmp.Or(answers[i].ID.RF, writes[i].ID.RF), Hint: hint}
		}
	})
	return answers
}

func change(w *scheduler.Write) Change {
	c := Change{Key: w.ID.Key, State: scheduler.State{Version: w.Version}, RF: max(w.ID.RF, 1), Skew: w.Skew, Life: w.Life, Keep: w.Keep}
	if w.Timer == nil {
		c.Kind = Gone
		return c
	}
	c.Kind, c.State.Seq, c.Timer, c.DueIn = Put, 1, *w.Timer, w.Timer.Interval
	if w.BodyHash != "" {
		c.Kind, c.BodyHash = Once, w.BodyHash
	}
	c.Timer.Tags = slices.Clone(w.Timer.Tags)
	return c
}

func written(now time.Time, c Changed) scheduler.Written {
	w := scheduler.Written{
		ID: scheduler.ID{RF: c.RF}, State: c.State, BodyHash: c.BodyHash, InFlight: c.Firing > 0, Due: time.UnixMilli(c.DueMs).UTC(), Wait: time.UnixMilli(c.DueMs).Sub(now),
	}
	switch c.Status {
	case ChangeStored:
		w.Status, w.Copies = scheduler.WriteStored, 1
	case ChangeSame:
		w.Status, w.Copies = scheduler.WriteSame, 1
	case ChangeNewer:
		w.Status = scheduler.WriteNewer
	case ChangeConflict:
		w.Status = scheduler.WriteConflict
	case ChangeFactor:
		w.Status = scheduler.WriteFactor
	case ChangeExists:
		w.Status, w.Copies = scheduler.WriteExists, 1
	case ChangeLost, ChangeNone: // only with a token, which a Write has not
	}
	return w
}

func (v *view) Read(ctx context.Context, ids []scheduler.ID) []scheduler.ReadResult {
	results := make([]scheduler.ReadResult, len(ids))
	v.byShard(len(ids), func(i int) string { return ids[i].Key }, func(name string, indexes []int) {
		err := v.m.call(ctx, "read", name, func(s *shard, _ time.Time) {
			for _, i := range indexes {
				results[i] = s.read(ids[i].Key)
			}
		})
		for _, i := range indexes {
			if err != nil {
				results[i] = scheduler.ReadResult{Err: err}
			}
		}
	})
	return results
}

func (s *shard) read(key string) scheduler.ReadResult {
	e := s.entries[key]
	if e == nil {
		return scheduler.ReadResult{Err: scheduler.ErrNotFound}
	}
	if e.state.Ended {
		return scheduler.ReadResult{
			Record: scheduler.Record{ID: scheduler.ID{Key: key, RF: e.rf}, State: e.state}, Err: scheduler.ErrNotFound,
		}
	}
	r := scheduler.ReadResult{
		Record: s.record(key, e), Look: time.UnixMilli(e.lookMs).UTC(), Leased: e.lease != nil,
		Due: time.UnixMilli(e.popMs(e.state.Seq)).UTC(),
	}
	if e.state.Attempt > 0 && !r.Leased {
		r.Due = r.Look
	}
	return r
}

// token is that of a lease taken now.
func (v *view) token(now time.Time) string {
	return v.node + ":" + strconv.FormatUint(v.counter.Add(1), 10) + ":" + strconv.FormatInt(now.UnixMilli(), 10)
}

func (v *view) Claim(ctx context.Context, name string, req scheduler.ClaimRequest) (scheduler.ClaimResult, error) {
	var result scheduler.ClaimResult
	if req.Limit <= 0 {
		return result, nil
	}
	err := v.m.call(ctx, "claim", name, func(s *shard, now time.Time) {
		result.Claims, result.More = s.claim(now, v.node, v.token(now), req)
	})
	if err != nil {
		return scheduler.ClaimResult{}, err
	}
	return result, nil
}

func (v *view) Take(ctx context.Context, name string, grace time.Duration, keys []string) []scheduler.Taken {
	results := make([]scheduler.Taken, len(keys))
	err := v.m.call(ctx, "take", name, func(s *shard, now time.Time) {
		token := v.token(now)
		for i, key := range keys {
			results[i] = s.take(now, key, token, grace)
		}
	})
	for i := range results {
		if err != nil {
			results[i] = scheduler.Taken{Err: err}
		}
	}
	return results
}

func (v *view) Fire(ctx context.Context, name string, terms scheduler.FenceTerms, fences []scheduler.Fence) []scheduler.Fenced {
	results := make([]scheduler.Fenced, len(fences))
	err := v.m.call(ctx, "fire", name, func(s *shard, now time.Time) {
		for i, f := range fences {
			results[i] = s.fire(now, terms, f)
		}
	})
	for i := range results {
		if err != nil {
			results[i] = scheduler.Fenced{Err: err}
		}
	}
	return results
}

func (v *view) Settle(ctx context.Context, name string, settlements []scheduler.Settlement) []scheduler.Settled {
	results := make([]scheduler.Settled, len(settlements))
	err := v.m.call(ctx, "settle", name, func(s *shard, now time.Time) {
		for i, o := range settlements {
			results[i] = s.settle(now, v.node, o)
		}
	})
	for i := range results {
		if err != nil {
			results[i] = scheduler.Settled{Err: err}
		}
	}
	return results
}

func (v *view) Ask(ctx context.Context, name string, states []scheduler.KeyState) ([]scheduler.Difference, error) {
	differences := []scheduler.Difference{}
	err := v.m.call(ctx, "ask", name, func(s *shard, now time.Time) {
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

func (v *view) Beat(ctx context.Context, name string) ([]string, error) {
	var nodes []string
	err := v.m.call(ctx, "beat", name, func(s *shard, now time.Time) {
		s.beats[v.node] = now.UnixMilli()
		for node, at := range s.beats {
			if at < now.Add(-aliveFor).UnixMilli() {
				delete(s.beats, node)
				continue
			}
			nodes = append(nodes, node)
		}
		slices.SortFunc(nodes, func(a, b string) int {
			return cmp.Or(cmp.Compare(s.beats[a], s.beats[b]), strings.Compare(a, b))
		})
	})
	if err != nil {
		return nil, err
	}
	return nodes, nil
}

func (v *view) Leave(ctx context.Context, name string) error {
	return v.m.call(ctx, "leave", name, func(s *shard, _ time.Time) { delete(s.beats, v.node) })
}

func (v *view) Survey(ctx context.Context, name string) (scheduler.Survey, error) {
	var survey scheduler.Survey
	err := v.m.call(ctx, "survey", name, func(s *shard, now time.Time) {
		survey.Pending = int64(len(s.entries))
		for _, e := range s.entries {
			survey.Overdue = max(survey.Overdue, ms(now.UnixMilli()-e.lookMs))
		}
	})
	if err != nil {
		return scheduler.Survey{}, err
	}
	return survey, nil
}
