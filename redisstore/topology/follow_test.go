package topology

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"chronos/scheduler/timer"
	"chronos/scheduler/timing"
	"chronos/scheduler/verify/testkit"
)

func TestNodesFollowTheTopology(t *testing.T) {
	t.Parallel()
	l := layOut(t, "a", "b", "c", "d")
	first := l.node("a", "b", "c")
	if now := first.Topology(); now.Epoch != 1 || !slices.Equal(now.Active, []string{"a", "b", "c"}) {
		t.Fatalf("the first node begins with %+v", now)
	}
	l.node("a", "b", "c")
	outdated := l.node("a", "d") // as in an environment that nobody has cared for
	if now := outdated.Topology(); !slices.Equal(now.names(), []string{"a", "b", "c"}) || !strings.Contains(l.log.String(), "CHRONOS_REDIS is outdated") {
		t.Errorf("the node with an outdated list works by %+v; log: %s", now, l.log.String())
	}
	if line := l.log.String(); !strings.Contains(line, "chronos topology add d URL") || strings.Contains(line, "topology add a") {
		t.Errorf("the warning does not say how d is added: %s", line)
	}
	if err := l.add(first, "d"); err != nil {
		t.Fatal(err)
	}
	for _, s := range l.nodes {
		testkit.Eventually(t, 2*time.Second, "the announcement", func() bool { return s.Topology().Epoch == 2 })
		if now := s.Topology(); now.StateOf("d") != Joining || slices.Contains(s.Rank("k"), "d") {
			t.Errorf("announced: %+v", now)
		}
	}
	l.wantActive(6*time.Second, "a", "b", "c", "d")
	if err := l.drain(outdated, "b"); err != nil {
		t.Fatal(err)
	}
	l.wantActive(6*time.Second, "a", "c", "d")
	if got := first.Topology().Former; len(got) != 2 || !slices.Equal(got[0], []string{"a", "b", "c", "d"}) {
		t.Errorf("remembered of before: %v", got)
	}
	for _, key := range []string{"k1", "k2", "k3", "k4", "k5"} {
		if len(first.Others(key, 2)) != 4 {
			t.Errorf("%s may also be at %v, want two places of each list before", key, first.Others(key, 2))
		}
	}
	var refused *RefusedError
	if err := l.add(first, "a"); !errors.As(err, &refused) {
		t.Errorf("a shard that is there was added: %v", err)
	}
	late := l.node("b") // the drained shard alone leads the node to the remaining shards
	if now := late.Topology(); !slices.Equal(now.Active, []string{"a", "c", "d"}) {
		t.Errorf("a node that came late works by %+v", now)
	}
}

// If two operators change the topology at once, only one operator wins, and the loser learns the present topology.
func TestTwoOperators(t *testing.T) {
	t.Parallel()
	l := layOut(t, "a", "b", "c", "d", "e")
	nodes := []*Cluster{l.node("a", "b", "c"), l.node("a", "b", "c")}
	for round := range 5 {
		name := []string{"d", "e"}
		errs := make([]error, 2)
		var wg sync.WaitGroup
		for i, s := range nodes {
			wg.Go(func() { errs[i] = l.add(s, name[i]) })
		}
		wg.Wait()
		won := 0
		for _, err := range errs {
			var refused *RefusedError
			switch {
			case err == nil:
				won++
			case !errors.As(err, &refused):
				t.Errorf("round %d: %v", round, err)
			}
		}
		if won > 1 {
			t.Fatalf("round %d: both won", round)
		}
		if won == 1 {
			return
		}
	}
	t.Error("neither won in five rounds")
}

