package topology

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"chronos/scheduler/timing"
	"chronos/scheduler/verify/testkit"
)

// An announced change goes on without a shard that is gone for good.
func TestForceDuringAnAnnouncement(t *testing.T) {
	t.Parallel()
	names := func(text string) []string {
		if text == "" {
			return nil
		}
		return strings.Split(text, "")
	}
	for name, c := range map[string]struct {
		active, next, lost, gone string
		given                    string // given up, without a voice
		want                     string // of Next
		refused                  bool
	}{
		"another leaves":                       {"abc", "bc", "", "c", "", "b", false},
		"it would be the only one":             {"ab", "b", "", "b", "", "a", false},
		"another joins":                        {"ab", "abc", "", "b", "", "ac", false},
		"it joins":                             {"ab", "abc", "", "c", "", "", false},
		"it joins in another's stead":          {"ab", "bc", "", "c", "", "b", false},
		"it leaves":                            {"abc", "bc", "", "a", "", "bc", false},
		"the other is given up":                {"ab", "b", "a", "b", "", "", true},
		"no other has a voice":                 {"ab", "b", "", "b", "a", "", true},
		"one of those that stayed is given up": {"abc", "c", "", "c", "b", "a", false},
	} {
		l := Topology{Epoch: 4, Active: names(c.active), Next: names(c.next), Lost: map[string]Loss{}, Voiceless: names(c.given)}
		for _, n := range slices.Compact(slices.Sorted(slices.Values(names(c.active + c.next)))) {
			l.Shards = append(l.Shards, Member{Name: n})
		}
		for _, n := range names(c.lost) {
			l.Lost[n] = Loss{Epoch: 2}
		}
		got, err := l.drain(c.gone, true)
		switch {
		case c.refused:
			if err == nil {
				t.Errorf("%s: %+v, want it refused", name, got)
			}
		case err != nil || !slices.Equal(got.Next, names(c.want)) || !slices.Equal(got.Voiceless, append(names(c.given), c.gone)):
			t.Errorf("%s: %+v, %v; want %s next", name, got, err, c.want)
		}
	}
}

// A shard can be given up even if the shard is lost during the announcement of a change that needs the shard.
func TestAShardIsLostDuringAnAnnouncement(t *testing.T) {
	t.Parallel()
	l := layOut(t, "a", "b")
	s := l.node("a", "b")
	if err := l.drain(s, "a"); err != nil {
		t.Fatal(err)
	}
	l.redis["b"].Kill() // before the drain counts
	testkit.Throughout(t, s.o.Announced+2*timing.FollowInterval, "the drain does not count without b", func() bool { return s.Topology().Next != nil })
	testkit.Eventually(t, 15*time.Second, "the drain of b", func() bool {
		_, err := s.DrainShard(t.Context(), "b", true)
		return err == nil
	})
	l.wantActive(10*time.Second, "a")
	if err := s.Writable(); err != nil {
		t.Error(err)
	}
}

// A change that can't be agreed on since shards are away is refused before any shard is told: a half-made change
// keeps all nodes from writing.
func TestNoChangeIsBegunThatCannotBeAgreedOn(t *testing.T) {
	t.Parallel()
	l := layOut(t, "a", "b", "c")
	s := l.node("a", "b", "c")
	if err := l.drain(s, "c"); err != nil {
		t.Fatal(err)
	}
	l.wantActive(10*time.Second, "a", "b")
	l.redis["b"].Kill()
	l.saysDrained(s, "c")
	s.o.Drained = 0
	var refused *RefusedError
	testkit.Eventually(t, 15*time.Second, "a refusal that names who is away", func() bool {
		_, err := s.RemoveShard(t.Context(), "c", false)
		return errors.As(err, &refused) && strings.Contains(refused.Reason, "and b can't be written to")
	})
	testkit.Throughout(t, timing.BlindFor+3*time.Second, "the node writes", func() bool { return s.Writable() == nil })
	if l.held("c") != l.held("a") {
		t.Errorf("c holds %v, a %v", l.held("c"), l.held("a"))
	}
}

