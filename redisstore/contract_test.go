package redisstore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"chronos/scheduler/store"
	"chronos/scheduler/storetest"
	"chronos/scheduler/timer"
	"chronos/scheduler/timing"
	"chronos/scheduler/verify/testkit"
)

func TestContractMini(t *testing.T) {
	t.Parallel()
	for _, shards := range []int{1, 3} {
		t.Run(fmt.Sprint(shards, " shards"), func(t *testing.T) {
			storetest.Run(t, func(t *testing.T) storetest.Fixture {
				var all []*testRedis
				for range shards {
					all = append(all, startSwift(t))
				}
				return fixture(t, "http", all...)
			})
		})
	}
}

func TestContractReal(t *testing.T) {
	t.Parallel()
	shard := startRedis(t)
	var lanes atomic.Int64 // each test has a deliverer kind to itself
	storetest.Run(t, func(t *testing.T) storetest.Fixture {
		return fixture(t, fmt.Sprint("lane", lanes.Add(1)), shard)
	})
}

func fixture(t *testing.T, lane string, shards ...*testRedis) storetest.Fixture {
	t.Helper()
	var open []*Store
	return storetest.Fixture{
		Open: func(node string) store.Store {
			open = append(open, openStore(t, node, lane, shards...))
			return open[len(open)-1]
		},
		Now: func() time.Time { return shards[0].now(t) },
		Pass: func(d time.Duration) {
			for _, r := range shards {
				r.pass(t, d)
			}
			for _, s := range open {
				s.learn(t, shards...)
			}
		},
		Neighbors:   func(n int) []string { return open[0].keysOf("a", 3, n) },
		DeadLetters: func(name string) []storetest.DeadLetter { return open[0].deadLetters(t, name, shards...) },
	}
}

// Records that a claim skips must not make the claim take more than its share.
func TestClaimReadsPastWithinItsShare(t *testing.T) {
	t.Parallel()
	shard := startMini(t, time.Now())
	s, other := openStore(t, "node", "http", shard), openStore(t, "other", "http", shard)
	ctx, keys := t.Context(), s.keysOf("a", 3, 9)
	for _, key := range keys[:3] {
		s.Merge(ctx, []store.Write{oneWrite(key, 1)})
		shard.pass(t, time.Millisecond)
		claimed, err := s.Claim(ctx, "a", store.ClaimRequest{Limit: Partitions, Grace: time.Minute, LeaveOwnRetries: true})
		if err != nil || len(claimed.Claims) != 1 {
			t.Fatalf("%s: %+v, %v", key, claimed, err)
		}
		settled := s.Settle(ctx, "a", []store.Settlement{{Lease: claimed.Claims[0].Lease, Outcome: store.OutcomeAgain}})
		if !settled[0].Accepted {
			t.Fatalf("%s: %+v, %+v", key, claimed, settled)
		}
	}
	for _, key := range keys[3:] {
		s.Merge(ctx, []store.Write{oneWrite(key, 1)})
	}
	shard.pass(t, time.Millisecond)
	req := store.ClaimRequest{Limit: 2 * Partitions, Grace: time.Minute, LeaveOwnRetries: true}
	for node, want := range map[*Store]int{s: 2, other: 2} {
		if got, err := node.Claim(ctx, "a", req); err != nil || len(got.Claims) != want || !got.More {
			t.Errorf("%s claimed %d, more %v, %v, want its share, %d, and more", node.node, len(got.Claims), got.More, err, want)
		}
	}
}

// Rule "no late writes": a Redis that was stopped executes buffered commands when it wakes. Commands that create,
// lease or fire must then do nothing.
func TestStoppedRedisExecutesNothingLate(t *testing.T) {
	t.Parallel()
	shard := startRedis(t)
	s, other := openStore(t, "node", "http", shard), openStore(t, "other", "http", shard)
	s.patience, s.notAfter = timing.CommandLife, timing.CommandLife // as outside of tests
	ctx := t.Context()
	put := func(key string) {
		if w := s.Merge(ctx, []store.Write{oneWrite(key, 1)})[0]; w.Status != store.WriteStored {
			t.Fatalf("merge %s: %+v", key, w)
		}
	}
	put("fired")
	shard.pass(t, time.Millisecond)
	claimed, err := s.Claim(ctx, "a", store.ClaimRequest{Limit: 99, Grace: time.Minute})
	if err != nil || len(claimed.Claims) != 1 {
		t.Fatalf("claim: %+v, %v", claimed, err)
	}
	put("claimed")
	shard.pass(t, time.Millisecond)

	shard.server.Signal(syscall.SIGSTOP)
	testkit.Eventually(t, 10*time.Second, "redis-server to stop", func() bool {
		ctx, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
		defer cancel()
		return s.shards()[0].Poll.Ping(ctx).Err() != nil
	})
	var calls sync.WaitGroup
	stopped := time.Now()
	calls.Go(func() {
		result, err := s.Claim(ctx, "a", store.ClaimRequest{Limit: 99, Grace: time.Minute})
		if !errors.Is(err, timer.ErrUnavailable) || len(result.Claims) != 0 {
			t.Errorf("claim: %+v, %v, want store unavailable", result, err)
		}
	})
	calls.Go(func() {
		terms := store.FenceTerms{Limit: time.Second, Hold: time.Minute}
		fenced := s.Fire(ctx, "a", terms, []store.Fence{{Lease: claimed.Claims[0].Lease, Pops: 1}})[0]
		if fenced.Status != store.FenceTooLate {
			t.Errorf("fence: %+v, want too late", fenced)
		}
	})
	calls.Go(func() {
		if w := s.Merge(ctx, []store.Write{oneWrite("created", 1)})[0]; !errors.Is(w.Err, timer.ErrUnavailable) {
			t.Errorf("merge, answered %v after the stop: %+v, want store unavailable", time.Since(stopped), w)
		}
		if took := time.Since(stopped); took > 5*time.Second {
			t.Errorf("the client waited %v", took)
		}
	})
	testkit.Eventually(t, 10*time.Second, "the calls to be out of date", func() bool { return time.Since(stopped) > timing.CommandLife+500*time.Millisecond })
	shard.server.Signal(syscall.SIGCONT)
	calls.Wait()

	for _, key := range []string{"claimed"} {
		if got := other.Read(ctx, spots(key))[0]; got.Err != nil || got.Leased {
			t.Errorf("%s: leased %v, %v, want unleased", key, got.Leased, got.Err)
		}
	}
	if got := other.Read(ctx, spots("fired"))[0]; got.Record.State.Attempt != 0 {
		t.Errorf("an attempt was counted: %+v", got)
	}
	if got := other.Read(ctx, spots("created"))[0]; !errors.Is(got.Err, timer.ErrNotFound) {
		t.Errorf("created: %+v, want not found", got)
	}
}

