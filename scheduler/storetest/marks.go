package storetest

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"chronos/scheduler/store"
	"chronos/scheduler/timer"
)

// marked reports whether another site has to be told of the timer.
func (s *shard) marked(key string) bool {
	for m := range s.marks {
		if m.Key == key {
			return true
		}
	}
	return false
}

// Site is store.Store's: a Model is a single site.
func (v *view) Site(string) store.Store { return nil }

func (v *view) Mark(ctx context.Context, name string, marks []store.Mark) error {
	return v.m.call(ctx, v.node, "mark", name, func(s *shard, now time.Time) {
		for _, m := range marks {
			if _, there := s.marks[m]; !there {
				s.marks[m] = now
			}
		}
	})
}

func (v *view) Marks(ctx context.Context, name string, partition int, site string, n int) (found []store.Mark, err error) {
	err = v.m.call(ctx, v.node, "marks", name, func(s *shard, now time.Time) {
		for m, at := range s.marks {
			if m.Site == site && PartitionOf(m.Key) == partition {
				m.Age = now.Sub(at).Truncate(time.Millisecond)
				found = append(found, m)
			}
		}
	})
	slices.SortFunc(found, func(a, b store.Mark) int { return cmp.Or(cmp.Compare(b.Age, a.Age), strings.Compare(a.Key, b.Key)) })
	return found[:min(n, len(found))], err
}

func (v *view) Marked(ctx context.Context, name, site string, keys []string) (marked []bool, err error) {
	err = v.m.call(ctx, v.node, "marked", name, func(s *shard, _ time.Time) {
		for _, key := range keys {
			_, there := s.marks[store.Mark{Site: site, Key: key}]
			marked = append(marked, there)
		}
	})
	return marked, err
}

func (v *view) OldestMark(ctx context.Context, name, site string) (oldest time.Duration, err error) {
	oldest = -1
	err = v.m.call(ctx, v.node, "oldestmark", name, func(s *shard, now time.Time) {
		for m, at := range s.marks {
			if m.Site == site {
				oldest = max(oldest, now.Sub(at).Truncate(time.Millisecond))
			}
		}
	})
	return oldest, err
}

func (v *view) Unmark(ctx context.Context, name string, told []store.ToldMark) error {
	return v.m.call(ctx, v.node, "unmark", name, func(s *shard, _ time.Time) {
		for _, m := range told {
			is := timer.State{}
			if e := s.entries[m.Key]; e != nil {
				is = e.state
			}
			if !m.State.Lacks(is) {
				m.Age = 0
				delete(s.marks, m.Mark)
			}
		}
	})
}

func (v *view) ForgetMarks(ctx context.Context, name, site string) error {
	return v.m.call(ctx, v.node, "forgetmarks", name, func(s *shard, _ time.Time) {
		maps.DeleteFunc(s.marks, func(m store.Mark, _ time.Time) bool { return m.Site == site })
	})
}

func (v *view) Filled(ctx context.Context, name string) (sites []string, err error) {
	err = v.m.call(ctx, v.node, "filled", name, func(s *shard, _ time.Time) { sites = slices.Clone(s.filled) })
	return sites, err
}

func (v *view) NoteFilled(ctx context.Context, name, before string, notes []string) error {
	lost := false
	err := v.m.call(ctx, v.node, "notefilled", name, func(s *shard, _ time.Time) {
		if lost = before != "" && !slices.Contains(s.filled, before); lost {
			return
		}
		s.filled = append(s.filled, notes...)
		slices.Sort(s.filled)
		s.filled = slices.Compact(s.filled)
	})
	if err == nil && lost {
		return fmt.Errorf("%w: the shard was emptied meanwhile", timer.ErrUnavailable)
	}
	return err
}
