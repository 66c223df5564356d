package topology

import (
	"errors"
	"slices"
	"testing"
	"time"

	"chronos/scheduler/verify/testkit"
)

// One of two shards can be given up by force, and replaced.
func TestOneOfTwoIsReplaced(t *testing.T) {
	t.Parallel()
	l := layOut(t, "a", "b", "c")
	s, other := l.node("a", "b"), l.node("a", "b")
	l.redis["b"].Kill()
	var refused *RefusedError
	if err := l.drain(s, "b"); !errors.As(err, &refused) {
		t.Errorf("one that can't be reached was drained: %v", err)
	}
	if err := l.add(s, "c"); err == nil {
		t.Error("a shard was added by one of two")
	}
	testkit.Eventually(t, testkit.Soon, "the drain by force", func() bool {
		_, err := s.DrainShard(t.Context(), "b", true)
		return err == nil
	})
	l.wantActive(10*time.Second, "a")
	l.wantAnnounced(other, "c")
	l.wantActive(10*time.Second, "a", "c")
	testkit.Eventually(t, testkit.Soon, "the removal by force", func() bool {
		_, err := other.RemoveShard(t.Context(), "b", true)
		return err == nil
	})
	testkit.Eventually(t, 5*time.Second, "all to know", func() bool { return slices.Equal(s.Shards(), []string{"a", "c"}) })
	if now := s.Topology(); len(now.Voiceless) > 0 {
		t.Errorf("left: %+v", now)
	}
}

// An operator's request about a shard that was given up decides whether the shard joins again.
func TestAShardThatWasGivenUpIsDrainedOrAdded(t *testing.T) {
	t.Parallel()
	l := Topology{Epoch: 4, Shards: []Member{{Name: "a"}, {Name: "b"}, {Name: "c"}}, Active: []string{"a", "b", "c"}}
	lost, err := l.lose("c")
	if err != nil || !slices.Equal(lost.Next, []string{"a", "b"}) || lost.Lost["c"] != (Loss{Epoch: 5, Rejoins: true}) {
		t.Fatalf("given up: %+v, %v", lost, err)
	}
	if _, err := lost.regain("c"); err == nil {
		t.Error("it joins again while its loss is announced")
	}
	lost = lost.enact()
	if _, err := lost.lose("c"); err == nil {
		t.Error("it is given up twice")
	}
	if _, err := lost.add(Member{Name: "c"}); err == nil {
		t.Error("it is added before it is swept")
	}
	drained, err := lost.drain("c", false)
	if err != nil || drained.Next != nil || drained.Lost["c"].Rejoins {
		t.Fatalf("drained: %+v, %v", drained, err)
	}
	if back, err := drained.regain("c"); err != nil || back.Next != nil || len(back.Lost) > 0 {
		t.Errorf("a drained shard that is swept: %+v, %v; want it drained as before", back, err)
	}
	added, err := drained.add(Member{Name: "c"})
	if err != nil || added.Next != nil || !added.Lost["c"].Rejoins {
		t.Fatalf("added: %+v, %v; want it to join once it is swept", added, err)
	}
	if back, err := added.regain("c"); err != nil || !slices.Equal(back.Next, []string{"a", "b", "c"}) || len(back.Lost) > 0 {
		t.Errorf("back: %+v, %v; want it announced", back, err)
	}
	forced, err := lost.drain("c", true)
	if err != nil || forced.Lost["c"].Rejoins || !slices.Equal(forced.Voiceless, []string{"c"}) {
		t.Errorf("drained by force: %+v, %v", forced, err)
	}
	if _, err := lost.remove("c"); err != nil {
		t.Errorf("remove: %v", err)
	}
}
