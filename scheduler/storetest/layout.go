package storetest

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"chronos/scheduler/store"
	"chronos/scheduler/timer"
)

// Layout is the list of shards, and where timers belong.
type Layout struct {
	Shards []string   // in list order
	Active []string   // shards that take timers; all if nil
	Others [][]string // the announced list, if any, and the former lists
	Epoch  int64      // in which Active changed last
	// Announced says that another change is about to come.
	Announced bool
	// Doubtful says that by now another change may have come.
	Doubtful bool
	// Lost are the shards that are given up, and the epoch in which a shard was given up.
	Lost map[string]int64
	// Sites are the sites, of which the shards are one.
	Sites store.Sites
}

func (l *Layout) active() []string {
	if l.Active != nil {
		return l.Active
	}
	return l.Shards
}

// rank orders shards for a timer, by a hash of shard and key.
func rank(names []string, key string) []string {
	ranked := slices.SortedFunc(slices.Values(names), func(a, b string) int {
		return cmp.Compare(hash(a+" "+key), hash(b+" "+key))
	})
	if len(ranked) > 1 {
		slices.Reverse(ranked[1:]) // as the store does: a former primary becomes the last backup
	}
	return ranked
}

// Lay gives the named nodes, or all nodes, another layout. New shards are empty; shards that no node knows any more
// keep their contents.
func (m *Model) Lay(l Layout, nodes ...string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, name := range l.Shards {
		if m.shards[name] == nil {
			m.shards[name] = newShard(name)
		}
	}
	if len(nodes) == 0 {
		m.layout, m.layouts = l, map[string]Layout{}
	}
	for _, node := range nodes {
		m.layouts[node] = l
	}
	close(m.changed)
	m.changed = make(chan struct{})
}

// layoutOf is the layout that a node knows.
func (m *Model) layoutOf(node string) Layout {
	m.mu.Lock()
	defer m.mu.Unlock()
	if l, own := m.layouts[node]; own {
		return l
	}
	return m.layout
}

func (v *view) Shards() []string { return slices.Clone(v.m.layoutOf(v.node).Shards) }

func (v *view) Changed() <-chan struct{} {
	v.m.mu.Lock()
	defer v.m.mu.Unlock()
	return v.m.changed
}

func (v *view) Sites() store.Sites { return v.m.layoutOf(v.node).Sites }

func (v *view) Writable() error {
	if v.m.layoutOf(v.node).Doubtful {
		return fmt.Errorf("%w: where timers belong may have changed", timer.ErrUnavailable)
	}
	return nil
}

func (v *view) Rank(key string) []string {
	l := v.m.layoutOf(v.node)
	return rank(l.active(), key)
}

func (v *view) Others(key string, n int) (all []store.Other) {
	l := v.m.layoutOf(v.node)
	for k, names := range l.Others {
		ranked := rank(names, key)
		for i, name := range ranked[:min(n, len(ranked))] {
			all = append(all, store.Other{Shard: name, Rank: i, Coming: k == 0 && l.Announced})
		}
	}
	return all
}

func (v *view) HintOf(name string) timer.Hint { return timer.HintOf(hash(name)) }

func (v *view) Hinted(hint timer.Hint) (names []string) {
	for _, name := range v.m.layoutOf(v.node).Shards {
		if hint.Has(v.HintOf(name)) {
			names = append(names, name)
		}
	}
	return names
}

func (v *view) Epoch(name string) (epoch int64, steady bool) {
	l := v.m.layoutOf(v.node)
	return max(l.Epoch, l.Lost[name]), !l.Announced && !l.Doubtful
}

func (v *view) Lost(name string) bool {
	_, lost := v.m.layoutOf(v.node).Lost[name]
	return lost
}

// move gives all nodes the next layout at once, with other shards that take timers: a change that nobody announces.
func (m *Model) move(takes func(name string) bool, lost map[string]int64) {
	l := m.layoutOf("")
	before := l.active()
	l.Active = slices.DeleteFunc(slices.Clone(l.Shards), func(name string) bool { return !takes(name) })
	l.Others = append([][]string{before}, l.Others...)
	l.Epoch++
	l.Lost = lost
	m.Lay(l)
}

func (v *view) Lose(_ context.Context, name string) error {
	l := v.m.layoutOf(v.node)
	if v.Lost(name) {
		return nil
	}
	lost := maps.Clone(l.Lost)
	if lost == nil {
		lost = map[string]int64{}
	}
	lost[name] = l.Epoch + 1
	v.m.move(func(n string) bool { return n != name && slices.Contains(l.active(), n) }, lost)
	return nil
}

func (v *view) Regain(_ context.Context, name string) error {
	l := v.m.layoutOf(v.node)
	if !v.Lost(name) {
		return nil
	}
	lost := maps.Clone(l.Lost)
	delete(lost, name)
	v.m.move(func(n string) bool { return n == name || slices.Contains(l.active(), n) }, lost)
	return nil
}

func (v *view) Scan(ctx context.Context, name string, partition int, cursor string, n int) (keys []string, next string, err error) {
	err = v.m.call(ctx, v.node, "scan", name, func(s *shard, _ time.Time) {
		for key := range s.entries {
			if PartitionOf(key) == partition && key > cursor {
				keys = append(keys, key)
			}
		}
	})
	slices.Sort(keys)
	if len(keys) > n {
		keys = keys[:n]
		next = keys[n-1]
	}
	return keys, next, err
}

func (v *view) Swept(ctx context.Context, name string) (state store.SweepState, err error) {
	err = v.m.call(ctx, v.node, "swept", name, func(s *shard, now time.Time) {
		state = s.swept
		state.NowMs = now.UnixMilli()
		if s.missedSince != nil {
			state.Missed = max(now.Sub(*s.missedSince), time.Millisecond)
		}
	})
	return state, err
}

func (v *view) MarkSwept(ctx context.Context, name string, partition int, mark store.SweepMark) error {
	return v.m.call(ctx, v.node, "markswept", name, func(s *shard, _ time.Time) {
		s.swept.Marks[partition] = mark
		for _, mark := range s.swept.Marks {
			if mark.AtMs < s.swept.WantedMs {
				return
			}
		}
		s.missedSince = nil
	})
}

func (v *view) WantSweep(ctx context.Context, name string, missed time.Duration) error {
	return v.m.call(ctx, v.node, "wantsweep", name, func(s *shard, now time.Time) {
		if since := now.Add(-missed); missed > 0 && (s.missedSince == nil || since.Before(*s.missedSince)) {
			s.missedSince = &since
		}
		s.swept.WantedMs, s.swept.Restarted = now.UnixMilli(), false
	})
}

func (v *view) Forget(_ context.Context, epoch int64) error {
	l := v.m.layoutOf(v.node)
	v.m.mu.Lock()
	for _, name := range l.Shards {
		if _, lost := l.Lost[name]; lost {
			continue
		}
		for _, mark := range v.m.shards[name].swept.Marks {
			if mark.Epoch < epoch {
				v.m.mu.Unlock()
				return fmt.Errorf("%w: shard %s is not swept", timer.ErrRefused, name)
			}
		}
	}
	v.m.mu.Unlock()
	if l.Epoch == epoch && len(l.Others) > 0 {
		l.Others = nil
		v.m.Lay(l)
	}
	return nil
}