// If a node dies during a change of the topology, the next change finishes the dead node's change.
func TestAnUnfinishedChangeIsFinishedFirst(t *testing.T) {
	t.Parallel()
	for taken := range 4 { // by so many shards
		t.Run(fmt.Sprint("by ", taken), func(t *testing.T) {
			t.Parallel()
			l := layOut(t, "a", "b", "c", "d", "e")
			s := l.node("a", "b", "c")
			p := l.lock(s)
			base := agreed(p.all)
			begun, err := base.add(l.member("d"))
			if err != nil {
				t.Fatal(err)
			}
			begun.Epoch, begun.Change = base.Epoch+1, "begun"
			shards, err := s.shardsOf(&begun)
			if err != nil {
				t.Fatal(err)
			}
			l.begin(p, &begun, shards[:taken]...)
			for _, name := range []string{"a", "b", "c", "d"} { // the locks run out
				l.redis[name].Do("HDEL", Key, "holder")
			}
			err = l.add(s, "e")
			var refused *RefusedError
			if taken == 0 && err != nil || taken > 0 && !errors.As(err, &refused) {
				t.Fatalf("%d had taken it: %v; want refused until what was begun counts, if it was", taken, err)
			}
			want := []string{"a", "b", "c", "d"}
			if taken == 0 {
				want[3] = "e"
			}
			l.wantActive(8*time.Second, want...)
		})
	}
}

// Nodes finish a change whose coordinator died in the middle. While the nodes don't know which topology counts, the
// nodes take no writes.
func TestNodesFinishWhatWasBegun(t *testing.T) {
	t.Parallel()
	for taken := 1; taken < 4; taken++ { // by so many shards
		t.Run(fmt.Sprint("by ", taken), func(t *testing.T) {
			t.Parallel()
			l := layOut(t, "a", "b", "c", "d")
			s := l.node("a", "b", "c")
			l.node("a", "b", "c")
			p := l.lock(s)
			begun, err := agreed(p.all).add(l.member("d"))
			if err != nil {
				t.Fatal(err)
			}
			begun.Epoch, begun.Change = 2, "begun"
			shards, err := s.shardsOf(&begun)
			if err != nil {
				t.Fatal(err)
			}
			l.begin(p, &begun, shards[:taken]...)
			l.wantActive(timing.LockLife+8*time.Second, "a", "b", "c", "d")
			for _, s := range l.nodes {
				testkit.Eventually(t, 3*time.Second, "writes", func() bool { return s.Writable() == nil })
			}
		})
	}
}

// A change needs most of the shards, and the shard that the change is about.
func TestAChangeNeedsAMajority(t *testing.T) {
	t.Parallel()
	l := layOut(t, "a", "b", "c", "d")
	s := l.node("a", "b", "c")
	l.redis["d"].Kill()
	if err := l.add(s, "d"); err == nil {
		t.Error("a shard that can't be reached was added")
	}
	l.redis["d"].Start()
	l.wantAnnounced(s, "d")
	l.wantActive(8*time.Second, "a", "b", "c", "d")
	l.redis["a"].Kill()
	l.redis["b"].Kill()
	if err := l.drain(s, "c"); err == nil {
		t.Error("drained with two of four away")
	}
	l.redis["a"].Start()
	testkit.Eventually(t, 15*time.Second, "the drain", func() bool {
		err := l.drain(s, "c")
		return err == nil || strings.Contains(err.Error(), "announced") || strings.Contains(err.Error(), "already")
	})
	l.wantActive(8*time.Second, "a", "b", "d")
}

// A node that can't read the topology must not write.
func TestBlind(t *testing.T) {
	t.Parallel()
	l := layOut(t, "a", "b")
	s := l.node("a", "b")
	l.redis["a"].Kill()
	killed := time.Now()
	testkit.Eventually(t, timing.BlindFor+5*time.Second, "the time in which it would go blind", func() bool {
		if err := s.Writable(); err != nil {
			t.Fatalf("blind with one of two shards: %v", err)
		}
		return time.Since(killed) > timing.BlindFor+2*time.Second
	})
	l.redis["b"].Kill()
	testkit.Eventually(t, timing.BlindFor+3*time.Second, "blindness", func() bool { return s.Writable() != nil })
	l.redis["a"].Start()
	testkit.Eventually(t, 5*time.Second, "sight", func() bool { return s.Writable() == nil })
}

