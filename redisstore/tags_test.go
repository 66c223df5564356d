package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"chronos/lua"
	"chronos/scheduler/store"
	"chronos/scheduler/timer"
)

func taggedCreation(key string, tags ...timer.Tag) store.Write {
	w := creation(key, time.Hour)
	w.Timer.Tags = tags
	return w
}

func wantSums(t *testing.T, s *Store, want map[string]int64) {
	t.Helper()
	got, err := s.Tags(t.Context(), "a", 1000)
	if diff := cmp.Diff(store.TagSums{ByType: want}, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

func onBothRedis(t *testing.T, check func(t *testing.T, r *testRedis, s *Store)) {
	t.Helper()
	t.Run("mini", func(t *testing.T) {
		t.Parallel()
		r := startSwift(t)
		check(t, r, openStore(t, "node", "http", r))
	})
	t.Run("real", func(t *testing.T) {
		t.Parallel()
		r := startRedis(t)
		check(t, r, openStore(t, "node", "http", r))
	})
}

// A partition has more timers than a recount looks at together, and more types than a recount corrects together: all
// sums are right again, whatever the sums were.
func TestRecountOfMany(t *testing.T) {
	t.Parallel()
	onBothRedis(t, func(t *testing.T, r *testRedis, s *Store) {
		const partition, timers = 3, 3*tallyPage + 7
		want := map[string]int64{}
		var writes []store.Write
		for i, key := range s.keysOf("a", partition, timers) {
			own := fmt.Sprintf("own, %d", i)
			w := taggedCreation(key, timer.Tag{Type: "CALL", Count: 2}, timer.Tag{Type: own, Count: i + 1})
			switch i % 4 {
			case 0:
				w.Timer.Tags = nil
			case 1:
				w.Rank = 1
			default:
				want["CALL"] += 2
				want[own] += int64(i + 1)
			}
			writes = append(writes, w, deletion(key+"-gone"))
		}
		for _, answer := range s.Merge(t.Context(), writes) {
			if answer.Err != nil {
				t.Fatal(answer.Err)
			}
		}
		wantSums(t, s, want)
		tags := s.keys[partition].tags
		recount(t, s, partition, 0)
		wantSums(t, s, want)
		r.client.Del(t.Context(), tags)
		recount(t, s, partition, len(want)+1) // and the tombstones
		wantSums(t, s, want)
		r.client.HSet(t.Context(), tags, "CALL", 1, "unknown", 5, "own%2C%202", 1<<50, "negative", -4)
		recount(t, s, partition, 4)
		wantSums(t, s, want)
	})
}

// recount counts twice, as after two sweeps, and expects the given number of wrong sums at first.
func recount(t *testing.T, s *Store, partition, wrong int) {
	t.Helper()
	off, err := s.Recount(t.Context(), "a", partition, nil)
	if err != nil || len(off) != wrong {
		t.Fatalf("the first count finds %d sums to be wrong, %v, want %d", len(off), err, wrong)
	}
	if off, err = s.Recount(t.Context(), "a", partition, off); err != nil || len(off) > 0 {
		t.Fatalf("the second count leaves %v, %v", off, err)
	}
	if off, err = s.Recount(t.Context(), "a", partition, nil); err != nil || len(off) > 0 {
		t.Fatalf("after that %v is wrong, %v", off, err)
	}
}

// A recount corrects no sum that changes during or after the count, and no sum that two counts find different.
func TestRecountBesideWrites(t *testing.T) {
	t.Parallel()
	onBothRedis(t, func(t *testing.T, r *testRedis, s *Store) {
		const partition = 3
		keys := s.keysOf("a", partition, 2*tallyPage)
		fill, keys := keys[:tallyPage], keys[tallyPage:] // so that the recount takes two pages
		for _, key := range fill {
			merge(t, s, creation(key, 2*time.Hour))
		}
		merge(t, s, taggedCreation(keys[0], timer.Tag{Type: "CALL", Count: 1}))
		r.client.HSet(t.Context(), s.keys[partition].tags, "CALL", 10)
		writer := openStore(t, "other", "http", r)
		busy := &interrupter{do: func(n int) {
			merge(t, writer, taggedCreation(keys[1+n], timer.Tag{Type: "REG", Count: 1}))
		}}
		hook(s.shards()[0], busy)
		r.client.HSet(t.Context(), s.keys[partition].tags, "REG", 7)
		busy.script = "tally"
		var off map[string]int64
		for range 2 { // the writes come between the pages
			var err error
			if off, err = s.Recount(t.Context(), "a", partition, off); err != nil || len(off) > 1 || off["CALL"] != -9 && len(off) > 0 {
				t.Errorf("while another writes: %v, %v; want CALL to be wrong alone, and then right", off, err)
			}
		}
		wantSums(t, s, map[string]int64{"CALL": 1, "REG": int64(7 + busy.n)})
		busy.script = "recount"
		if off, err := s.Recount(t.Context(), "a", partition, map[string]int64{"REG": -7}); err != nil || len(off) > 0 {
			t.Errorf("while another writes: %v, %v", off, err)
		}
		wantSums(t, s, map[string]int64{"CALL": 1, "REG": int64(7 + busy.n)})
		busy.script = ""
		if off, err := s.Recount(t.Context(), "a", partition, map[string]int64{"REG": -6}); err != nil || off["REG"] != -7 {
			t.Errorf("after a count that found another difference: %v, %v", off, err)
		}
		recount(t, s, partition, 1)
		wantSums(t, s, map[string]int64{"CALL": 1, "REG": int64(busy.n)})
	})
}

// A recount counts a timer once even if the timer's place in the order of due changes during the count.
func TestRecountBesideMoves(t *testing.T) {
	t.Parallel()
	r := startRedis(t)
	s := openStore(t, "node", "http", r)
	const partition = 3
	keys := s.keysOf("a", partition, 3*tallyPage)
	for _, key := range keys {
		merge(t, s, taggedCreation(key, timer.Tag{Type: "CALL", Count: 1}))
	}
	moving := &interrupter{script: "tally", do: func(int) {
		first := r.client.ZRangeWithScores(t.Context(), s.keys[partition].due, 0, tallyPage-1).Val()
		for i := range first {
			first[i].Score += float64(time.Hour.Milliseconds())
		}
		r.client.ZAdd(t.Context(), s.keys[partition].due, first...)
	}}
	hook(s.shards()[0], moving)
	if off, err := s.Recount(t.Context(), "a", partition, nil); err != nil || len(off) > 0 || moving.n < 3 {
		t.Errorf("in %d pages: %v, %v; want no sum to be wrong", moving.n, off, err)
	}
}

// interrupter acts before each call of a script.
type interrupter struct {
	script string
	n      int
	do     func(n int)
}

func (i *interrupter) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (i *interrupter) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (i *interrupter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, commands []redis.Cmder) error {
		for _, command := range commands {
			if script, is := command.(*redis.Cmd); is && i.script != "" && script.Name() == "evalsha" && script.Args()[1] == redis.NewScript(lua.Scripts()[i.script]).Hash() {
				i.do(i.n)
				i.n++
			}
		}
		return next(ctx, commands)
	}
}

// Clients may make a type of their own for each timer. Reading stops somewhere, and says so.
func TestTagsOfTooManyTypes(t *testing.T) {
	t.Parallel()
	r := startRedis(t)
	s := openStore(t, "node", "http", r)
	const types = 5000
	var writes []store.Write
	for i, key := range s.keysOf("a", 3, types) {
		writes = append(writes, taggedCreation(key, timer.Tag{Type: fmt.Sprintf("%s%d", strings.Repeat("x", 200), i), Count: 1}))
	}
	for _, answer := range s.Merge(t.Context(), writes) {
		if answer.Err != nil {
			t.Fatal(answer.Err)
		}
	}
	for most, partial := range map[int]bool{1: true, 500: true, 2000: true, 2 * types: false} {
		got, err := s.Tags(t.Context(), "a", most)
		if n := len(got.ByType); err != nil || got.Partial != partial || partial && (n < most || n > most+2*maxTagPage) || !partial && n != types {
			t.Errorf("at most %d: %d, partial %t, %v", most, n, got.Partial, err)
		}
	}
}

// Fields that somebody has put into the hash by hand stop nothing, and are readable.
func TestTagsThatAreNone(t *testing.T) {
	t.Parallel()
	onBothRedis(t, func(t *testing.T, r *testRedis, s *Store) {
		merge(t, s, taggedCreation("k", timer.Tag{Type: "CALL", Count: 1}))
		r.client.HSet(t.Context(), s.keys[0].tags, "%FF", 1, "%", 2, "text", "many", "negative", -1)
		wantSums(t, s, map[string]int64{"CALL": 1, "\uFFFD": 1, "%": 2})
		if _, err := s.Tags(t.Context(), "none", 1); !errors.Is(err, timer.ErrUnavailable) {
			t.Errorf("of no shard: %v", err)
		}
		if _, err := s.Recount(t.Context(), "none", 1, nil); !errors.Is(err, timer.ErrUnavailable) {
			t.Errorf("of no shard: %v", err)
		}
	})
}
