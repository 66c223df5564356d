package redisstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"chronos/scheduler/awake"
	"chronos/scheduler/store"
	"chronos/scheduler/timer"
	"chronos/scheduler/timing"
	"chronos/scheduler/verify/heldup"
	"chronos/scheduler/verify/testkit"
)

// A shard forgets its scripts again and again, between calls and amid calls. No call fails: a script that is missing
// in a pipeline goes once more with its source.
func TestForgottenScripts(t *testing.T) {
	t.Parallel()
	p := testkit.StartRedis(t)
	s := openShards(t, io.Discard, shardOf("a", p))
	s.patience, s.notAfter = time.Minute, time.Minute // however busy the machine is
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()

	var flushes, fired atomic.Int64
	var workers sync.WaitGroup
	workers.Go(func() {
		for ctx.Err() == nil {
			if err := p.Admin.ScriptFlush(t.Context()).Err(); err != nil {
				t.Error(err)
			}
			flushes.Add(1)
		}
	})
	const writers, perRound = 4, 20
	var created atomic.Int64
	for w := range writers {
		workers.Go(func() {
			for round := 0; ctx.Err() == nil; round++ {
				writes := make([]store.Write, perRound)
				keys := make([]string, perRound)
				for i := range writes {
					writes[i] = creation(fmt.Sprintf("%d-%d-%d", w, round, i), 0)
					keys[i] = writes[i].Key
				}
				for _, answer := range s.Merge(t.Context(), writes) {
					if answer.Err != nil {
						t.Errorf("merge: %v", answer.Err)
						return
					}
					created.Add(1)
				}
				for _, answer := range s.Read(t.Context(), spots(keys...)) {
					if answer.Err != nil && !errors.Is(answer.Err, timer.ErrNotFound) {
						t.Errorf("read: %v", answer.Err)
						return
					}
				}
			}
		})
	}
	fire := func() bool {
		result, err := claimAll(t.Context(), s, "a")
		if err == nil {
			err = fireAll(t.Context(), s, "a", result.Claims, store.OutcomeDone)
		}
		if err != nil {
			t.Errorf("claim and fire: %v", err)
			return false
		}
		fired.Add(int64(len(result.Claims)))
		return true
	}
	workers.Go(func() {
		for ctx.Err() == nil && fire() {
			continue
		}
	})
	const enough = 200 // of everything
	testkit.Eventually(t, 4*testkit.Soon, "enough of everything", func() bool {
		return t.Failed() || flushes.Load() >= enough && fired.Load() >= enough && p.Calls("eval") >= enough
	})
	cancel()
	workers.Wait()
	for !t.Failed() && fired.Load() < created.Load() {
		if !fire() {
			break
		}
	}
	t.Logf("%d flushes, %d timers created and fired, %d calls went again with their source", flushes.Load(), created.Load(), p.Calls("eval"))
}

// Redis is killed and started again. Requests fail meanwhile, and work again by themselves. Acknowledged timers are
// still stored.
func TestKilledServerComesBack(t *testing.T) {
	t.Parallel()
	p := testkit.StartRedis(t)
	var log testkit.Log
	s := openShards(t, &log, shardOf("a", p))
	merge(t, s, creation("kept", time.Hour))
	p.Kill()
	if err := read(t, s, "kept").Err; !errors.Is(err, timer.ErrUnavailable) {
		t.Fatalf("read from a dead shard: %v, want ErrUnavailable", err)
	}
	if answer := s.Merge(t.Context(), []store.Write{creation("x", 0)})[0]; !errors.Is(answer.Err, timer.ErrUnavailable) {
		t.Fatalf("merge into a dead shard: %+v, want ErrUnavailable", answer)
	}
	if _, err := claimAll(t.Context(), s, "a"); !errors.Is(err, timer.ErrUnavailable) {
		t.Fatalf("claim from a dead shard: %v, want ErrUnavailable", err)
	}
	p.Start()
	begin := time.Now()
	testkit.Eventually(t, testkit.Soon, "the shard to be found again", func() bool { return !errors.Is(read(t, s, "kept").Err, timer.ErrUnavailable) })
	t.Logf("it took %v to notice", time.Since(begin))
	got := read(t, s, "kept")
	if got.Err != nil || got.Record.Timer.Callback.URI != "http://localhost/kept" {
		t.Fatalf("after the restart the timer is %+v, %v", got.Record, got.Err)
	}
	if !works(t, s, "new") {
		t.Fatal("after the restart nothing is stored")
	}

	// The next time the Redis comes back without persistence: the node looks at the Redis again.
	p.Kill()
	if err := read(t, s, "kept").Err; !errors.Is(err, timer.ErrUnavailable) {
		t.Fatalf("read from a dead shard: %v, want ErrUnavailable", err)
	}
	if strings.Contains(log.String(), "persists nothing") {
		t.Errorf("the log warns too early:\n%s", log.String())
	}
	p.Args = append(p.Args, "--appendonly", "no")
	p.Start()
	testkit.Eventually(t, testkit.Soon, "the shard to be found again", func() bool { return !errors.Is(read(t, s, "kept").Err, timer.ErrUnavailable) })
	if !strings.Contains(log.String(), "persists nothing") {
		t.Errorf("the log doesn't warn:\n%s", log.String())
	}
}

