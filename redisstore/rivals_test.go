package redisstore

import (
	"slices"
	"sync"
	"testing"
	"time"
)

// Two changes that were begun apart from each other, of which neither can be finished
// since each holds shards that the other needs, are not in the way of later ones.
func TestRivalsAreSettled(t *testing.T) {
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
		sh, err := s.shard(at)
		if err != nil {
			t.Fatal(err)
		}
		l.begin(p, &begun, sh)
	}
	p.end()
	await(t, 15*time.Second, "the removal", func() bool {
		now := s.Topology()
		return slices.Equal(now.names(), []string{"b", "c"})
	})
	l.wantAnnounced(s, "d")
	l.wantActive(8*time.Second, "b", "c", "d")
}

// Which of two changes may have been agreed on is known when all that could have taken
// part can be asked, and is not guessed otherwise.
func TestSettleRivals(t *testing.T) {
	t.Parallel()
	change := func(name string) *Topology {
		return &Topology{Epoch: 5, Change: name, Shards: []Member{{Name: "a"}, {Name: "b"}, {Name: "c"}}, Active: []string{"a", "b", "c"}}
	}
	x, y := change("x"), change("y")
	at := func(name string, l *Topology, err error) stand {
		return stand{shard: &shard{name: name}, topology: l, err: err}
	}
	before := &Topology{Epoch: 4, Change: "before"}
	for name, c := range map[string]struct {
		all   []stand
		epoch int64 // 0 if it can't be known
		is    string
		gone  []string
	}{
		"one alone":                {[]stand{at("a", x, nil), at("b", before, nil), at("c", before, nil)}, 5, "x", nil},
		"one alone, one away":      {[]stand{at("a", x, nil), at("b", before, nil), at("c", nil, errReply)}, 5, "x", nil},
		"neither":                  {[]stand{at("a", y, nil), at("b", before, nil), at("c", x, nil)}, 6, "x", nil},
		"one has the most":         {[]stand{at("a", y, nil), at("b", y, nil), at("c", x, nil)}, 6, "y", nil},
		"either, one is away":      {[]stand{at("a", y, nil), at("b", nil, errReply), at("c", x, nil)}, 0, "", nil},
		"either, one is given up":  {[]stand{at("a", y, nil), at("b", nil, errReply), at("c", x, nil)}, 6, "x", []string{"b"}},
		"three, and neither":       {[]stand{at("a", y, nil), at("b", change("z"), nil), at("c", x, nil)}, 6, "x", nil},
		"one of them can be alone": {[]stand{at("a", y, nil), at("b", nil, errReply), at("c", before, nil)}, 5, "y", nil},
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
