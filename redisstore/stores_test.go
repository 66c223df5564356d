package redisstore

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"chronos/scheduler/verify/heldup"
	"chronos/scheduler/verify/testkit"
)

// stores are several real Redis, and nodes on them that follow one another's changes.
type stores struct {
	*testing.T
	redis map[string]*testkit.Redis
	nodes []*Store
	watch *heldup.Watch
}

func storesOn(t *testing.T, shards ...string) *stores {
	t.Helper()
	l := &stores{T: t, redis: map[string]*testkit.Redis{}, watch: heldup.Begin(t)}
	for _, name := range shards {
		l.redis[name] = testkit.StartRedis(t)
	}
	return l
}

// node is a further node that was started with the given shards, and works until the test ends. A change counts
// soon, and a drained shard may go at once.
func (l *stores) node(given ...string) *Store {
	l.Helper()
	o := Options{
		Node: "node-" + string(rune('0'+len(l.nodes))), Lane: "http", Log: slog.New(slog.NewTextHandler(l.Output(), &slog.HandlerOptions{Level: slog.LevelDebug})), announced: 2 * time.Second, drained: time.Nanosecond,
	}
	for _, name := range given {
		o.Shards = append(o.Shards, shardOf(name, l.redis[name]))
	}
	return l.start(o)
}

// start starts a node with the options. The node works until the test ends.
func (l *stores) start(o Options) *Store {
	l.Helper()
	s, err := Open(l.Context(), o)
	if err != nil {
		l.Fatal(err)
	}
	if err := s.Join(l.Context()); err != nil {
		l.Fatal(err)
	}
	ctx, stop := context.WithCancel(l.Context())
	done := make(chan struct{})
	go func() { defer close(done); s.Follow(ctx) }()
	l.Cleanup(func() {
		stop()
		<-done
		if err := s.Close(); err != nil {
			l.Error(err)
		}
	})
	l.nodes = append(l.nodes, s)
	return s
}

func (l *stores) drain(s *Store, name string) {
	l.Helper()
	if _, err := s.DrainShard(l.Context(), name, false); err != nil {
		l.Fatal(err)
	}
}

// wantActive waits until all nodes have their timers on the named shards, and no change is under way.
func (l *stores) wantActive(within time.Duration, names ...string) {
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
