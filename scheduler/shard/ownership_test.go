package shard

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"chronos/scheduler/store"
	"chronos/scheduler/timing"
)

// Nodes that see the same nodes agree on all ranks. When a node dies, only the nodes of higher
// rank move up.
func TestRanks(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		live := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-f0-9-]{1,36}`), 1, 12, rapid.ID[string]).Draw(rt, "live")
		dead := rapid.SampledFrom(live).Draw(rt, "dead")
		left := slices.DeleteFunc(slices.Clone(live), func(n string) bool { return n == dead })
		var taken [store.Partitions][]int
		gone := ranksAmong(dead, live)
		for _, node := range live {
			before, after := ranksAmong(node, live), ranksAmong(node, left)
			for p := range store.Partitions {
				taken[p] = append(taken[p], before[p])
				want := before[p]
				if want > gone[p] {
					want--
				}
				if node != dead && after[p] != want {
					rt.Fatalf("partition %d: rank %d becomes %d when rank %d dies, want %d", p, before[p], after[p], gone[p], want)
				}
			}
		}
		for p := range taken {
			slices.Sort(taken[p])
			for rank, have := range taken[p] {
				if have != rank {
					rt.Fatalf("partition %d has the ranks %v, want each once", p, taken[p])
				}
			}
		}
	})
}

// ranksAmong are the ranks of a node on shard main, while no node lacks a shard.
func ranksAmong(node string, live []string) [store.Partitions]int {
	var others []store.LiveNode
	for _, name := range live {
		if name != node {
			others = append(others, store.LiveNode{Name: name})
		}
	}
	return ranks(store.LiveNode{Name: node}, others, "main")
}

// A node that reaches all shards of a timer finds the timer first.
func TestNodesThatReachMoreComeFirst(t *testing.T) {
	lacking := func(name string, lacks ...string) store.LiveNode { return store.LiveNode{Name: name, Lacks: lacks} }
	all := func(rank int) (same [store.Partitions]int) {
		for p := range same {
			same[p] = rank
		}
		return same
	}
	alone := ranksAmong("n1", []string{"n1", "n2"})
	for name, c := range map[string]struct {
		node   store.LiveNode
		others []store.LiveNode
		want   [store.Partitions]int
	}{
		"others reach more":             {lacking("n1", "b"), []store.LiveNode{lacking("n2"), lacking("n3")}, all(2)},
		"it reaches more":               {lacking("n1"), []store.LiveNode{lacking("n2", "b"), lacking("n3", "b", "c")}, all(0)},
		"each lacks another one":        {lacking("n1", "b"), []store.LiveNode{lacking("n2", "c")}, all(0)},
		"all lack the same":             {lacking("n1", "b"), []store.LiveNode{lacking("n2", "b")}, alone},
		"one reaches more, one another": {lacking("n1", "b", "c"), []store.LiveNode{lacking("n2", "c"), lacking("n3", "d")}, all(1)},
	} {
		if got := ranks(c.node, c.others, "main"); got != c.want {
			t.Errorf("%s: the ranks are %v, want %v", name, got, c.want)
		}
	}
}

// The choice is frozen: nodes of two releases must agree.
func TestRanksAreFrozen(t *testing.T) {
	live := []string{"n1", "n2", "n3"}
	want := map[string]string{"n1": "", "n2": "", "n3": ""}
	for node := range want {
		want[node] = fmt.Sprint(ranksAmong(node, live))
	}
	for node, golden := range map[string]string{
		"n1": "[1 0 0 2 0 1 0 2 0 1 0 1 0 1 0 2]",
		"n2": "[0 1 1 1 2 0 2 1 2 2 1 0 2 0 1 1]",
		"n3": "[2 2 2 0 1 2 1 0 1 0 2 2 1 2 2 0]",
	} {
		if want[node] != golden {
			t.Errorf("%s has the ranks %s, want %s", node, want[node], golden)
		}
	}
}

func TestEveryPartitionHasItsTurn(t *testing.T) {
	o := newOwnership()
	now := time.Now()
	o.set([store.Partitions]int{1: 1, 2: 2, 3: 3}, false, now)
	const step = 25 * time.Millisecond
	var polls, looks [store.Partitions]int
	for n := range 32 * PollParts { // 3.2 s
		own, others := o.Turn(n, now.Add(time.Duration(n)*step))
		for p := range store.Partitions {
			if own.has(p) {
				polls[p]++
			}
			if others.has(p) {
				looks[p]++
			}
		}
	}
	for p := range store.Partitions {
		want := map[int][2]int{1: {0, 8}, 2: {0, 4}, 3: {0, 2}}[p]
		if p == 0 || p > 3 {
			want = [2]int{32, 0}
		}
		if got := [2]int{polls[p], looks[p]}; got != want {
			t.Errorf("partition %d was polled and looked at %v times in 3.2 s, want %v", p, got, want)
		}
	}
}

func TestPokes(t *testing.T) {
	o := newOwnership()
	now := time.Now()
	if !o.NextPoked().IsZero() || o.TakePoked(now) != 0 {
		t.Error("something is poked before anything was")
	}
	o.poke(3, now.Add(20*time.Millisecond))
	o.poke(5, now.Add(10*time.Millisecond))
	o.poke(3, now.Add(30*time.Millisecond)) // no later than before
	if got := o.TakePoked(now.Add(9 * time.Millisecond)); got != 0 {
		t.Errorf("%v is poked too soon", got.List())
	}
	if got := o.TakePoked(now.Add(10 * time.Millisecond)); got != 1<<5 {
		t.Errorf("%v is poked first, want 5", got.List())
	}
	if got := o.NextPoked(); !got.Equal(now.Add(20 * time.Millisecond)) {
		t.Errorf("the next is %v away, want 20ms", got.Sub(now))
	}
	if got := o.TakePoked(now.Add(time.Second)); got != 1<<3 {
		t.Errorf("%v is poked then, want 3", got.List())
	}
	if !o.NextPoked().IsZero() {
		t.Error("something is poked after all was taken")
	}
}

// A node that moves up looks at once, however long the node would have waited by the former rank.
func TestMovingUpLooksAtOnce(t *testing.T) {
	o := newOwnership()
	now := time.Now()
	o.set([store.Partitions]int{0: 9}, false, now)
	if _, others := o.Turn(0, now); !others.has(0) {
		t.Fatal("the first look was not made")
	}
	if _, others := o.Turn(0, now.Add(2*time.Second)); others.has(0) {
		t.Fatal("the ninth looks again within 2 s")
	}
	o.set([store.Partitions]int{0: 1}, false, now)
	if _, others := o.Turn(0, now.Add(2*time.Second)); !others.has(0) {
		t.Error("the second does not look")
	}
}

// The next owner may learn of the ownership only with the next announcement.
func TestAnOwnerPollsUntilTheNextOneDoes(t *testing.T) {
	o := newOwnership()
	now := time.Now()
	o.set([store.Partitions]int{0: 5}, true, now)
	for _, after := range []time.Duration{0, handOverTime - 1} {
		if own, _ := o.Turn(0, now.Add(after)); !own.has(0) {
			t.Errorf("%v later the partition is not polled", after)
		}
	}
	for _, after := range []time.Duration{handOverTime, handOverTime + 100*time.Millisecond, timing.NodeLife - 1} {
		if own, others := o.Turn(0, now.Add(after)); own.has(0) || !others.has(0) {
			t.Errorf("%v later the partition is polled: %v, looked at: %v", after, own.has(0), others.has(0))
		}
	}
	o.Turn(0, now.Add(timing.NodeLife))
	if _, others := o.Turn(0, now.Add(timing.NodeLife+time.Second)); others.has(0) {
		t.Error("the fifth looks again within a second")
	}
}