// Redis is stopped: connections stay open and nothing answers. Every caller gets an answer when the caller's patience
// ends, and at the latest after the end of one flush and of the caller's own, each of CommandLife, however many callers
// ask. As soon as Redis goes on, so does the work.
func TestSilentServer(t *testing.T) {
	t.Parallel()
	p := testkit.StartRedis(t)
	s := openShards(t, io.Discard, shardOf("a", p))
	merge(t, s, creation("kept", time.Hour))
	watch, stopped := heldup.Begin(t), time.Now()
	p.Signal(syscall.SIGSTOP)

	const patience, slack = 900 * time.Millisecond, 200 * time.Millisecond
	var slowest, slowestBounded atomic.Int64
	var asked sync.WaitGroup
	ask := func(do func(ctx context.Context) error) {
		for _, c := range []struct {
			patience time.Duration
			slowest  *atomic.Int64
		}{{time.Hour, &slowest}, {patience, &slowestBounded}} {
			asked.Go(func() {
				begin := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), c.patience)
				defer cancel()
				if err := do(ctx); !errors.Is(err, timer.ErrUnavailable) {
					t.Errorf("a silent shard is answered with %v, want ErrUnavailable", err)
				}
				took := int64(time.Since(begin))
				for known := c.slowest.Load(); took > known && !c.slowest.CompareAndSwap(known, took); {
					known = c.slowest.Load()
				}
			})
		}
	}
	tick := time.NewTicker(25 * time.Millisecond)
	defer tick.Stop()
	for i := range 100 {
		ask(func(ctx context.Context) error {
			return s.Merge(ctx, []store.Write{creation(strconv.Itoa(i), 0)})[0].Err
		})
		ask(func(ctx context.Context) error { return s.Read(ctx, spots("kept"))[0].Err })
		if i%10 == 0 {
			ask(func(ctx context.Context) error {
				_, err := claimAll(ctx, s, "a")
				return err
			})
		}
		<-tick.C
	}
	asked.Wait()
	whole, bounded := time.Duration(slowest.Load()), time.Duration(slowestBounded.Load())
	t.Logf("the slowest answer took %v, with a patience of %v it took %v", whole, patience, bounded)
	watch.AtMost(t, stopped, "the slowest answer", whole, 2*timing.CommandLife)
	watch.AtMost(t, stopped, "the slowest answer to a caller with patience for 900 ms", bounded, patience+slack)
	p.Signal(syscall.SIGCONT)
	begin := time.Now()
	if !works(t, s, "new") {
		t.Error("the first requests after it went on fail")
	}
	watch.AtMost(t, begin, "the first requests after it went on", time.Since(begin), 500*time.Millisecond)
}

// Rule "no late writes": a create that Redis finds in its buffers when it wakes is executed only if the create is
// not too old.
func TestCreateIsNotExecutedTooLate(t *testing.T) {
	t.Parallel()
	p := testkit.StartRedis(t)
	s := openShards(t, io.Discard, shardOf("a", p))
	merge(t, s, creation("first", time.Hour)) // the script is known and a connection open
	for _, c := range []struct {
		key     string
		pause   time.Duration
		written bool
	}{{"in time", 0, true}, {"late", timing.CommandLife + 100*time.Millisecond, false}} {
		w := creation(strings.ReplaceAll(c.key, " ", "-"), time.Hour)
		before := p.Calls("evalsha")
		if !works(t, s, "first") { // renews the connection
			t.Fatal("the shard is not back")
		}
		p.Signal(syscall.SIGSTOP)
		sent := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), timing.RoundPatience)
		err := s.Merge(ctx, []store.Write{w})[0].Err
		if cancel(); !errors.Is(err, timer.ErrUnavailable) {
			t.Fatalf("%s: merge into a stopped shard: %v", c.key, err)
		}
		testkit.Eventually(t, testkit.Soon, "the end of the pause", func() bool { return time.Since(sent) >= c.pause })
		p.Signal(syscall.SIGCONT)
		testkit.Eventually(t, testkit.Soon, "what was buffered to be executed", func() bool { return p.Calls("evalsha") >= before+3 })
		testkit.Eventually(t, testkit.Soon, "an answer", func() bool {
			err = read(t, s, w.Key).Err
			return !errors.Is(err, timer.ErrUnavailable) // on a busy machine the connection may time out
		})
		if c.written && err != nil || !c.written && !errors.Is(err, timer.ErrNotFound) {
			t.Errorf("%s: written %t expected, reading says %v", c.key, c.written, err)
		}
	}
}

