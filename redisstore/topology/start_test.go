package topology

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"chronos/scheduler/timer"
	"chronos/scheduler/timing"
	"chronos/scheduler/verify/heldup"
	"chronos/scheduler/verify/testkit"
)

// A removed shard says that the shard was removed. A node that starts with the removed shard, and reaches no further
// shard, writes nothing there.
func TestARemovedShardIsNotWrittenTo(t *testing.T) {
	t.Parallel()
	l := layOut(t, "a", "b", "c")
	for _, name := range []string{"a", "b"} { // a and b are to lose nothing when they are killed
		l.redis[name].Do("CONFIG", "SET", "appendfsync", "always")
	}
	first := l.node("a", "b", "c")
	if err := l.drain(first, "c"); err != nil {
		t.Fatal(err)
	}
	l.wantActive(8*time.Second, "a", "b")
	l.saysDrained(first, "c")
	first.o.Drained = 0
	if _, err := first.RemoveShard(t.Context(), "c", false); err != nil {
		t.Fatal(err)
	}
	if l.held("c") != l.held("a") {
		t.Errorf("c holds %v, a %v", l.held("c"), l.held("a"))
	}
	l.redis["a"].Kill()
	l.redis["b"].Kill()
	late := l.node("a", "b", "c")
	if err := late.Writable(); !errors.Is(err, timer.ErrUnavailable) {
		t.Errorf("writable though it reaches nobody but who was removed: %v", err)
	}
	if got := late.Topology(); !slices.Equal(got.Active, []string{"a", "b"}) {
		t.Errorf("it works by %+v", got)
	}
	l.redis["a"].Start()
	testkit.Eventually(t, 10*time.Second, "half of the shards", func() bool { return late.Writable() == nil })
}

// lateOn has shards take no first topology from the next node.
func (l *laidOut) lateOn(names ...string) {
	l.connect = func(m Member) (Shard, error) {
		sh, err := connect(m)
		if slices.Contains(names, m.Name) {
			sh = &lateShard{Shard: sh}
		}
		return sh, err
	}
}

// Most shards did not take the first topology in time. The node that made the first topology gives it to them.
func TestAFirstTopologyThatFewShardsTookIsGivenToAll(t *testing.T) {
	t.Parallel()
	l := layOut(t, "a", "b", "c")
	l.lateOn("b", "c")
	s := l.node("a", "b", "c")
	testkit.Eventually(t, 10*time.Second, "all shards to hold it", func() bool {
		return s.Writable() == nil && l.held("a") != "" && l.held("b") == l.held("a") && l.held("c") == l.held("a")
	})
}

// Most shards hold another first topology by now. The node that made a first topology gives way.
func TestAFirstTopologyThatFewShardsTookGivesWay(t *testing.T) {
	t.Parallel()
	l := layOut(t, "a", "b", "c")
	l.lateOn("b", "c")
	s := l.open("a", "b", "c")
	if err := s.Join(t.Context()); err != nil {
		t.Fatal(err)
	}
	other := l.topology(1, "other", "a", "b", "c")
	l.hold("b", other)
	l.hold("c", other)
	s.found(t.Context())
	s.look(t.Context())
	now := s.Topology()
	if mine := l.held("a"); mine == "" || mine == l.held("b") {
		t.Errorf("a holds %q", mine)
	}
	if !now.same(&other) || s.Writable() != nil {
		t.Errorf("it works by %+v, writable: %v", now, s.Writable())
	}
}

// lateShard does not take the first topology.
type lateShard struct {
	Shard

	asked atomic.Bool
}

func (s *lateShard) Run(ctx context.Context, args ...any) (string, error) {
	if args[0] == "store" && !s.asked.Swap(true) {
		return "", context.DeadlineExceeded
	}
	return s.Shard.Run(ctx, args...)
}

