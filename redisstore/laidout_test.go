package redisstore

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"chronos/internal/heldup"
	"chronos/redisstore/redistest"
)

// laidOut is some real Redis, and nodes on them that follow each other's changes.
type laidOut struct {
	*testing.T
	redis map[string]*redistest.Server
	log   redistest.Log
	nodes []*Store
	watch *heldup.Watch
}

func layOut(t *testing.T, shards ...string) *laidOut {
	t.Helper()
	l := &laidOut{T: t, redis: map[string]*redistest.Server{}, watch: heldup.Begin(t)}
	for _, name := range shards {
		l.redis[name] = redistest.Start(t)
	}
	return l
}

// node is one more that was started with these shards, and works until the test
// ends.
func (l *laidOut) node(given ...string) *Store {
	l.Helper()
	o := Options{Node: "node-" + string(rune('0'+len(l.nodes))), Lane: "http", Log: slog.New(slog.NewTextHandler(&l.log, nil)), announced: 2 * time.Second}
	for _, name := range given {
		o.Shards = append(o.Shards, l.redis[name].Shard(name))
	}
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

func (l *laidOut) add(s *Store, name string) error {
	_, err := s.AddShard(l.Context(), Member{Name: name, URL: l.redis[name].Shard(name).URL}, false)
	return err
}

func (l *laidOut) drain(s *Store, name string) error {
	_, err := s.DrainShard(l.Context(), name, false)
	return err
}

// topology is one of shards that all take timers.
func (l *laidOut) topology(epoch int64, change string, names ...string) Topology {
	var shards []Member
	for _, name := range names {
		shards = append(shards, Member{Name: name, URL: l.redis[name].Shard(name).URL})
	}
	t := firstTopology(shards)
	t.Epoch, t.Change = epoch, change
	return t
}

// step is the change of a topology that somebody begins.
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
	l.redis[shard].Do("HSET", TopologyKey, "current", text)
}

// held is the topology that a shard keeps, "" for none.
func (l *laidOut) held(shard string) string {
	text, _ := l.redis[shard].Do("HGET", TopologyKey, "current").(string)
	return text
}

// saysDrained waits until a node has seen that a shard says that it is drained, and is
// the time since when.
func (l *laidOut) saysDrained(s *Store, shard string) (since time.Time) {
	l.Helper()
	redistest.Await(l.T, 5*time.Second, "the word of "+shard, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		since = s.drained[shard]
		return !since.IsZero()
	})
	return since
}

// wantActive waits until all nodes have their timers on these shards, and no
// change is under way.
func (l *laidOut) wantActive(within time.Duration, names ...string) {
	l.Helper()
	begun := time.Now()
	for _, s := range l.nodes {
		redistest.Await(l.T, within+time.Minute, strings.Join(names, ","), func() bool {
			now := s.Topology()
			return slices.Equal(now.Active, names) && now.Next == nil
		})
	}
	l.watch.AtMost(l.T, begun, "the change to "+strings.Join(names, ","), time.Since(begun), within)
}

// wantAnnounced tries the addition again until it is taken, or was before.
func (l *laidOut) wantAnnounced(s *Store, name string) {
	l.Helper()
	redistest.Await(l.T, 15*time.Second, "the addition of "+name, func() bool {
		err := l.add(s, name)
		return err == nil || strings.Contains(err.Error(), "announced") || strings.Contains(err.Error(), "there is a shard")
	})
}

// lock begins a change with all shards locked: a node's own step may have some of the
// locks for a moment.
func (l *laidOut) lock(s *Store) *proposal {
	l.Helper()
	var p *proposal
	redistest.Await(l.T, lockLife, "all locks", func() bool {
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

// begin has some shards hold a change, as of a coordinator that gets no further.
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
