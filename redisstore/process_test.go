package redisstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"chronos/internal/testkit"
	"chronos/redisstore/endpoint"
	"chronos/scheduler/store"
	"chronos/scheduler/timer"
)

// soon is how long the tests wait for what must come by itself, also on a busy
// machine.
const soon = 15 * time.Second

// answered is when one request of a silent shard must have been answered.
const answered = time.Second

// process is a redis-server that a test stops, kills and starts again.
type process struct {
	*testkit.Process
	t     *testing.T
	args  []string
	port  string
	admin *redis.Client
}

// startProcess starts a redis-server that keeps an append-only file; further
// arguments come last and win.
func startProcess(t *testing.T, args ...string) *process {
	t.Helper()
	p := &process{t: t, port: testkit.FreePort(t)}
	p.args = append([]string{
		"--port", p.port, "--bind", "127.0.0.1", "--dir", t.TempDir(), "--save", "", "--appendonly", "yes",
	}, args...)
	p.admin = redis.NewClient(&redis.Options{Addr: p.addr(), DisableIdentity: true, Protocol: 2})
	t.Cleanup(func() { _ = p.admin.Close() })
	p.start()
	return p
}

func (p *process) addr() string { return "127.0.0.1:" + p.port }

func (p *process) shard(name string) endpoint.Config {
	return endpoint.Config{Name: name, URL: "redis://" + p.addr() + "/0"}
}

// launch starts the server and doesn't wait for it.
func (p *process) launch() {
	p.t.Helper()
	p.Process = testkit.Start(p.t, nil, testkit.Program(p.t, "redis-server"), p.args...)
}

func (p *process) start() {
	p.t.Helper()
	p.launch()
	await(p.t, soon, "redis-server to answer", func() bool {
		select {
		case <-p.Done:
			p.t.Fatalf("redis-server ended:\n%s", p.Log)
		default:
		}
		err := p.admin.Ping(p.t.Context()).Err()
		var answer redis.Error
		return err == nil || errors.As(err, &answer) && !strings.HasPrefix(answer.Error(), "LOADING")
	})
}

func (p *process) kill() { p.Kill() }

func (p *process) signal(s syscall.Signal) { p.Signal(s) }

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

type logBuffer = testkit.Log

func options(log io.Writer, shards ...endpoint.Config) Options {
	return Options{Shards: shards, Node: "node-1", Lane: "http", Log: slog.New(slog.NewTextHandler(log, nil))}
}

func openShards(t *testing.T, log io.Writer, shards ...endpoint.Config) *Store {
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

func creation(key string, interval time.Duration) store.Write {
	return store.Write{
		Kind: store.WritePut, Shard: "a", Key: key, State: timer.State{Version: timer.VersionAt(time.Now(), 1), Seq: 1},
		RF: 1, DueIn: interval,
		Timer: &timer.Timer{Interval: interval, ReplicationFactor: 1, Callback: timer.Callback{URI: "http://localhost/" + key}},
	}
}

func deletion(key string) store.Write {
	return store.Write{
		Kind: store.WriteGone, Shard: "a", Key: key, State: timer.State{Version: timer.VersionAt(time.Now().Add(time.Second), 1)},
		RF: 1, Life: 2 * time.Minute,
	}
}

func merge(t *testing.T, s *Store, writes ...store.Write) {
	t.Helper()
	for i, answer := range s.Merge(t.Context(), writes) {
		if answer.Err != nil || answer.Status != store.WriteStored {
			t.Fatalf("merge of %s: status %d, %v", writes[i].Key, answer.Status, answer.Err)
		}
	}
}

func read(t *testing.T, s *Store, key string) store.ReadResult {
	t.Helper()
	return s.Read(t.Context(), spots(key))[0]
}

// works reports whether the shard takes and gives a timer.
func works(t *testing.T, s *Store, key string) bool {
	t.Helper()
	w := creation(key, time.Hour)
	if answer := s.Merge(t.Context(), []store.Write{w})[0]; answer.Err != nil {
		return false
	}
	return read(t, s, key).Err == nil
}

// claimAll claims what is due, nothing ahead of it.
func claimAll(ctx context.Context, s *Store, shard string) (store.ClaimResult, error) {
	return s.Claim(ctx, shard, store.ClaimRequest{Limit: 500, Grace: time.Second})
}

func terms() store.FenceTerms {
	return store.FenceTerms{Limit: 2 * time.Second, Hold: 3500 * time.Millisecond}
}

// fireAll takes claims through fence and settlement.
func fireAll(ctx context.Context, s *Store, shard string, claims []store.Claimed, outcome store.Outcome) error {
	fences := make([]store.Fence, len(claims))
	settlements := make([]store.Settlement, len(claims))
	for i, c := range claims {
		fences[i] = store.Fence{Lease: c.Lease, Pops: c.Record.Timer.Pops()}
		settlements[i] = store.Settlement{Lease: c.Lease, Outcome: outcome, Reason: "no more"}
	}
	var errs []error
	for i, f := range s.Fire(ctx, shard, terms(), fences) {
		if f.Status != store.FencePassed {
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