// A node starts with a shard that was removed, and can't reach the shard at first. The node writes nothing to the
// shard before the node has heard of the removal.
func TestANodeWritesNothingBeforeItKnowsTheTopology(t *testing.T) {
	t.Parallel()
	l := layOut(t, "a", "b")
	// The shard must lose nothing: neither of two shards that have agreed on a topology can be missed.
	l.redis["a"].Do("CONFIG", "SET", "appendfsync", "always")
	first := l.node("a", "b")
	if err := l.drain(first, "a"); err != nil {
		t.Fatal(err)
	}
	l.wantActive(8*time.Second, "b")
	l.redis["a"].Kill()
	late := l.node("a")
	if err := late.Writable(); !errors.Is(err, timer.ErrUnavailable) {
		t.Errorf("writable before it has read the topology: %v", err)
	}
	l.redis["a"].Start()
	testkit.Eventually(t, 10*time.Second, "the topology", func() bool {
		if late.Writable() == nil && late.Topology().Epoch == 0 {
			t.Fatal("it writes by what it was started with")
		}
		return late.Writable() == nil && slices.Equal(late.Topology().Active, []string{"b"})
	})
}

// A shard that has lost the topology, or missed a change, gets the topology from the nodes.
func TestAShardThatLostTheTopologyGetsIt(t *testing.T) {
	t.Parallel()
	flush := func(l *laidOut) {
		l.redis["b"].Do("FLUSHALL")
		testkit.Eventually(t, 5*time.Second, "the topology on b", func() bool { return l.held("b") != "" && l.held("b") == l.held("a") })
	}
	two := layOut(t, "a", "b")
	two.node("a", "b")
	flush(two)
	l := layOut(t, "a", "b", "c", "d")
	s := l.node("a", "b", "c", "d")
	flush(l)
	l.redis["c"].Kill()
	if err := l.drain(s, "a"); err != nil {
		t.Fatal(err)
	}
	l.wantActive(8*time.Second, "b", "c", "d")
	l.redis["c"].Start()
	testkit.Eventually(t, 10*time.Second, "the topology on c", func() bool { return l.held("c") == l.held("a") })
}

func TestWholeSeconds(t *testing.T) {
	for _, d := range []time.Duration{1, 300 * time.Millisecond, time.Second} {
		if got := wholeSeconds(d); got != time.Second {
			t.Errorf("%v: %v, want 1s", d, got)
		}
	}
	if got := wholeSeconds(time.Second + 1); got != 2*time.Second {
		t.Errorf("%v", got)
	}
}

// A shard is removed once the shard is drained and empty, or by force.
func TestRemoveAShard(t *testing.T) {
	t.Parallel()
	l := layOut(t, "a", "b", "c")
	s := l.node("a", "b", "c")
	refused := func(force bool, want string) {
		t.Helper()
		var reason *RefusedError
		if _, err := s.RemoveShard(t.Context(), "c", force); !errors.As(err, &reason) || !strings.Contains(reason.Reason, want) {
			t.Errorf("removed: %v, want %q", err, want)
		}
	}
	refused(false, "drain it first")
	l.full.Store(true)
	if err := l.drain(s, "c"); err != nil {
		t.Fatal(err)
	}
	l.wantActive(8*time.Second, "a", "b")
	since := l.saysDrained(s, "c")
	refused(false, "a moment ago")
	earlier := s.Topology()
	earlier.Epoch, earlier.Active = earlier.Epoch-1, earlier.names()
	l.hold("c", earlier) // a node that reaches only c writes to c again
	testkit.Eventually(t, 5*time.Second, "the time anew", func() bool { return l.saysDrained(s, "c").After(since) })
	refused(false, "a moment ago")
	s.o.Drained = 0
	refused(false, "still has copies")
	l.full.Store(false)
	if _, err := s.RemoveShard(t.Context(), "c", false); err != nil {
		t.Fatal(err)
	}
	if now := s.Topology(); len(now.Shards) != 2 || slices.Contains(s.Shards(), "c") {
		t.Errorf("left: %+v", now)
	}
	testkit.Eventually(t, 5*time.Second, "the end of the connections", func() bool {
		if err := s.retire(time.Now()); err != nil {
			t.Error(err)
		}
		return len(s.Connected()) == 2
	})
	if err := l.drain(s, "b"); err != nil {
		t.Fatal(err)
	}
	l.wantActive(8*time.Second, "a")
	l.redis["b"].Kill()
	testkit.Eventually(t, 5*time.Second, "a refusal that says what it costs", func() bool {
		_, err := s.RemoveShard(t.Context(), "b", false)
		return err != nil && strings.Contains(err.Error(), "with force")
	})
}
