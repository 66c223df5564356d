package topology

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"chronos/scheduler/timer"
	"chronos/scheduler/timing"
	"chronos/scheduler/verify/testkit"
)

// Two rival changes that can't be finished, since either holds shards that the rival needs, do not block later
// changes.
func TestRivalsAreSettled(t *testing.T) {
	t.Parallel()
	l := layOut(t, "a", "b", "c", "d")
	s := l.node("a", "b", "c")
	if err := l.drain(s, "a"); err != nil {
		t.Fatal(err)
	}
	l.wantActive(6*time.Second, "b", "c")
	p := l.lock(s)
	base := agreed(p.all)
	for change, at := range map[string]string{"x": "c", "y": "b"} {
		begun, err := base.remove("a")
		if err != nil {
			t.Fatal(err)
		}
		begun.Epoch, begun.Change = base.Epoch+1, change
		sh, err := s.Placement().Shard(at)
		if err != nil {
			t.Fatal(err)
		}
		l.begin(p, &begun, sh)
	}
	p.end()
	testkit.Eventually(t, 15*time.Second, "the removal", func() bool {
		now := s.Topology()
		return slices.Equal(now.names(), []string{"b", "c"})
	})
	l.wantAnnounced(s, "d")
	l.wantActive(8*time.Second, "b", "c", "d")
}

// Only answers from all shards that could have taken part show which of two changes may have been agreed on. Without
// these answers nobody guesses.
func TestSettleRivals(t *testing.T) {
	t.Parallel()
	change := func(name string) *Topology {
		return &Topology{Epoch: 5, Change: name, Shards: []Member{{Name: "a"}, {Name: "b"}, {Name: "c"}}, Active: []string{"a", "b", "c"}}
	}
	x, y := change("x"), change("y")
	at := func(name string, l *Topology, err error) stand {
		return stand{shard: &testShard{Member: Member{Name: name}}, topology: l, err: err}
	}
	before := &Topology{Epoch: 4, Change: "before"}
	for name, c := range map[string]struct {
		all   []stand
		epoch int64 // 0 if the epoch can't be known
		is    string
		gone  []string
	}{
		"one alone":                {[]stand{at("a", x, nil), at("b", before, nil), at("c", before, nil)}, 5, "x", nil},
		"one alone, one away":      {[]stand{at("a", x, nil), at("b", before, nil), at("c", nil, timer.ErrUnavailable)}, 5, "x", nil},
		"neither":                  {[]stand{at("a", y, nil), at("b", before, nil), at("c", x, nil)}, 6, "x", nil},
		"one has the most":         {[]stand{at("a", y, nil), at("b", y, nil), at("c", x, nil)}, 6, "y", nil},
		"either, one is away":      {[]stand{at("a", y, nil), at("b", nil, timer.ErrUnavailable), at("c", x, nil)}, 0, "", nil},
		"either, one is given up":  {[]stand{at("a", y, nil), at("b", nil, timer.ErrUnavailable), at("c", x, nil)}, 6, "x", []string{"b"}},
		"three, and neither":       {[]stand{at("a", y, nil), at("b", change("z"), nil), at("c", x, nil)}, 6, "x", nil},
		"one of them can be alone": {[]stand{at("a", y, nil), at("b", nil, timer.ErrUnavailable), at("c", before, nil)}, 5, "y", nil},
	} {
		got, err := settleRivals(c.all, 5, c.gone...)
		switch {
		case c.epoch == 0 && err == nil:
			t.Errorf("%s: %+v, want an error", name, got)
		case c.epoch != 0 && (err != nil || got.Epoch != c.epoch || got.Change != c.is):
			t.Errorf("%s: %+v, %v; want %s of epoch %d", name, got, err, c.is, c.epoch)
		}
	}
}

// A node's look and an operator's change may find the same topology at once.
func TestATopologyIsAdoptedOnce(t *testing.T) {
	t.Parallel()
	l := layOut(t, "a")
	s := l.node("a")
	for range 2000 {
		next := s.Topology()
		next.Epoch++
		var finding sync.WaitGroup
		for range 4 {
			finding.Go(func() {
				if err := s.adopt(&next); err != nil {
					t.Error(err)
				}
			})
		}
		finding.Wait()
	}
	if changed := s.Changed(); s.Topology().Epoch < 2001 {
		t.Errorf("epoch %d, changed %v", s.Topology().Epoch, changed)
	}
}

