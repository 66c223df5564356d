package topology

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"chronos/scheduler/verify/testkit"
)

// A Redis of another cluster is not added, whichever cluster has seen more changes: one cluster would lose its
// timers.
func TestAShardOfOtherNodesIsNotAdded(t *testing.T) {
	t.Parallel()
	ours, theirs := layOut(t, "a"), layOut(t, "b", "c")
	ours.redis["b"], theirs.redis["a"] = theirs.redis["b"], ours.redis["a"]
	s, other := ours.node("a"), theirs.node("b")
	if err := theirs.add(other, "c"); err != nil {
		t.Fatal(err)
	}
	theirs.wantActive(8*time.Second, "b", "c")
	before := []string{ours.held("a"), ours.held("b")}
	for name, err := range map[string]error{"a later one": ours.add(s, "b"), "an earlier one": theirs.add(other, "a")} {
		var refused *RefusedError
		if !errors.As(err, &refused) || !strings.Contains(refused.Reason, "belongs to another chronos") || !strings.Contains(refused.Reason, "empty it first") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if after := []string{ours.held("a"), ours.held("b")}; !slices.Equal(before, after) {
		t.Errorf("the shards hold %v, before it was %v", after, before)
	}
	for name, redis := range ours.redis {
		if holder := redis.Do("HGET", Key, "holder"); holder != nil {
			t.Errorf("%s is locked by %v", name, holder)
		}
	}
}

// An added Redis may still hold a topology from an earlier time, of another cluster or of the same cluster.
func TestWhatAShardHoldsThatIsAdded(t *testing.T) {
	t.Parallel()
	l := layOut(t, "a", "d", "z")
	s := l.node("a")
	refused := func(want string) {
		t.Helper()
		var reason *RefusedError
		if err := l.add(s, "d"); !errors.As(err, &reason) || !strings.Contains(reason.Reason, want) {
			t.Errorf("%v, want it refused: %s", err, want)
		}
		if now := l.held("a"); !strings.HasPrefix(now, "1 ") {
			t.Fatalf("something was begun: %s", now)
		}
	}
	l.hold("d", l.topology(50, "change", "z"))
	refused("(its topology is epoch 50 with z): empty it first, or give it another database")
	l.hold("d", l.topology(1, "change", "z"))
	refused("belongs to another chronos")
	l.hold("d", l.topology(1, "change", "d"))
	refused("belongs to another chronos")
	l.hold("d", l.topology(3, "change", "a"))
	refused("empty it first")
	l.redis["d"].Kill()
	refused("can't be read")
	l.redis["d"].Start()
	theirs := l.topology(1, "change", "a", "d")
	theirs.Cluster = "another"
	l.hold("d", theirs)
	refused("belongs to another chronos")
	l.hold("d", l.topology(1, "change", "a", "d"))
	testkit.Eventually(t, testkit.Soon, "the addition of one that was ours", func() bool { return l.add(s, "d") == nil })
	l.wantActive(8*time.Second, "a", "d")
}

// A removed shard may be added again, even if no shard of its time is left.
func TestAShardIsAddedAgainAfterAllOthersWereReplaced(t *testing.T) {
	t.Parallel()
	l := layOut(t, "a", "b", "c")
	s := l.node("a", "b")
	s.o.Drained = time.Second
	remove := func(name string, left ...string) {
		t.Helper()
		if err := l.drain(s, name); err != nil {
			t.Fatal(err)
		}
		l.wantActive(8*time.Second, left...)
		testkit.Eventually(t, 15*time.Second, "the removal of "+name, func() bool {
			_, err := s.RemoveShard(t.Context(), name, false)
			return err == nil
		})
	}
	remove("a", "b")
	l.wantAnnounced(s, "c")
	l.wantActive(8*time.Second, "b", "c")
	remove("b", "c")
	if held := l.held("a"); strings.Contains(held, `"name":"c"`) || !strings.Contains(held, `"name":"b"`) {
		t.Fatalf("a holds %s", held)
	}
	if err := l.add(s, "a"); err != nil {
		t.Fatal(err)
	}
	l.wantActive(8*time.Second, "c", "a")
}
