package redisstore

import (
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// hold puts a topology on a Redis as nodes would have: with the id of a cluster, if it
// isn't empty, and of shards that are all active.
func (l *laidOut) hold(on, cluster string, epoch int64, names ...string) {
	l.Helper()
	top := Topology{Epoch: epoch, Change: "change", Active: names}
	for _, name := range names {
		top.Shards = append(top.Shards, Member{Name: name, URL: l.redis[name].shard(name).URL})
	}
	text, err := top.encode()
	if err != nil {
		l.Fatal(err)
	}
	l.redis[on].do("HSET", topologyKey, "current", text)
	if cluster != "" {
		l.redis[on].do("HSET", topologyKey, "cluster", cluster)
	}
}

func (l *laidOut) held(on, field string) string {
	text, _ := l.redis[on].do("HGET", topologyKey, field).(string)
	return text
}

// A Redis of another cluster is not added, whichever of the two has seen more changes:
// neither would find its timers any more.
func TestAShardOfAnotherClusterIsNotAdded(t *testing.T) {
	ours, theirs := layOut(t, "a"), layOut(t, "b", "c")
	ours.redis["b"], theirs.redis["a"] = theirs.redis["b"], ours.redis["a"]
	s, other := ours.node("a"), theirs.node("b")
	if err := theirs.add(other, "c"); err != nil {
		t.Fatal(err)
	}
	theirs.wantActive(8*time.Second, "b", "c")
	before := []string{ours.held("a", "current"), ours.held("b", "current")}
	for name, err := range map[string]error{"a later one": ours.add(s, "b"), "an earlier one": theirs.add(other, "a")} {
		var refused *RefusedError
		if !errors.As(err, &refused) || !strings.Contains(refused.Reason, "belongs to another chronos") || !strings.Contains(refused.Reason, "empty it first") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if after := []string{ours.held("a", "current"), ours.held("b", "current")}; !slices.Equal(before, after) {
		t.Errorf("the shards hold %v, before it was %v", after, before)
	}
	if ours.held("a", "holder") != "" || ours.held("b", "holder") != "" {
		t.Error("a lock is left")
	}
}

// What a Redis holds that is added, from a time when it was another's or this one's.
func TestWhatAShardHoldsThatIsAdded(t *testing.T) {
	l := layOut(t, "a", "d", "z")
	s := l.node("a")
	id := s.Topology().Cluster
	refused := func(want string) {
		t.Helper()
		var reason *RefusedError
		if err := l.add(s, "d"); !errors.As(err, &reason) || !strings.Contains(reason.Reason, want) {
			t.Errorf("%v, want it refused: %s", err, want)
		}
		if now := l.held("a", "current"); !strings.HasPrefix(now, "1 ") {
			t.Fatalf("something was begun: %s", now)
		}
	}
	l.hold("d", "other", 50, "z")
	refused("(its topology is epoch 50 with z): empty it first, or give it another database")
	l.redis["d"].do("FLUSHALL")
	l.hold("d", "", 1, "z")
	refused("belongs to another chronos")
	l.hold("d", id, 2, "a")
	refused("later topology of this chronos (epoch 2)")
	l.redis["d"].kill()
	refused("can't be read")
	l.redis["d"].start()
	l.hold("d", id, 1, "a")
	await(t, soon, "the addition of one that was ours", func() bool { return l.add(s, "d") == nil })
	l.wantActive(8*time.Second, "a", "d")
}

// A shard on which another cluster's topology appears, since it was restored from a
// backup, is an error of that shard: it is not followed, and is in nobody's way.
func TestAnotherClustersTopologyIsNotFollowed(t *testing.T) {
	l := layOut(t, "a", "b", "c", "d", "z")
	s := l.node("a", "b", "c")
	l.node("a", "b", "c")
	for _, name := range []string{"b", "z"} {
		l.hold(name, "other", 50, "z")
	}
	since := time.Now()
	await(t, blindFor+5*time.Second, "the time in which writes would be refused", func() bool {
		for _, s := range l.nodes {
			if err := s.Writable(); err != nil || s.Topology().Epoch != 1 {
				t.Fatalf("epoch %d, %v", s.Topology().Epoch, err)
			}
		}
		return time.Since(since) > blindFor+2*time.Second
	})
	if got := strings.Count(l.log.String(), "is not this cluster's"); got != len(l.nodes) {
		t.Errorf("%d nodes say so %d times", len(l.nodes), got)
	}
	_, reports := s.Inspect(t.Context())
	if err := reports[1].Err; err == nil || !strings.Contains(err.Error(), "belongs to another chronos") || reports[0].Err != nil {
		t.Errorf("shown: %+v", reports)
	}
	if err := l.add(s, "d"); err != nil {
		t.Errorf("a change is held up: %v", err)
	}
	l.wantActive(8*time.Second, "a", "b", "c", "d")
	if now := l.held("b", "current"); !strings.HasPrefix(now, "50 ") {
		t.Errorf("it was overwritten by %s", now)
	}
	l.redis["b"].do("FLUSHALL")
	await(t, 5*time.Second, "the topology on b", func() bool { return l.held("b", "current") == l.held("a", "current") })
	for _, name := range []string{"a", "b", "c"} {
		l.hold(name, "other", 50, "z")
	}
	await(t, blindFor+3*time.Second, "the refusal of writes, since most shards are another's", func() bool { return s.Writable() != nil })
}

func TestTheScriptStoresOverNoOtherCluster(t *testing.T) {
	l := layOut(t, "a")
	s := l.node("a")
	p, err := s.propose(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, cluster := range []string{"other", ""} {
		next := s.Topology()
		next.Epoch, next.Cluster = 2, cluster
		if err := s.everyShard()[0].storeTopology(t.Context(), p.token, &next, "2 x {}"); err == nil || !strings.Contains(err.Error(), "foreign") {
			t.Errorf("%q: %v", cluster, err)
		}
	}
	p.end()
}

// A node whose shards are of two clusters must not choose.
func TestANodeOfTwoClustersDoesNotStart(t *testing.T) {
	l := layOut(t, "a", "b")
	l.hold("a", "one", 1, "a")
	l.hold("b", "other", 7, "b")
	s := openShards(t, &l.log, l.redis["a"].shard("a"), l.redis["b"].shard("b"))
	err := s.Join(t.Context())
	if err == nil || !strings.Contains(err.Error(), "different clusters, a that of epoch 1 with a; b that of epoch 7 with b; name the shards of one") {
		t.Errorf("%v", err)
	}
	if s.Writable() == nil || s.Topology().Epoch != 0 {
		t.Errorf("it works by %+v", s.Topology())
	}
}

// What was stored before there were ids is followed, and is given one by the next
// change; from then on what has none is from before that, or another's.
func TestATopologyWithoutId(t *testing.T) {
	l := layOut(t, "a", "b", "c", "z")
	for _, name := range []string{"a", "b"} {
		l.hold(name, "", 5, "a", "b")
	}
	s, other := l.node("a", "b"), l.node("a", "b")
	if now := s.Topology(); now.Epoch != 5 || now.Cluster != "" {
		t.Fatalf("%+v", now)
	}
	if err := l.add(s, "c"); err != nil {
		t.Fatal(err)
	}
	l.wantActive(8*time.Second, "a", "b", "c")
	for _, name := range []string{"a", "b", "c"} {
		if id := l.held(name, "cluster"); id != "change" || other.Topology().Cluster != id {
			t.Errorf("%s holds the id %q, a node follows %q", name, id, other.Topology().Cluster)
		}
	}
	l.redis["b"].do("DEL", topologyKey)
	l.hold("b", "", 5, "a", "b")
	await(t, 5*time.Second, "the topology on b", func() bool { return l.held("b", "cluster") == "change" })
	l.redis["b"].do("DEL", topologyKey)
	for _, name := range []string{"b", "z"} {
		l.hold(name, "", 50, "z")
	}
	await(t, 5*time.Second, "the error", func() bool { return strings.Contains(l.log.String(), "is not this cluster's") })
	if now := s.Topology(); now.Epoch == 50 {
		t.Errorf("followed: %+v", now)
	}
}

// Nodes that begin at once follow one id.
func TestOneOfTwoFirstTopologiesWins(t *testing.T) {
	l := layOut(t, "a", "b", "c")
	nodes := make([]*Store, 4)
	for i := range nodes {
		o := Options{Node: "node-" + string(rune('0'+i)), Lane: "http", Log: slog.New(slog.NewTextHandler(&l.log, nil))}
		for _, name := range []string{"a", "b", "c"} {
			o.Shards = append(o.Shards, l.redis[name].shard(name))
		}
		s, err := Open(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		nodes[i] = s
	}
	var wg sync.WaitGroup
	for _, s := range nodes {
		wg.Go(func() {
			for s.Topology().Epoch == 0 && t.Context().Err() == nil {
				if err := s.Join(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	for _, s := range nodes {
		if now := s.Topology(); now.Cluster == "" || now.Cluster != nodes[0].Topology().Cluster || now.Cluster != l.held("b", "cluster") {
			t.Errorf("a node follows %+v, another %+v", now, nodes[0].Topology())
		}
	}
}
