package topology

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"chronos/lua"
	"chronos/scheduler/timing"
	"chronos/scheduler/verify/heldup"
	"chronos/scheduler/verify/testkit"
)

// laidOut is several real Redis, and nodes on them that follow one another's changes.
type laidOut struct {
	*testing.T
	redis   map[string]*testkit.Redis
	log     testkit.Log
	nodes   []*Cluster
	watch   *heldup.Watch
	full    atomic.Bool // no shard is empty
	connect func(m Member) (Shard, error)
}

func layOut(t *testing.T, shards ...string) *laidOut {
	t.Helper()
	l := &laidOut{T: t, redis: map[string]*testkit.Redis{}, watch: heldup.Begin(t), connect: connect}
	for _, name := range shards {
		l.redis[name] = testkit.StartRedis(t)
	}
	return l
}

// open is a further node that was started with the given shards. The node lasts until the test ends.
func (l *laidOut) open(given ...string) *Cluster {
	l.Helper()
	o := Options{
		Node: "node-" + string(rune('0'+len(l.nodes))), Log: slog.New(slog.NewTextHandler(&l.log, nil)), Connect: l.connect, Adopt: func(*Topology) {},
		Vacate: func(_ context.Context, t *Topology, name string) error {
			if l.full.Load() {
				return t.Refuse("shard %s still has copies", name)
			}
			return nil
		},
		Announced: 2 * time.Second,
	}
	for _, name := range given {
		o.Given = append(o.Given, l.member(name))
	}
	s, err := New(o)
	if err != nil {
		l.Fatal(err)
	}
	l.Cleanup(func() {
		if err := s.Close(); err != nil {
			l.Error(err)
		}
	})
	l.nodes = append(l.nodes, s)
	return s
}

// node is an open node that works.
func (l *laidOut) node(given ...string) *Cluster {
	l.Helper()
	s := l.open(given...)
	if err := s.Join(l.Context()); err != nil {
		l.Fatal(err)
	}
	ctx, stop := context.WithCancel(l.Context())
	done := make(chan struct{})
	go func() { defer close(done); s.Follow(ctx) }()
	l.Cleanup(func() { stop(); <-done })
	return s
}

func (l *laidOut) member(name string) Member { return Member{Name: name, URL: l.redis[name].URL} }

func (l *laidOut) add(s *Cluster, name string) error {
	_, err := s.AddShard(l.Context(), l.member(name), false)
	return err
}

func (l *laidOut) drain(s *Cluster, name string) error {
	_, err := s.DrainShard(l.Context(), name, false)
	return err
}

// topology is a topology of shards that all take timers.
func (l *laidOut) topology(epoch int64, change string, names ...string) Topology {
	var shards []Member
	for _, name := range names {
		shards = append(shards, l.member(name))
	}
	t := firstTopology(&Options{Given: shards})
	t.Epoch, t.Change = epoch, change
	return t
}

// step is a begun change of a topology.
func (l *laidOut) step(from Topology, edit func() (Topology, error)) Topology {
	l.Helper()
	next, err := edit()
	if err != nil {
		l.Fatal(err)
	}
	next.Epoch, next.Change = from.Epoch+1, "begun"
	return next
}

func (l *laidOut) hold(shard string, t Topology) {
	l.Helper()
	text, err := t.encode()
	if err != nil {
		l.Fatal(err)
	}
	l.redis[shard].Do("HSET", Key, "current", text)
}

// held is the topology that a shard keeps, "" for none.
func (l *laidOut) held(shard string) string {
	text, _ := l.redis[shard].Do("HGET", Key, "current").(string)
	return text
}

// saysDrained waits until a node has seen that a shard says that it is drained, and returns since when.
func (l *laidOut) saysDrained(s *Cluster, shard string) (since time.Time) {
	l.Helper()
	testkit.Eventually(l.T, 5*time.Second, "the word of "+shard, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		since = s.drained[shard]
		return !since.IsZero()
	})
	return since
}

// wantActive waits until all nodes have their timers on the named shards, and no change is under way.
func (l *laidOut) wantActive(within time.Duration, names ...string) {
	l.Helper()
	begun := time.Now()
	for _, s := range l.nodes {
		testkit.Eventually(l.T, within+time.Minute, strings.Join(names, ","), func() bool {
			now := s.Topology()
			return slices.Equal(now.Active, names) && now.Next == nil
		})
	}
	l.watch.AtMost(l.T, begun, "the change to "+strings.Join(names, ","), time.Since(begun), within)
}

// wantAnnounced repeats the addition until an attempt is taken, or an earlier attempt was.
func (l *laidOut) wantAnnounced(s *Cluster, name string) {
	l.Helper()
	testkit.Eventually(l.T, 15*time.Second, "the addition of "+name, func() bool {
		err := l.add(s, name)
		return err == nil || strings.Contains(err.Error(), "announced") || strings.Contains(err.Error(), "there is a shard")
	})
}

// lock begins a change with all shards locked: a node's own step may have some of the locks for a moment.
func (l *laidOut) lock(s *Cluster) *proposal {
	l.Helper()
	var p *proposal
	testkit.Eventually(l.T, timing.LockLife, "all locks", func() bool {
		begun, err := s.propose(l.Context())
		if err != nil {
			return false
		}
		for _, locked := range begun.locked {
			if !locked {
				begun.end()
				return false
			}
		}
		p = begun
		return true
	})
	return p
}

// begin has some shards hold a change, as left by a coordinator that gets no further.
func (l *laidOut) begin(p *proposal, next *Topology, shards ...Shard) {
	l.Helper()
	text, err := next.encode()
	if err != nil {
		l.Fatal(err)
	}
	for _, sh := range shards {
		if err := p.store(l.Context(), sh, next, text); err != nil {
			l.Fatal(err)
		}
	}
}

// testShard is a real Redis.
type testShard struct {
	Member
	client  *redis.Client
	process atomic.Pointer[string]
}

func connect(m Member) (Shard, error) {
	o, err := redis.ParseURL(m.URL)
	if err != nil {
		return nil, err
	}
	o.MaxRetries, o.DialerRetries, o.ContextTimeoutEnabled, o.DisableIdentity, o.Protocol = -1, 1, true, true, 2
	return &testShard{Member: m, client: redis.NewClient(o)}, nil
}

func (s *testShard) Name() string { return s.Member.Name }

func (s *testShard) URL() string { return s.Member.URL }

func (s *testShard) Holds(ctx context.Context) (string, error) {
	if s.process.Load() == nil {
		info, err := s.client.Info(ctx, "server").Result()
		if err != nil {
			return "", err
		}
		_, after, _ := strings.Cut(info, "run_id:")
		id, _, _ := strings.Cut(after, "\r")
		s.process.Store(&id)
	}
	text, err := s.client.HGet(ctx, Key, Field).Result()
	if errors.Is(err, redis.Nil) {
		return "", nil
	}
	return text, err
}

func (s *testShard) Run(ctx context.Context, args ...any) (said string, err error) {
	answer, err := s.client.Eval(ctx, lua.Scripts()["topology"], []string{Key}, args...).Slice()
	if err != nil {
		return "", err
	}
	said, is := answer[1].(string)
	if !is {
		return "", fmt.Errorf("answered %v", answer)
	}
	return said, nil
}

func (s *testShard) Process() string {
	if id := s.process.Load(); id != nil {
		return *id
	}
	return ""
}

func (s *testShard) Database() int { return s.client.Options().DB }

func (s *testShard) Close() error { return s.client.Close() }