// A node that has just started writes once half of the shards confirm the topology. Until then, unreachable shards
// may have gone on to a later topology.
func TestAStartedNodeNeedsHalfOfTheShards(t *testing.T) {
	t.Parallel()
	l := layOut(t, "a", "b", "c")
	l.redis["b"].Do("CONFIG", "SET", "appendfsync", "always")
	running := l.node("a", "b", "c")
	l.redis["b"].Kill()
	l.redis["c"].Kill()
	late := l.node("a", "b", "c")
	if err := late.Writable(); late.Topology().Epoch != 1 || !errors.Is(err, timer.ErrUnavailable) {
		t.Errorf("writable with one of three shards, by %+v: %v", late.Topology(), err)
	}
	if err := running.Writable(); err != nil {
		t.Errorf("who has seen that they agree: %v", err)
	}
	l.redis["b"].Start()
	testkit.Eventually(t, 10*time.Second, "half of the shards", func() bool { return late.Writable() == nil })
}

// A node that has just started finds an outdated topology on a removed shard, and gives no shard this topology: the
// second member was removed, too, and emptied.
func TestAStartedNodeRestoresNothing(t *testing.T) {
	t.Parallel()
	l := layOut(t, "a", "b", "c")
	first := l.node("a", "c")
	remove := func(name string) {
		t.Helper()
		if err := l.drain(first, name); err != nil {
			t.Fatal(err)
		}
		testkit.Eventually(t, 10*time.Second, "the drain of "+name, func() bool { return !slices.Contains(first.Topology().Active, name) })
		first.o.Drained = 0 // the removal is tried until it is allowed
		testkit.Eventually(t, 10*time.Second, "the removal of "+name, func() bool {
			_, err := first.RemoveShard(t.Context(), name, false)
			return err == nil
		})
	}
	remove("a")
	if err := l.add(first, "b"); err != nil {
		t.Fatal(err)
	}
	l.wantActive(10*time.Second, "c", "b")
	remove("c")
	l.redis["c"].Do("FLUSHALL")
	l.redis["b"].Kill()
	late := l.node("a", "c") // a holds that c alone is left, c holds nothing
	testkit.Throughout(t, 3*timing.FollowInterval, "c is given nothing", func() bool { return l.held("c") == "" })
	var refused *RefusedError
	if _, err := late.AddShard(t.Context(), Member{Name: "a"}, false); !errors.As(err, &refused) {
		t.Errorf("it changed the shards: %v", err)
	}
	if late.Writable() == nil {
		t.Error("it writes")
	}
}

// A node that has just started finishes a change that was begun and left, even with a shard away: a majority of the
// shards is known to hold the topology before the change, or a later topology.
func TestAStartedNodeFinishesWhatWasBegun(t *testing.T) {
	t.Parallel()
	l := layOut(t, "a", "b", "c")
	before := l.topology(1, "first", "a", "b", "c")
	begun := l.step(before, func() (Topology, error) { return before.drain("c", false) })
	l.hold("a", begun)
	l.hold("b", before)
	l.redis["c"].Kill()
	s := l.node("a", "b", "c")
	testkit.Eventually(t, 10*time.Second, "the end of the change", func() bool { return s.Writable() == nil && s.Topology().Epoch >= 2 })
}