// TestALaterTopologyIsNotReplaced: a node that was held up may store an outdated topology after another node has
// stored a later one.
func TestALaterTopologyIsNotReplaced(t *testing.T) {
	t.Parallel()
	s := layOut(t, "a").open("a")
	sh, err := s.Placement().Shard("a")
	if err != nil {
		t.Fatal(err)
	}
	if err := lock(t.Context(), sh, "token"); err != nil {
		t.Fatal(err)
	}
	backend := func(epoch int64, change string) error {
		l := s.Topology()
		l.Epoch, l.Change = epoch, change
		text, err := l.encode()
		if err != nil {
			t.Fatal(err)
		}
		return tell(t.Context(), sh, "stored", "store", "token", l.Epoch, l.Change, text)
	}
	if err := backend(5, "new"); err != nil {
		t.Fatal(err)
	}
	for change, epoch := range map[string]int64{"old": 4, "rival": 5} {
		if err := backend(epoch, change); !errors.Is(err, timer.ErrRefused) {
			t.Errorf("the shard holds epoch 5 and is given %q of epoch %d: %v, want it refused", change, epoch, err)
		}
	}
	if now, err := HeldBy(t.Context(), sh); err != nil || now.Epoch != 5 || now.Change != "new" {
		t.Errorf("the shard holds %+v, %v", now, err)
	}
}

// TestANodeDoesNotGoBackToAnEarlierTopology: most shards may come back without their last seconds.
func TestANodeDoesNotGoBackToAnEarlierTopology(t *testing.T) {
	t.Parallel()
	s := layOut(t, "a").open("a")
	sh, err := s.Placement().Shard("a")
	if err != nil {
		t.Fatal(err)
	}
	earlier, later := s.Topology(), s.Topology()
	earlier.Epoch, earlier.Change, later.Epoch, later.Change = 4, "earlier", 5, "later"
	for _, l := range []*Topology{&later, &earlier} {
		s.weigh([]stand{{shard: sh, topology: l}})
		if now := s.Topology(); now.Epoch != 5 || now.Change != "later" {
			t.Errorf("shown epoch %d, the node works by epoch %d", l.Epoch, now.Epoch)
		}
	}
	if !s.behind.Load() {
		t.Error("the node does not see that the shard is behind")
	}
}

// TestANodeThatCannotReadTheTopologyWritesNothing: another node may have changed the topology.
func TestANodeThatCannotReadTheTopologyWritesNothing(t *testing.T) {
	t.Parallel()
	s := layOut(t, "a").open("a")
	sh, err := s.Placement().Shard("a")
	if err != nil {
		t.Fatal(err)
	}
	l := s.Topology()
	l.Epoch = 1
	s.weigh([]stand{{shard: sh, topology: &l}})
	if err := s.Writable(); err != nil {
		t.Errorf("right after it has read the topology: %v", err)
	}
	s.origin = s.origin.Add(-timing.BlindFor - time.Second) // as if the time had passed
	if err := s.Writable(); !errors.Is(err, timer.ErrUnavailable) {
		t.Errorf("%v after it has read the topology: %v, want unavailable", timing.BlindFor+time.Second, err)
	}
}

// TestAChangeIsAnnouncedBeforeItCounts: until every node has heard of the change, a node may
// write where the timers belonged before.
func TestAChangeIsAnnouncedBeforeItCounts(t *testing.T) {
	t.Parallel()
	s := layOut(t, "a", "b").open("a", "b")
	if err := s.Join(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.o.Announced = time.Minute
	if _, err := s.DrainShard(t.Context(), "b", false); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*timing.FollowInterval)
	defer cancel()
	s.Follow(ctx)
	if now := s.Topology(); !slices.Contains(now.Active, "b") || slices.Contains(now.Next, "b") || len(now.Next) == 0 {
		t.Errorf("within the minute of the announcement the drain counts: %+v", now)
	}
}