// A Redis that became a replica refuses writes until the Redis is a primary again.
func TestReadOnlyServer(t *testing.T) {
	t.Parallel()
	p := testkit.StartRedis(t)
	s := openShards(t, io.Discard, shardOf("a", p))
	merge(t, s, creation("kept", time.Hour))
	p.Do("REPLICAOF", "127.0.0.1", "1")
	for range 3 {
		answer := s.Merge(t.Context(), []store.Write{creation("x", 0)})[0]
		if !errors.Is(answer.Err, timer.ErrUnavailable) || !strings.Contains(answer.Err.Error(), "READONLY") {
			t.Fatalf("merge into a replica: %v, want ErrUnavailable that says READONLY", answer.Err)
		}
	}
	p.Do("REPLICAOF", "NO", "ONE")
	if !works(t, s, "new") {
		t.Error("the first requests after it is a primary again fail")
	}
	if err := read(t, s, "x").Err; !errors.Is(err, timer.ErrNotFound) {
		t.Errorf("a refused create was stored: %v", err)
	}
}

// A Redis that is loading its data refuses everything until all data is loaded.
func TestLoadingServer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := testkit.StartRedis(t, "--dir", dir, "--appendonly", "no", "--loading-process-events-interval-bytes", "1024")
	var log testkit.Log
	s := openShards(t, &log, shardOf("a", p))
	merge(t, s, creation("kept", time.Hour))
	filler := p.Admin.Pipeline()
	for i := range 1000 {
		filler.Set(t.Context(), "filler-"+strconv.Itoa(i), strings.Repeat("x", 1024), 0)
	}
	if _, err := filler.Exec(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.Do("SAVE")
	p.Kill()
	p.Args = append(p.Args, "--key-load-delay", "3000") // µs for each key: a busy machine takes its time for the calls below
	p.Launch()
	testkit.Eventually(t, testkit.Soon, "the loading to begin", func() bool {
		err := p.Admin.Get(t.Context(), "filler-0").Err()
		return err != nil && strings.HasPrefix(err.Error(), "LOADING")
	})
	late := openShards(t, &log, shardOf("a", p)) // opened during loading
	for name, kept := range map[string]*Store{"opened before": s, "opened meanwhile": late} {
		if err := read(t, kept, "kept").Err; !errors.Is(err, timer.ErrUnavailable) || !strings.Contains(err.Error(), "loading") {
			t.Errorf("%s: read from a loading shard: %v, want ErrUnavailable that says so", name, err)
		}
		if err := kept.Merge(t.Context(), []store.Write{creation("x", 0)})[0].Err; !errors.Is(err, timer.ErrUnavailable) {
			t.Errorf("%s: merge into a loading shard: %v, want ErrUnavailable", name, err)
		}
	}
	testkit.Eventually(t, testkit.Soon, "the loading to end", func() bool { return p.Admin.Get(t.Context(), "filler-0").Err() == nil })
	for name, backend := range map[string]*Store{"opened before": s, "opened meanwhile": late} {
		if err := read(t, backend, "kept").Err; err != nil {
			t.Errorf("%s: the first request after it has loaded: %v", name, err)
		}
	}
}

// stopped is the context of a caller whose process has just gone on after a stop: the deadline has passed, but
// nobody has ended the context yet.
type stopped struct{ context.Context }

func (stopped) Deadline() (time.Time, bool) { return time.Now().Add(-time.Millisecond), true }

func TestNothingIsSentAfterTheDeadline(t *testing.T) {
	t.Parallel()
	s := openShards(t, io.Discard, shardOf("a", testkit.StartRedis(t)))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w := creation("late", time.Hour)
	if err := s.Tell(stopped{ctx}, "a", []store.Write{w})[0].Err; !errors.Is(err, timer.ErrUnavailable) {
		t.Errorf("written after the deadline: %v, want %v", err, timer.ErrUnavailable)
	}
	if err := read(t, s, w.Key).Err; !errors.Is(err, timer.ErrNotFound) {
		t.Errorf("the copy is there: %v", err)
	}
}

// A write that a stopped process has sent too late is not repeated when the process goes on.
func TestALateWriteOfAStoppedProcessIsNotRepeated(t *testing.T) {
	t.Parallel()
	p := testkit.StartRedis(t)
	o := options(io.Discard, shardOf("a", p))
	o.Awake = awake.Following(func() (shown, resumed time.Duration) { return time.Hour, time.Hour }) // stands still
	s, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close() //nolint:errcheck // the result does not matter
	merge(t, s, creation("first", time.Hour))
	before := p.Calls("evalsha")
	p.Signal(syscall.SIGSTOP)
	sent := time.Now()
	answered := make(chan error, 1)
	go func() { answered <- s.Merge(t.Context(), []store.Write{creation("late", time.Hour)})[0].Err }()
	testkit.Eventually(t, testkit.Soon, "the write to be too late", func() bool { return time.Since(sent) >= timing.CommandLife+100*time.Millisecond })
	p.Signal(syscall.SIGCONT)
	if err := <-answered; !errors.Is(err, timer.ErrUnavailable) {
		t.Errorf("a write that was sent too late: %v, want %v", err, timer.ErrUnavailable)
	}
	testkit.Eventually(t, testkit.Soon, "what was buffered to be executed", func() bool { return p.Calls("evalsha") > before })
	if err := read(t, s, "late").Err; !errors.Is(err, timer.ErrNotFound) {
		t.Errorf("the copy is there: %v", err)
	}
}