// A node finds a topology on the only shard that answers at the start. The node gives up this topology once the
// remaining shards hold another: the removal was known to the removed shard alone, or another change was made
// instead.
func TestAStartedNodeFollowsTheOthers(t *testing.T) {
	t.Parallel()
	for _, instead := range []bool{false, true} {
		t.Run(fmt.Sprint("another change: ", instead), func(t *testing.T) {
			t.Parallel()
			l := layOut(t, "a", "b", "c")
			before := l.topology(2, "drained", "a", "b", "c")
			before.Active = []string{"a", "b"}
			gone := l.step(before, func() (Topology, error) { return before.remove("c") })
			kept := before
			if instead {
				gone.Change, kept = "instead", l.step(before, func() (Topology, error) { return before.drain("b", false) })
			}
			l.hold("c", gone)
			for _, name := range []string{"a", "b"} {
				l.redis[name].Do("CONFIG", "SET", "appendfsync", "always")
				l.hold(name, kept)
				l.redis[name].Kill()
			}
			s := l.node("c")
			if got := s.Topology(); !got.same(&gone) || s.Writable() == nil {
				t.Errorf("it works by %+v, writable: %v", got, s.Writable())
			}
			l.redis["a"].Start()
			l.redis["b"].Start()
			testkit.Eventually(t, 15*time.Second, "what they agree on", func() bool {
				now := s.Topology()
				_, has := now.member("c")
				return s.Writable() == nil && has == instead && now.Epoch >= 3
			})
		})
	}
}

// A node that by then has closed its connections to the removed shard asks the removed shard again.
func TestAStartedNodeAsksAgainWhoWasRemoved(t *testing.T) {
	t.Parallel()
	l := layOut(t, "a", "b")
	before := l.topology(2, "drained", "a", "b")
	before.Active = []string{"a"}
	l.redis["a"].Do("CONFIG", "SET", "appendfsync", "always")
	l.hold("a", before)
	l.hold("b", l.step(before, func() (Topology, error) { return before.remove("b") }))
	l.redis["a"].Kill()
	s := l.node("b")
	testkit.Eventually(t, 5*time.Second, "the end of the connections to b", func() bool {
		if err := s.retire(time.Now()); err != nil {
			t.Error(err)
		}
		return len(s.Connected()) == 1
	})
	l.redis["a"].Start()
	testkit.Eventually(t, 15*time.Second, "the removal of b", func() bool {
		now := s.Topology()
		return s.Writable() == nil && now.Epoch >= 3 && slices.Equal(now.names(), []string{"a"})
	})
}

// More than half of the shards lost all data while all nodes were restarted. Then no node knows whether the lost
// shards had gone on to a later topology; an operator may decide.
func TestMoreThanHalfLostAll(t *testing.T) {
	t.Parallel()
	l := layOut(t, "a", "b", "c")
	l.hold("c", l.topology(4, "kept", "a", "b", "c"))
	s := l.node("a", "b", "c")
	var refused *RefusedError
	if _, err := s.DrainShard(t.Context(), "a", false); !errors.As(err, &refused) || !strings.Contains(err.Error(), "with force") {
		t.Errorf("drained: %v", err)
	}
	testkit.Throughout(t, 2*timing.FollowInterval, "it refuses writes and names epoch 4", func() bool {
		err := s.Writable()
		return errors.Is(err, timer.ErrUnavailable) && strings.Contains(err.Error(), "epoch 4")
	})
	if _, err := s.DrainShard(t.Context(), "a", true); err != nil {
		t.Fatal(err)
	}
	l.wantActive(10*time.Second, "b", "c")
	if err := s.Writable(); err != nil {
		t.Error(err)
	}
	if got := l.held("b"); got == "" || got != l.held("c") {
		t.Errorf("b holds %v, c %v", got, l.held("c"))
	}
}

// The removed shard's topology leads to the shard that stayed, and the topology there to a shard that came later. The
// node works by no topology in between.
func TestAStartedNodeFindsTheLatestTopologyAtOnce(t *testing.T) {
	t.Parallel()
	l := layOut(t, "a", "b", "c")
	removed, latest := l.topology(2, "removed", "b"), l.topology(4, "enacted", "b", "c")
	l.hold("a", removed)
	l.hold("b", latest)
	l.hold("c", latest)
	watch, begin := heldup.Begin(t), time.Now()
	s := l.node("a")
	now := s.Topology()
	if !now.same(&latest) && watch.Known(t, begin, timing.TopologyPatience/4) {
		t.Errorf("the node begins with %+v", now)
	}
}
