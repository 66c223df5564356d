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

// More timers than a recount looks at together, and more types than it corrects
// together: all are right again, whatever the sums were.
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
		recount := func(what string) {
			t.Helper()
			counter := r.client.HGet(t.Context(), s.keys[partition].timers, "#").Val()
			if right, err := s.Recount(t.Context(), "a", partition); !right || err != nil {
				t.Errorf("%s: %t, %v", what, right, err)
			}
			wantSums(t, s, want)
			if again := r.client.HGet(t.Context(), s.keys[partition].timers, "#").Val(); what == "as they were" && again != counter {
				t.Errorf("a recount that corrected nothing raised the write counter from %s to %s", counter, again)
			}
		}
		recount("as they were")
		r.client.Del(t.Context(), tags)
		recount("all lost")
		r.client.HSet(t.Context(), tags, "CALL", 1, "unknown", 5, "own%2C%202", 1<<50, "negative", -4)
		recount("some wrong")
	})
}

// A recount corrects nothing if something was written since it counted: two nodes
// would correct the same twice.
func TestRecountNeedsAQuietMoment(t *testing.T) {
	t.Parallel()
	onBothRedis(t, func(t *testing.T, r *testRedis, s *Store) {
		const partition = 3
		keys := s.keysOf("a", partition, 2*tallyPage)
		fill, keys := keys[:tallyPage], keys[tallyPage:] // so that it counts in two pages
		for _, key := range fill {
			merge(t, s, creation(key, 2*time.Hour))
		}
		merge(t, s, taggedCreation(keys[0], timer.Tag{Type: "CALL", Count: 1}))
		r.client.HSet(t.Context(), s.keys[partition].tags, "CALL", 10)
		writer := openStore(t, "other", "http", r)
		busy := &interrupter{script: "recount", do: func(n int) {
			merge(t, writer, taggedCreation(keys[1+n], timer.Tag{Type: "REG", Count: 1}))
		}}
		hook(s.shards()[0], busy)
		if right, err := s.Recount(t.Context(), "a", partition); right || err != nil || busy.n != recountTries {
			t.Errorf("while another writes: %t, %v after %d tries", right, err, busy.n)
		}
		wantSums(t, s, map[string]int64{"CALL": 10, "REG": recountTries})
		busy.script = "tally"
		if right, err := s.Recount(t.Context(), "a", partition); right || err != nil {
			t.Errorf("while another writes: %t, %v", right, err)
		}
		busy.script = ""
		if right, err := s.Recount(t.Context(), "a", partition); !right || err != nil {
			t.Errorf("when all is quiet: %t, %v", right, err)
		}
		wantSums(t, s, map[string]int64{"CALL": 1, "REG": int64(busy.n)})
	})
}

// interrupter does something before each call of a script.
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

// Clients may make a type of their own for each timer. Reading stops somewhere, and
// says so.
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

// What somebody has put into the hash by hand stops nothing, and is readable.
func TestTagsThatAreNone(t *testing.T) {
	t.Parallel()
	onBothRedis(t, func(t *testing.T, r *testRedis, s *Store) {
		merge(t, s, taggedCreation("k", timer.Tag{Type: "CALL", Count: 1}))
		r.client.HSet(t.Context(), s.keys[0].tags, "%FF", 1, "%", 2, "text", "many", "negative", -1)
		wantSums(t, s, map[string]int64{"CALL": 1, "\uFFFD": 1, "%": 2})
		if _, err := s.Tags(t.Context(), "none", 1); !errors.Is(err, timer.ErrUnavailable) {
			t.Errorf("of no shard: %v", err)
		}
		if _, err := s.Recount(t.Context(), "none", 1); !errors.Is(err, timer.ErrUnavailable) {
			t.Errorf("of no shard: %v", err)
		}
	})
}