func oneWrite(key string, version timer.Version) store.Write {
	return store.Write{
		Kind: store.WritePut, Shard: "a", Key: key, State: timer.State{Version: version, Seq: 1}, RF: 1, Life: time.Minute,
		Timer: &timer.Timer{ReplicationFactor: 1, Callback: timer.Callback{URI: "http://receiver.example/"}},
	}
}

// A shard whose clock was stepped refuses a call that seems late, and answers with the clock's time. The node
// believes the answer.
func TestSteppedClockIsLearnt(t *testing.T) {
	t.Parallel()
	shard := startMini(t, time.Now())
	s := openStore(t, "node", "http", shard)
	ctx := t.Context()
	for _, step := range []time.Duration{time.Hour, -2 * time.Hour, 10 * time.Minute} {
		shard.pass(t, step)
		if _, err := s.Claim(ctx, "a", store.ClaimRequest{Limit: 99, Grace: time.Minute}); step > 0 != errors.Is(err, timer.ErrUnavailable) {
			t.Errorf("claim after a step of %v: %v", step, err)
		}
		if _, err := s.Claim(ctx, "a", store.ClaimRequest{Limit: 99, Grace: time.Minute}); err != nil {
			t.Errorf("claim again after a step of %v: %v", step, err)
		}
		shard.pass(t, step)
		if w := s.Merge(ctx, []store.Write{oneWrite(step.String(), 1)})[0]; w.Status != store.WriteStored {
			t.Errorf("merge after a step of %v: %+v", step, w)
		}
	}
}

// startBackwards starts a redis-server whose locale sorts digits and letters from the last to the first: Lua
// compares strings by the locale.
func startBackwards(t *testing.T) *testRedis {
	t.Helper()
	localedef := testkit.Program(t, "localedef")
	dir := t.TempDir()
	source := filepath.Join(dir, "backwards")
	var digits strings.Builder
	for _, c := range "fedcba9876543210" {
		fmt.Fprintf(&digits, "<U%04X>\n", c)
	}
	text := "comment_char %\nescape_char /\nLC_COLLATE\norder_start forward\n" + digits.String() + "order_end\nEND LC_COLLATE\n"
	if err := os.WriteFile(source, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	// localedef warns of categories that the locale lacks, and fails without -c.
	output, _ := exec.CommandContext(t.Context(), localedef, "-c", "-i", source, filepath.Join(dir, "xx_XX")).CombinedOutput()

	shard := startRedis(t, "LOCPATH="+dir, "LC_ALL=xx_XX")
	first, err := shard.client.Eval(context.Background(), "return 'b' < 'a'", nil).Bool()
	if err != nil || !first {
		testkit.Missing(t, fmt.Sprintf("this system's localedef made no locale that sorts backwards (%v):\n%s", err, output))
	}
	return shard
}

// In some locales the digits of a version stand in another order.
func TestVersionsCompareInAnyLocale(t *testing.T) {
	shard := startBackwards(t)
	s := openStore(t, "node", "http", shard)
	for i, pair := range [][2]timer.Version{{0xa, 0xb}, {0x9, 0xa}, {0x1_0000, 0x2_0000}, {0x1_ffff, 0x2_0000}, {1 << 63, 1<<63 | 1}} {
		key := fmt.Sprint("k", i)
		for k, want := range []store.WriteStatus{store.WriteStored, store.WriteStored, store.WriteNewer} {
			if w := s.Merge(t.Context(), []store.Write{oneWrite(key, pair[k%2])})[0]; w.Status != want {
				t.Errorf("write %d of %v: status %d, want %d, %v", k+1, pair, w.Status, want, w.Err)
			}
		}
	}
}
