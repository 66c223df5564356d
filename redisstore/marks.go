package redisstore

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"chronos/redisstore/record"
	"chronos/redisstore/shard"
	"chronos/scheduler/store"
	"chronos/scheduler/timer"
)

// The texts of marks (lua/mark.lua).
const (
	markWrite   = "+"
	markOutcome = "="
	markAll     = "*"
	markAgain   = "*again"
)

func textOf(m *store.Mark) string {
	switch {
	case m.All:
		return markAll
	case m.Outcome:
		return markOutcome + m.Key
	}
	return markWrite + m.Key
}

// keyOf is under what the marks of a timer are counted.
func keyOf(m *store.Mark) string {
	if m.All {
		return markAll
	}
	return m.Key
}

// filledKey is the hash of the sites from which the shard was filled, to the time in ms, for a deliverer kind.
func filledKey(lane string) string { return "chronos:{" + lane + "}:filled" }

// groupOf is the group of a mark.
func groupOf(m *store.Mark) markGroup {
	if m.All {
		return markGroup{m.Partition, m.Site}
	}
	return markGroup{partitionOf(m.Key), m.Site}
}

// markGroup is the marks of a partition for a site.
type markGroup struct {
	partition int
	site      string
}

// evalMarks carries out a call for each group, and returns the first error.
func (s *Store) evalMarks(ctx context.Context, sh *shard.Shard, calls map[markGroup]*shard.Call) error {
	all := slices.Collect(maps.Values(calls))
	sh.Eval(ctx, sh.Ask, all)
	for _, c := range all {
		if c.Err != nil {
			return c.Err
		}
	}
	return nil
}

// Mark is store.Store's.
func (s *Store) Mark(ctx context.Context, name string, marks []store.Mark) error {
	sh, err := s.shard(name)
	if err != nil {
		return err
	}
	calls := map[markGroup]*shard.Call{}
	for i := range marks {
		m := &marks[i]
		g := groupOf(m)
		c := calls[g]
		if c == nil {
			k := &s.keys[g.partition]
			c = &shard.Call{Script: "mark", Keys: []string{k.untold(m.Site), k.marked}, Args: []any{store.MaxMarks}}
			calls[g] = c
		}
		c.Args = append(c.Args, textOf(m), m.Key)
	}
	return s.evalMarks(ctx, sh, calls)
}

// Unmark is store.Store's.
func (s *Store) Unmark(ctx context.Context, name string, told []store.ToldMark) error {
	sh, err := s.shard(name)
	if err != nil {
		return err
	}
	calls := map[markGroup]*shard.Call{}
	for i := range told {
		m := &told[i]
		g := groupOf(&m.Mark)
		c := calls[g]
		if c == nil {
			k := &s.keys[g.partition]
			c = &shard.Call{Script: "unmark", Keys: []string{k.timers, k.leases, k.untold(m.Site), k.marked}}
			calls[g] = c
		}
		state := any("-")
		if m.State.Version != 0 {
			state = record.State(m.State)
		}
		c.Args = append(c.Args, textOf(&m.Mark), keyOf(&m.Mark), state)
	}
	return s.evalMarks(ctx, sh, calls)
}

// Marks is store.Store's.
func (s *Store) Marks(ctx context.Context, name string, partition int, site string, n int) ([]store.Mark, error) {
	sh, err := s.readyShard(ctx, name)
	if err != nil {
		return nil, err
	}
	found, err := sh.Ask.ZRangeWithScores(ctx, s.keys[partition].untold(site), 0, int64(n)-1).Result()
	if err != nil {
		return nil, sh.Unavailable(err)
	}
	now, marks := sh.Clock.In(0), make([]store.Mark, 0, len(found))
	for _, z := range found {
		text, _ := z.Member.(string) // always a string
		m := store.Mark{Site: site, Age: max(record.Milliseconds(now-int64(z.Score)), 0)}
		switch key, write := strings.CutPrefix(text, markWrite); {
		case text == markAll:
			m.All, m.Partition = true, partition
		case write:
			m.Key = key
		case strings.HasPrefix(text, markOutcome):
			m.Key, m.Outcome = text[len(markOutcome):], true
		default:
			continue // markAgain, or something that somebody has written
		}
		if m.All || timer.ValidKey(m.Key) {
			marks = append(marks, m)
		}
	}
	return marks, nil
}

// OldestMark is store.Store's.
func (s *Store) OldestMark(ctx context.Context, name, site string) (time.Duration, error) {
	sh, err := s.readyShard(ctx, name)
	if err != nil {
		return 0, err
	}
	pipe := sh.Poll.Pipeline()
	now := pipe.Time(ctx)
	var firsts [Partitions]*redis.ZSliceCmd
	for p := range s.keys {
		firsts[p] = pipe.ZRangeWithScores(ctx, s.keys[p].untold(site), 0, 0)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return 0, sh.Unavailable(err)
	}
	oldest := time.Duration(-1)
	for _, first := range firsts {
		for _, z := range first.Val() {
			oldest = max(oldest, record.Milliseconds(now.Val().UnixMilli()-int64(z.Score)), 0)
		}
	}
	return oldest, nil
}

// Marked is store.Store's.
func (s *Store) Marked(ctx context.Context, name, site string, keys []string) ([]bool, error) {
	sh, err := s.readyShard(ctx, name)
	if err != nil {
		return nil, err
	}
	pipe := sh.Ask.Pipeline()
	scores := make([]*redis.FloatSliceCmd, len(keys))
	for i, key := range keys {
		scores[i] = pipe.ZMScore(ctx, s.keys[partitionOf(key)].untold(site), markWrite+key, markAll)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, sh.Unavailable(err)
	}
	marked := make([]bool, len(keys))
	for i := range keys {
		marked[i] = slices.ContainsFunc(scores[i].Val(), func(score float64) bool { return score > 0 })
	}
	return marked, nil
}

// Filled is store.Store's.
func (s *Store) Filled(ctx context.Context, name string) ([]string, error) {
	sh, err := s.readyShard(ctx, name)
	if err != nil {
		return nil, err
	}
	sites, err := sh.Poll.HKeys(ctx, filledKey(s.lane)).Result()
	if err != nil {
		return nil, sh.Unavailable(err)
	}
	return sites, nil
}

// NoteFilled is store.Store's.
func (s *Store) NoteFilled(ctx context.Context, name, before string, notes []string) error {
	sh, err := s.readyShard(ctx, name)
	if err != nil || len(notes) == 0 {
		return err
	}
	args := []any{before}
	for _, note := range notes {
		args = append(args, note)
	}
	said, err := sh.Do(ctx, "fill", []string{filledKey(s.lane)}, args...)
	if err == nil && said[0] != "noted" {
		return sh.Unavailable(errEmptied)
	}
	return err
}

var errEmptied = errors.New("the shard was emptied meanwhile")

// forgetMost is how many marks a call removes: a Redis does nothing else meanwhile.
const forgetMost = 500

// ForgetMarks is store.Store's.
func (s *Store) ForgetMarks(ctx context.Context, name, site string) error {
	sh, err := s.readyShard(ctx, name)
	if err != nil {
		return err
	}
	for p := range s.keys {
		for more := true; more; {
			said, err := sh.Do(ctx, "forget", []string{s.keys[p].untold(site), s.keys[p].marked}, forgetMost)
			if err != nil {
				return err
			}
			more = said[0] == "more"
		}
	}
	return nil
}
