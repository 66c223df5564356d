package redisstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"chronos/scheduler"
)

// soon is how long the tests wait for what must come by itself, also on a busy
// machine.
const soon = 15 * time.Second

// answered is when one request of a silent shard must have been answered.
const answered = time.Second

// process is a redis-server that a test stops, kills and starts again.
type process struct {
	t       *testing.T
	program string
	args    []string
	port    int
	admin   *redis.Client

	cmd    *exec.Cmd
	exited chan struct{}
	output *bytes.Buffer // read only after exited
}

// startProcess starts a redis-server that keeps an append-only file; further
// arguments come last and win.
func startProcess(t *testing.T, args ...string) *process {
	t.Helper()
	program := needProgram(t, "redis-server")
	p := &process{t: t, program: program, port: freePort(t)}
	p.args = append([]string{
		"--port", strconv.Itoa(p.port), "--bind", "127.0.0.1", "--dir", t.TempDir(), "--save", "", "--appendonly", "yes",
	}, args...)
	p.admin = redis.NewClient(&redis.Options{Addr: p.addr(), DisableIdentity: true, Protocol: 2})
	t.Cleanup(func() {
		p.kill()
		_ = p.admin.Close()
	})
	p.start()
	return p
}

func freePort(t *testing.T) int {
	t.Helper()
	var config net.ListenConfig
	l, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	addr, ok := l.Addr().(*net.TCPAddr)
	if !ok {
		t.Fatalf("listening on %v", l.Addr())
	}
	return addr.Port
}

func (p *process) addr() string { return "127.0.0.1:" + strconv.Itoa(p.port) }

func (p *process) shard(name string) ShardConfig {
	return ShardConfig{Name: name, URL: "redis://" + p.addr() + "/0"}
}

// launch starts the server and doesn't wait for it.
func (p *process) launch() {
	p.t.Helper()
	p.output = &bytes.Buffer{}
	p.cmd = exec.CommandContext(p.t.Context(), p.program, p.args...)
	p.cmd.Stdout, p.cmd.Stderr = p.output, p.output
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	exited := make(chan struct{})
	p.exited = exited
	go func(cmd *exec.Cmd) {
		_ = cmd.Wait()
		close(exited)
	}(p.cmd)
}

func (p *process) start() {
	p.t.Helper()
	p.launch()
	await(p.t, soon, "redis-server to answer", func() bool {
		select {
		case <-p.exited:
			p.t.Fatalf("redis-server ended:\n%s", p.output)
		default:
		}
		err := p.admin.Ping(p.t.Context()).Err()
		var answer redis.Error
		return err == nil || errors.As(err, &answer) && !strings.HasPrefix(answer.Error(), "LOADING")
	})
}

// kill ends the server as a crash does.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.exited
}

func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// do runs a command of the test itself.
func (p *process) do(args ...any) any {
	p.t.Helper()
	answer, err := p.admin.Do(p.t.Context(), args...).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		p.t.Fatalf("%v: %v", args, err)
	}
	return answer
}

// fact is a line of INFO.
func (p *process) fact(section, name string) string {
	p.t.Helper()
	info, err := p.admin.Info(p.t.Context(), section).Result()
	if err != nil {
		p.t.Fatal(err)
	}
	return parseInfo(info)[name]
}

// calls is how often the server executed a command.
func (p *process) calls(command string) int {
	stat := p.fact("commandstats", "cmdstat_"+command)
	_, rest, _ := strings.Cut(stat, "calls=")
	number, _, _ := strings.Cut(rest, ",")
	n, _ := strconv.Atoi(number)
	return n
}

// logBuffer gathers what is logged; safe for concurrent use.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func options(log io.Writer, shards ...ShardConfig) Options {
	return Options{Shards: shards, Node: "node-1", Lane: "http", Log: slog.New(slog.NewTextHandler(log, nil))}
}