// A coordinator tells only the removed shard of the removal, and leaves. While the removal can't be agreed on, no
// further shard is told, and nodes write.
func TestARemovalThatWasLeftWaits(t *testing.T) {
	t.Parallel()
	l := layOut(t, "a", "b", "c")
	s := l.node("a", "b", "c")
	before := l.topology(2, "drained", "a", "b", "c")
	before.Active = []string{"a", "b"}
	for _, name := range []string{"a", "b", "c"} {
		l.hold(name, before)
	}
	testkit.Eventually(t, 5*time.Second, "the drain", func() bool { return s.Topology().Epoch == 2 })
	l.redis["b"].Kill()
	l.hold("c", l.step(before, func() (Topology, error) { return before.remove("c") }))
	testkit.Throughout(t, leftAlone*timing.FollowInterval+timing.BlindFor+3*time.Second, "the node writes", func() bool { return s.Writable() == nil })
	testkit.Eventually(t, 15*time.Second, "the drain of b", func() bool {
		_, err := s.DrainShard(t.Context(), "b", true)
		return err == nil
	})
	testkit.Eventually(t, 15*time.Second, "what was begun, and the drain", func() bool {
		now := s.Topology()
		return slices.Equal(now.names(), []string{"a", "b"}) && slices.Equal(now.Active, []string{"a"}) && s.Writable() == nil
	})
}

// A node that was held up for longer than a lock lasts writes nothing any more: another node may have changed the
// topology on further shards.
func TestALockThatRanOutIsNotTakenAgain(t *testing.T) {
	t.Parallel()
	l := layOut(t, "a", "b", "c")
	s := l.node("a", "b", "c")
	p := l.lock(s)
	before := l.held("a")
	for _, name := range []string{"a", "b", "c"} {
		l.redis[name].Do("HDEL", Key, "holder", "held_until_ms")
	}
	next := l.step(s.Topology(), func() (Topology, error) { now := s.Topology(); return now.drain("c", false) })
	if err := p.agree(t.Context(), &next); !errors.Is(err, errUnfinished) {
		t.Errorf("agreed: %v", err)
	}
	for _, name := range []string{"a", "b", "c"} {
		if l.held(name) != before {
			t.Errorf("%s holds %v", name, l.held(name))
		}
	}
}

// A node that was started with a shard of the same name at another place would go on to use the known place.
func TestANameThatTheNodeKnowsElsewhere(t *testing.T) {
	t.Parallel()
	l := layOut(t, "a", "b", "c")
	l.hold("a", l.topology(5, "removed", "a"))
	s := l.node("a", "b")
	var refused *RefusedError
	if _, err := s.AddShard(t.Context(), Member{Name: "b", URL: l.redis["c"].URL}, false); !errors.As(err, &refused) || !strings.Contains(err.Error(), "CHRONOS_REDIS") {
		t.Errorf("added: %v", err)
	}
}

// A removed shard is told even if another node's lock kept the shard from being locked at first.
func TestWhoIsRemovedIsTold(t *testing.T) {
	t.Parallel()
	l := layOut(t, "a", "b", "c")
	s := l.node("a", "b", "c")
	p := l.lock(s)
	l.redis["c"].Do("HDEL", Key, "holder", "held_until_ms")
	p.locked["c"] = false
	before := l.topology(2, "drained", "a", "b", "c")
	before.Active = []string{"a", "b"}
	next := l.step(before, func() (Topology, error) { return before.remove("c") })
	if err := p.dismiss(t.Context(), &before, &next, nil); err != nil {
		t.Fatal(err)
	}
	if held := l.held("c"); !strings.HasPrefix(held, "3 begun ") {
		t.Errorf("c holds %s", held)
	}
}