func openShards(t *testing.T, log io.Writer, shards ...ShardConfig) *Store {
	t.Helper()
	s, err := Open(t.Context(), options(log, shards...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func creation(key string, interval time.Duration) scheduler.Write {
	return scheduler.Write{
		ID: scheduler.ID{Key: key, RF: 1}, Version: scheduler.VersionAt(time.Now(), 1), Skew: time.Second,
		Timer: &scheduler.Timer{Interval: interval, ReplicationFactor: 1, Callback: scheduler.Callback{URI: "http://localhost/" + key}},
	}
}

func deletion(key string) scheduler.Write {
	return scheduler.Write{
		ID: scheduler.ID{Key: key, RF: 1}, Version: scheduler.VersionAt(time.Now().Add(time.Second), 1), Life: 2 * time.Minute,
	}
}

func merge(t *testing.T, s *Store, writes ...scheduler.Write) {
	t.Helper()
	for _, answer := range s.Merge(t.Context(), writes) {
		if answer.Err != nil || answer.Status != scheduler.WriteStored {
			t.Fatalf("merge of %s: status %d, %v", answer.ID.Key, answer.Status, answer.Err)
		}
	}
}

func read(t *testing.T, s *Store, key string) scheduler.ReadResult {
	t.Helper()
	return s.Read(t.Context(), []scheduler.ID{{Key: key}})[0]
}

// works reports whether the shard takes and gives a timer.
func works(t *testing.T, s *Store, key string) bool {
	t.Helper()
	w := creation(key, time.Hour)
	if answer := s.Merge(t.Context(), []scheduler.Write{w})[0]; answer.Err != nil {
		return false
	}
	return read(t, s, key).Err == nil
}

// claimAll claims what is due, nothing ahead of it.
func claimAll(ctx context.Context, s *Store, shard string) (scheduler.ClaimResult, error) {
	return s.Claim(ctx, shard, scheduler.ClaimRequest{Limit: 500, Grace: time.Second})
}

func terms() scheduler.FenceTerms {
	return scheduler.FenceTerms{Limit: 2 * time.Second, Hold: 3500 * time.Millisecond}
}

// fireAll takes claims through fence and settlement.
func fireAll(ctx context.Context, s *Store, shard string, claims []scheduler.Claimed, outcome scheduler.Outcome) error {
	fences := make([]scheduler.Fence, len(claims))
	settlements := make([]scheduler.Settlement, len(claims))
	for i, c := range claims {
		fences[i] = scheduler.Fence{Lease: c.Lease, Pops: c.Record.Timer.Pops()}
		settlements[i] = scheduler.Settlement{Lease: c.Lease, Outcome: outcome, Pops: c.Record.Timer.Pops(), Reason: "no more"}
	}
	var errs []error
	for i, f := range s.Fire(ctx, shard, terms(), fences) {
		if f.Status != scheduler.FencePassed {
			errs = append(errs, fmt.Errorf("fence of %s: status %d: %w", fences[i].Lease.Key, f.Status, f.Err))
		}
	}
	for i, o := range s.Settle(ctx, shard, settlements) {
		if !o.Accepted {
			errs = append(errs, fmt.Errorf("settlement of %s: holder %q: %w", settlements[i].Lease.Key, o.Holder, o.Err))
		}
	}
	return errors.Join(errs...)
}

// A shard forgets its scripts again and again, between calls and amid them: no
// call fails, since what is missing in a pipeline goes once more with its
// source.
func TestForgottenScripts(t *testing.T) {
	t.Parallel()
	p := startProcess(t)
	s := openShards(t, io.Discard, p.shard("a"))
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()

	var flushes, fired atomic.Int64
	var workers sync.WaitGroup
	workers.Go(func() {
		for ctx.Err() == nil {
			if err := p.admin.ScriptFlush(t.Context()).Err(); err != nil {
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
				writes := make([]scheduler.Write, perRound)
				ids := make([]scheduler.ID, perRound)
				for i := range writes {
					writes[i] = creation(fmt.Sprintf("%d-%d-%d", w, round, i), 0)
					ids[i] = writes[i].ID
				}
				for _, answer := range s.Merge(t.Context(), writes) {
					if answer.Err != nil {
						t.Errorf("merge: %v", answer.Err)
						return
					}
					created.Add(1)
				}
				for _, answer := range s.Read(t.Context(), ids) {
					if answer.Err != nil && !errors.Is(answer.Err, scheduler.ErrNotFound) {
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
			err = fireAll(t.Context(), s, "a", result.Claims, scheduler.OutcomeDone)
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
	workers.Wait()
	for !t.Failed() && fired.Load() < created.Load() {
		if !fire() {
			break
		}
	}
	again := p.calls("eval")
	t.Logf("%d flushes, %d timers created and fired, %d calls went again with their source", flushes.Load(), created.Load(), again)
	if flushes.Load() < 100 || created.Load() < 100 || again < 100 {
		t.Errorf("%d flushes, %d timers, %d calls again: too few to prove anything", flushes.Load(), created.Load(), again)
	}
}

// Redis is killed and started again: requests fail meanwhile, and nothing else
// is needed for them to work again. What was acknowledged is there.
func TestKilledServerComesBack(t *testing.T) {
	t.Parallel()
	p := startProcess(t)
	var log logBuffer
	s := openShards(t, &log, p.shard("a"))
	merge(t, s, creation("kept", time.Hour))
	p.kill()
	if err := read(t, s, "kept").Err; !errors.Is(err, scheduler.ErrUnavailable) {
		t.Fatalf("read from a dead shard: %v, want ErrUnavailable", err)
	}
	if answer := s.Merge(t.Context(), []scheduler.Write{creation("x", 0)})[0]; !errors.Is(answer.Err, scheduler.ErrUnavailable) || answer.Unreached != 1 {
		t.Fatalf("merge into a dead shard: %+v, want ErrUnavailable and 1 unreached", answer)
	}
	if _, err := claimAll(t.Context(), s, "a"); !errors.Is(err, scheduler.ErrUnavailable) {
		t.Fatalf("claim from a dead shard: %v, want ErrUnavailable", err)
	}
	p.start()
	begin := time.Now()
	await(t, soon, "the shard to be found again", func() bool { return !errors.Is(read(t, s, "kept").Err, scheduler.ErrUnavailable) })
	t.Logf("it took %v to notice", time.Since(begin))
	got := read(t, s, "kept")
	if got.Err != nil || got.Record.Timer.Callback.URI != "http://localhost/kept" {
		t.Fatalf("after the restart the timer is %+v, %v", got.Record, got.Err)
	}
	if !works(t, s, "new") {
		t.Fatal("after the restart nothing is stored")
	}

	// The next time it comes back as one that keeps nothing: it is looked at anew.
	p.kill()
	if err := read(t, s, "kept").Err; !errors.Is(err, scheduler.ErrUnavailable) {
		t.Fatalf("read from a dead shard: %v, want ErrUnavailable", err)
	}
	if strings.Contains(log.String(), "persists nothing") {
		t.Errorf("the log warns too early:\n%s", log.String())
	}
	p.args = append(p.args, "--appendonly", "no")
	p.start()
	await(t, soon, "the shard to be found again", func() bool { return !errors.Is(read(t, s, "kept").Err, scheduler.ErrUnavailable) })
	if !strings.Contains(log.String(), "persists nothing") {
		t.Errorf("the log doesn't warn:\n%s", log.String())
	}
}

// Redis is stopped, so that connections stay open and nothing answers: whoever
// asks gets an answer within a second, or when its patience ends, however many
// do; and as soon as it goes on, so does the work.
func TestSilentServer(t *testing.T) {
	t.Parallel()
	p := startProcess(t)
	s := openShards(t, io.Discard, p.shard("a"))
	merge(t, s, creation("kept", time.Hour))
	p.signal(syscall.SIGSTOP)

	const patience, slack = 900 * time.Millisecond, 200 * time.Millisecond // slack: of a busy machine
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
				if err := do(ctx); !errors.Is(err, scheduler.ErrUnavailable) {
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
			return s.Merge(ctx, []scheduler.Write{creation(strconv.Itoa(i), 0)})[0].Err
		})
		ask(func(ctx context.Context) error { return s.Read(ctx, []scheduler.ID{{Key: "kept"}})[0].Err })
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
	if whole > time.Second+slack || bounded > patience+slack {
		t.Errorf("answers took %v, and %v with a patience of %v", whole, bounded, patience)
	}
	p.signal(syscall.SIGCONT)
	begin := time.Now()
	if !works(t, s, "new") {
		t.Error("the first requests after it went on fail")
	}
	if took := time.Since(begin); took > 500*time.Millisecond {
		t.Errorf("the first requests after it went on took %v", took)
	}
}

// Rule P10: a create that Redis finds in its buffers when it wakes is executed
// if it is not too old, and not otherwise.
func TestCreateIsNotExecutedTooLate(t *testing.T) {
	t.Parallel()
	p := startProcess(t)
	s := openShards(t, io.Discard, p.shard("a"))
	merge(t, s, creation("first", time.Hour)) // the script is known and a connection open
	for _, c := range []struct {
		key     string
		pause   time.Duration
		written bool
	}{{"in time", 0, true}, {"late", notAfter + 100*time.Millisecond, false}} {
		w := creation(strings.ReplaceAll(c.key, " ", "-"), time.Hour)
		before := p.calls("evalsha")
		if !works(t, s, "first") { // renews the connection
			t.Fatal("the shard is not back")
		}
		p.signal(syscall.SIGSTOP)
		sent := time.Now()
		if err := s.Merge(t.Context(), []scheduler.Write{w})[0].Err; !errors.Is(err, scheduler.ErrUnavailable) {
			t.Fatalf("%s: merge into a stopped shard: %v", c.key, err)
		}
		await(t, soon, "the end of the pause", func() bool { return time.Since(sent) >= c.pause })
		p.signal(syscall.SIGCONT)
		await(t, soon, "what was buffered to be executed", func() bool { return p.calls("evalsha") >= before+3 })
		err := read(t, s, w.ID.Key).Err
		if c.written && err != nil || !c.written && !errors.Is(err, scheduler.ErrNotFound) {
			t.Errorf("%s: written %t expected, reading says %v", c.key, c.written, err)
		}
	}
}

// A Redis that became a replica refuses writes until it is a primary again.
func TestReadOnlyServer(t *testing.T) {
	t.Parallel()
	p := startProcess(t)
	s := openShards(t, io.Discard, p.shard("a"))
	merge(t, s, creation("kept", time.Hour))
	p.do("REPLICAOF", "127.0.0.1", "1")
	for range 3 {
		answer := s.Merge(t.Context(), []scheduler.Write{creation("x", 0)})[0]
		if !errors.Is(answer.Err, scheduler.ErrUnavailable) || !strings.Contains(answer.Err.Error(), "READONLY") {
			t.Fatalf("merge into a replica: %v, want ErrUnavailable that says READONLY", answer.Err)
		}
	}
	p.do("REPLICAOF", "NO", "ONE")
	if !works(t, s, "new") {
		t.Error("the first requests after it is a primary again fail")
	}
	if err := read(t, s, "x").Err; !errors.Is(err, scheduler.ErrNotFound) {
		t.Errorf("a refused create was stored: %v", err)
	}
}

// A Redis that is loading its data refuses everything until it has.
func TestLoadingServer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := startProcess(t, "--dir", dir, "--appendonly", "no", "--loading-process-events-interval-bytes", "1024")
	var log logBuffer
	s := openShards(t, &log, p.shard("a"))
	merge(t, s, creation("kept", time.Hour))
	filler := p.admin.Pipeline()
	for i := range 1000 {
		filler.Set(t.Context(), "filler-"+strconv.Itoa(i), strings.Repeat("x", 1024), 0)
	}
	if _, err := filler.Exec(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.do("SAVE")
	p.kill()
	p.args = append(p.args, "--key-load-delay", "500") // µs for each key
	p.launch()
	await(t, soon, "the loading to begin", func() bool {
		err := p.admin.Get(t.Context(), "filler-0").Err()
		return err != nil && strings.HasPrefix(err.Error(), "LOADING")
	})
	late := openShards(t, &log, p.shard("a")) // opened while it loads
	for name, store := range map[string]*Store{"opened before": s, "opened meanwhile": late} {
		if err := read(t, store, "kept").Err; !errors.Is(err, scheduler.ErrUnavailable) || !strings.Contains(err.Error(), "loading") {
			t.Errorf("%s: read from a loading shard: %v, want ErrUnavailable that says so", name, err)
		}
		if err := store.Merge(t.Context(), []scheduler.Write{creation("x", 0)})[0].Err; !errors.Is(err, scheduler.ErrUnavailable) {
			t.Errorf("%s: merge into a loading shard: %v, want ErrUnavailable", name, err)
		}
	}
	await(t, soon, "the loading to end", func() bool { return p.admin.Get(t.Context(), "filler-0").Err() == nil })
	for name, store := range map[string]*Store{"opened before": s, "opened meanwhile": late} {
		if err := read(t, store, "kept").Err; err != nil {
			t.Errorf("%s: the first request after it has loaded: %v", name, err)
		}
	}
}

// A Redis whose memory is full takes no new timer, and goes on firing and
// deleting those it has.
func TestFullServer(t *testing.T) {
	t.Parallel()
	p := startProcess(t)
	s := openShards(t, io.Discard, p.shard("a"))
	const each = 20
	var keys []string
	for i := range each {
		for kind, w := range map[string]scheduler.Write{
			"once": creation("once-"+strconv.Itoa(i), 0), "every": creation("every-"+strconv.Itoa(i), 100*time.Millisecond),
			"again": creation("again-"+strconv.Itoa(i), 0), "dead": creation("dead-"+strconv.Itoa(i), 0),
			"gone": creation("gone-"+strconv.Itoa(i), time.Hour), "kept": creation("kept-"+strconv.Itoa(i), time.Hour),
		} {
			if kind == "every" {
				w.Timer.RepeatFor = time.Hour
			}
			keys = append(keys, w.ID.Key)
			merge(t, s, w)
		}
	}
	p.do("CONFIG", "SET", "maxmemory", "1mb")
	if p.admin.Set(t.Context(), "x", "y", 0).Err() == nil {
		t.Fatal("its memory is not full")
	}

	// Creates and deletes of many clients come together, so that they share calls.
	var clients sync.WaitGroup
	for i := range each {
		clients.Go(func() {
			answer := s.Merge(t.Context(), []scheduler.Write{creation("new-"+strconv.Itoa(i), 0)})[0]
			if !errors.Is(answer.Err, scheduler.ErrUnavailable) {
				t.Errorf("create in full memory: status %d, %v, want ErrUnavailable", answer.Status, answer.Err)
			}
			answer = s.Merge(t.Context(), []scheduler.Write{creation("kept-"+strconv.Itoa(i), 2*time.Hour)})[0]
			if !errors.Is(answer.Err, scheduler.ErrUnavailable) {
				t.Errorf("replace in full memory: status %d, %v, want ErrUnavailable", answer.Status, answer.Err)
			}
		})
		clients.Go(func() {
			answers := s.Merge(t.Context(), []scheduler.Write{deletion("gone-" + strconv.Itoa(i)), deletion("unknown-" + strconv.Itoa(i))})
			for _, answer := range answers {
				if answer.Err != nil || answer.Status != scheduler.WriteStored {
					t.Errorf("delete in full memory: status %d, %v", answer.Status, answer.Err)
				}
			}
		})
	}
	clients.Wait()
	for i := range each {
		key := "new-" + strconv.Itoa(i)
		part := s.keys[partitionOf(key)]
		for _, half := range []string{fmt.Sprint(p.do("HGET", part.timers, key)), fmt.Sprint(p.do("ZSCORE", part.due, key)), fmt.Sprint(p.do("HGET", part.leases, key))} {
			if half != "<nil>" {
				t.Errorf("%s was refused, and left %s", key, half)
			}
		}
		if kept := read(t, s, "kept-"+strconv.Itoa(i)); kept.Err != nil || kept.Record.Timer.Interval != time.Hour {
			t.Errorf("a timer whose replacement was refused is %+v, %v", kept.Record, kept.Err)
		}
	}

	if nodes, err := s.Beat(t.Context(), "a"); err != nil || len(nodes) != 1 {
		t.Errorf("announce in full memory: %v, %v", nodes, err)
	}
	outcomes := map[string]scheduler.Outcome{
		"once": scheduler.OutcomeDone, "every": scheduler.OutcomeNext, "again": scheduler.OutcomeAgain, "dead": scheduler.OutcomeDead,
	}
	fired := map[string]int{}
	await(t, soon, "all to be fired", func() bool {
		result, err := claimAll(t.Context(), s, "a")
		if err != nil {
			t.Fatalf("claim in full memory: %v", err)
		}
		for _, c := range result.Claims {
			kind, _, _ := strings.Cut(c.Lease.Key, "-")
			if err := fireAll(t.Context(), s, "a", []scheduler.Claimed{c}, outcomes[kind]); err != nil {
				t.Fatalf("fire in full memory: %v", err)
			}
			fired[kind]++
		}
		return fired["once"] == each && fired["every"] >= 2*each && fired["again"] >= 2*each && fired["dead"] == each
	})
	if answer := read(t, s, "dead-0"); !errors.Is(answer.Err, scheduler.ErrNotFound) {
		t.Errorf("a dead timer is %+v, %v", answer.Record, answer.Err)
	}
	for _, key := range keys {
		kind, _, _ := strings.Cut(key, "-")
		if err := read(t, s, key).Err; slices.Contains([]string{"every", "again", "kept"}, kind) != (err == nil) {
			t.Errorf("%s: %v", key, err)
		}
	}
	p.do("CONFIG", "SET", "maxmemory", "0")
	if !works(t, s, "new") {
		t.Error("nothing is stored now that there is memory again")
	}
}

// A Redis that evicts would lose timers: it is refused at the start, and when
// one that was away comes back so.
func TestEvictingServer(t *testing.T) {
	t.Parallel()
	p := startProcess(t, "--maxmemory-policy", "allkeys-lru")
	s, err := Open(t.Context(), options(io.Discard, p.shard("a")))
	if err == nil {
		_ = s.Close()
		t.Fatal("an evicting shard is accepted")
	}
	for _, want := range []string{"shard a", "maxmemory-policy allkeys-lru", "CONFIG SET maxmemory-policy noeviction"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %q does not say %q", err, want)
		}
	}
	p.do("CONFIG", "SET", "maxmemory-policy", "noeviction")
	s = openShards(t, io.Discard, p.shard("a"))
	merge(t, s, creation("kept", time.Hour))

	p.kill()
	p.start() // evicts again
	for range 3 {
		if err := read(t, s, "kept").Err; !errors.Is(err, scheduler.ErrUnavailable) || !strings.Contains(err.Error(), "maxmemory-policy") {
			t.Errorf("read from a shard that evicts now: %v, want ErrUnavailable that says why", err)
		}
		if err := s.Merge(t.Context(), []scheduler.Write{creation("x", 0)})[0].Err; !errors.Is(err, scheduler.ErrUnavailable) {
			t.Errorf("merge into a shard that evicts now: %v, want ErrUnavailable", err)
		}
		if _, err := claimAll(t.Context(), s, "a"); !errors.Is(err, scheduler.ErrUnavailable) {
			t.Errorf("claim from a shard that evicts now: %v, want ErrUnavailable", err)
		}
		if _, err := s.Beat(t.Context(), "a"); !errors.Is(err, scheduler.ErrUnavailable) {
			t.Errorf("beat on a shard that evicts now: %v, want ErrUnavailable", err)
		}
	}
	p.do("CONFIG", "SET", "maxmemory-policy", "noeviction")
	if err := read(t, s, "kept").Err; err != nil {
		t.Errorf("the first request after it was set right: %v", err)
	}
}

// Of several shards one is down at the start: the others work, and it joins in
// by itself.
func TestShardDownAtStart(t *testing.T) {
	t.Parallel()
	up, down := startProcess(t), startProcess(t)
	down.kill()
	var log logBuffer
	s := openShards(t, &log, up.shard("up"), down.shard("down"))
	if got := s.Shards(); !slices.Equal(got, []string{"up", "down"}) {
		t.Errorf("shards %v", got)
	}
	if !strings.Contains(log.String(), "level=WARN") || !strings.Contains(log.String(), "shard=down") {
		t.Errorf("the log doesn't warn of the shard that is down:\n%s", log.String())
	}
	var writes []scheduler.Write
	for i := range 40 {
		writes = append(writes, creation(strconv.Itoa(i), time.Hour))
	}
	count := map[string]int{}
	begin := time.Now()
	for _, answer := range s.Merge(t.Context(), writes) {
		count[answer.Shard]++
		if answer.Shard == "up" && answer.Err != nil || answer.Shard == "down" && !errors.Is(answer.Err, scheduler.ErrUnavailable) {
			t.Errorf("shard %s: %v", answer.Shard, answer.Err)
		}
	}
	if took := time.Since(begin); took > answered {
		t.Errorf("the answer took %v", took)
	}
	if count["up"] < 5 || count["down"] < 5 {
		t.Errorf("the timers are not spread: %v", count)
	}
	if _, err := claimAll(t.Context(), s, "up"); err != nil {
		t.Error(err)
	}
	down.start()
	await(t, soon, "the other shard to be found", func() bool {
		_, err := claimAll(t.Context(), s, "down")
		return err == nil
	})
	for _, answer := range s.Merge(t.Context(), writes) {
		if answer.Err != nil {
			t.Errorf("all are up, shard %s: %v", answer.Shard, answer.Err)
		}
	}
}

// More timers than a script takes: each is answered, in order.
func TestManyTimersInOneCall(t *testing.T) {
	t.Parallel()
	p := startProcess(t)
	s := openShards(t, io.Discard, p.shard("a"))
	var writes []scheduler.Write
	var ids []scheduler.ID
	for i := 0; len(writes) < 2*maxItems+1; i++ {
		if key := strconv.Itoa(i); partitionOf(key) == 7 || len(writes)%10 == 0 {
			writes = append(writes, creation(key, time.Hour))
			ids = append(ids, writes[len(writes)-1].ID)
		}
	}
	before := p.calls("eval") + p.calls("evalsha")
	for i, answer := range s.Merge(t.Context(), writes) {
		if answer.Err != nil || answer.Status != scheduler.WriteStored || answer.ID.Key != ids[i].Key {
			t.Fatalf("write %d of %s: %+v", i, ids[i].Key, answer)
		}
	}
	if calls := p.calls("eval") + p.calls("evalsha") - before; calls < 3 || calls > 2*(Partitions+2) {
		t.Errorf("%d timers took %d calls", len(writes), calls)
	}
	for i, answer := range s.Read(t.Context(), ids) {
		if answer.Err != nil || answer.Record.Timer.Callback.URI != "http://localhost/"+ids[i].Key {
			t.Fatalf("read %d of %s: %+v", i, ids[i].Key, answer)
		}
	}
}

// A client's instant may lie so far back that no duration holds the time since:
// it fires at once like any that is past.
func TestInstantLongPast(t *testing.T) {
	t.Parallel()
	s := openShards(t, io.Discard, startProcess(t).shard("a"))
	for _, year := range []int{1, 1500, 1700, 1900, 1969} {
		w := creation("in-"+strconv.Itoa(year), 0)
		w.Timer.At = time.Date(year, 6, 1, 0, 0, 0, 0, time.UTC)
		answer := s.Merge(t.Context(), []scheduler.Write{w})[0]
		if answer.Err != nil || answer.Wait > 0 || !answer.Due.Equal(w.Timer.At) {
			t.Errorf("year %d: due %v, in %v, %v", year, answer.Due, answer.Wait, answer.Err)
		}
		result, err := claimAll(t.Context(), s, "a")
		if err != nil || len(result.Claims) != 1 || result.Claims[0].DueIn > 0 {
			t.Fatalf("year %d: claimed %+v, %v", year, result.Claims, err)
		}
		lease := result.Claims[0].Lease
		fenced := s.Fire(t.Context(), "a", terms(), []scheduler.Fence{{Lease: lease, Pops: 1}})[0]
		if fenced.Status != scheduler.FencePassed || fenced.Late <= 0 || !fenced.Due.Equal(w.Timer.At) {
			t.Errorf("year %d: fenced as %+v", year, fenced)
		}
		settled := s.Settle(t.Context(), "a", []scheduler.Settlement{{Lease: lease, Outcome: scheduler.OutcomeDone, Pops: 1}})[0]
		if !settled.Accepted {
			t.Errorf("year %d: settled as %+v", year, settled)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	shard := ShardConfig{Name: "a", URL: "redis://127.0.0.1:1"}
	for name, o := range map[string]Options{
		"no shards": options(io.Discard), "no node": {Shards: []ShardConfig{shard}, Lane: "http"},
		"no lane": {Shards: []ShardConfig{shard}, Node: "n"}, "colon in the node": {Shards: []ShardConfig{shard}, Node: "a:b", Lane: "http"},
		"space in the node": {Shards: []ShardConfig{shard}, Node: "a b", Lane: "http"},
		"bad URL":           options(io.Discard, ShardConfig{Name: "a", URL: "redis://:s3cret@h:port"}),
	} {
		s, err := Open(t.Context(), o)
		if err == nil {
			_ = s.Close()
			t.Errorf("%s: opened", name)
		} else if strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The log warns of a shard that keeps nothing on disk, and of no other.
func TestPersistNothingWarning(t *testing.T) {
	t.Parallel()
	const warning = "persists nothing"
	for _, c := range []struct {
		name   string
		args   []string
		warned bool
	}{
		{"nothing", []string{"--appendonly", "no", "--save", ""}, true},
		{"append-only file", []string{"--appendonly", "yes", "--save", ""}, false},
		{"snapshots", []string{"--appendonly", "no", "--save", "60 1"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var log logBuffer
			openShards(t, &log, startProcess(t, c.args...).shard("a"))
			if got := strings.Contains(log.String(), warning); got != c.warned {
				t.Errorf("warned %t, want %t:\n%s", got, c.warned, log.String())
			}
		})
	}
}

// A cluster of one node: every key of a script is in one slot, claims go to all
// partitions, and what a silent node didn't answer is not sent to it again.
func TestCluster(t *testing.T) {
	t.Parallel()
	p := startProcess(t, "--cluster-enabled", "yes")
	p.do("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
	await(t, soon, "the cluster to be whole", func() bool {
		info, _ := p.admin.ClusterInfo(t.Context()).Result()
		return strings.Contains(info, "cluster_state:ok")
	})
	s := openShards(t, io.Discard, ShardConfig{Name: "a", URL: "redis+cluster://" + p.addr()})
	p.do("SCRIPT", "FLUSH")
	const timers = 100
	for i := range timers {
		merge(t, s, creation(strconv.Itoa(i), 0))
	}
	fired := 0
	await(t, soon, "all to be fired", func() bool {
		result, err := claimAll(t.Context(), s, "a")
		if err != nil {
			t.Fatal(err)
		}
		if err := fireAll(t.Context(), s, "a", result.Claims, scheduler.OutcomeDone); err != nil {
			t.Fatal(err)
		}
		fired += len(result.Claims)
		return fired == timers
	})
	if nodes, err := s.Beat(t.Context(), "a"); err != nil || !slices.Equal(nodes, []string{"node-1"}) {
		t.Errorf("nodes %v, %v", nodes, err)
	}
	if survey, err := s.Survey(t.Context(), "a"); err != nil || survey.Pending != 0 {
		t.Errorf("survey %+v, %v", survey, err)
	}
	merge(t, s, creation("kept", time.Hour))

	before := p.calls("evalsha")
	p.signal(syscall.SIGSTOP)
	begin := time.Now()
	_, err := claimAll(t.Context(), s, "a")
	if took := time.Since(begin); !errors.Is(err, scheduler.ErrUnavailable) || took > answered {
		t.Errorf("claim from a silent cluster: %v after %v", err, took)
	}
	p.signal(syscall.SIGCONT)
	await(t, soon, "the claim to be executed", func() bool { return p.calls("evalsha") >= before+Partitions })
	if err := read(t, s, "kept").Err; err != nil {
		t.Errorf("the first request after it went on: %v", err)
	}
	if n := p.calls("evalsha") - before; n > Partitions+1 {
		t.Errorf("a claim and a read are executed as %d scripts, want %d: the claim was sent again", n, Partitions+1)
	}
}

// A socket does as well as a host.
func TestUnixSocket(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "s")
	startProcess(t, "--unixsocket", socket)
	if s := openShards(t, io.Discard, ShardConfig{Name: "a", URL: "unix://" + socket}); !works(t, s, "x") {
		t.Error("nothing is stored over a socket")
	}
}

// No password gets into the log or an error, whatever happens to the shard.
func TestSecretsStaySecret(t *testing.T) {
	t.Parallel()
	const secret = "hunter2"
	p := startProcess(t, "--requirepass", "another")
	var log logBuffer
	var faults []error
	tell := func(s *Store) {
		faults = append(faults, read(t, s, "x").Err, s.Merge(t.Context(), []scheduler.Write{creation("x", 0)})[0].Err)
		_, claimed := claimAll(t.Context(), s, "a")
		_, beaten := s.Beat(t.Context(), "a")
		_, surveyed := s.Survey(t.Context(), "a")
		faults = append(faults, claimed, beaten, surveyed, s.Leave(t.Context(), "a"))
	}
	for _, url := range []string{"redis://user-hunter2:hunter2@%s/0", "redis+cluster://:hunter2@%s", "redis+sentinel://:hunter2@%s?master_name=m"} {
		s := openShards(t, &log, ShardConfig{Name: "a", URL: fmt.Sprintf(url, p.addr())})
		tell(s)
	}
	p.kill()
	for _, url := range []string{"redis://:hunter2@%s/0", "redis+cluster://:hunter2@%s", "redis+sentinel://:hunter2@%s?master_name=m", "rediss://:hunter2@%s"} {
		s := openShards(t, &log, ShardConfig{Name: "a", URL: fmt.Sprintf(url, p.addr())})
		tell(s)
	}
	if n := strings.Count(log.String(), "level=WARN"); n < 7 {
		t.Errorf("%d warnings, want one for each of 7 stores:\n%s", n, log.String())
	}
	if strings.Contains(log.String(), secret) {
		t.Errorf("the log has the password:\n%s", log.String())
	}
	for _, err := range faults {
		if !errors.Is(err, scheduler.ErrUnavailable) || strings.Contains(err.Error(), secret) {
			t.Errorf("error %v, want ErrUnavailable without the password", err)
		}
	}
}
