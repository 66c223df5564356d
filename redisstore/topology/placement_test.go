package topology

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"chronos/scheduler/timer"
)

// placementOf is a node that places timers on the named shards.
func placementOf(names ...string) *Cluster {
	given := make([]Member, len(names))
	for i, name := range names {
		given[i] = Member{Name: name}
	}
	c := &Cluster{}
	c.current.Store(NewPlacement(firstTopology(&Options{Given: given}), nil))
	return c
}

func TestPlacementKeepsListOrder(t *testing.T) {
	names := []string{"c", "a", "b"}
	top := placementOf(names...)
	if diff := cmp.Diff(names, top.Shards()); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
	for i, name := range names {
		if at, ok := top.Placement().Index(name); !ok || at != i {
			t.Errorf("%s is found at %d, %t", name, at, ok)
		}
	}
	if _, ok := top.Placement().Index("d"); ok || top.HintOf("d") != 0 {
		t.Error("an unknown name is found")
	}
}

// The filter of a shard names the shard and hardly any second shard; the filter of several names contains all names.
// The place of a timer depends on the names alone, not on their order.
func TestRank(t *testing.T) {
	names := []string{"a", "b", "c", "d", "e"}
	top := placementOf(names...)
	turned := slices.Clone(names)
	slices.Reverse(turned)
	other := placementOf(turned...)
	homes := map[string]int{}
	for i := range 1000 {
		key := fmt.Sprintf("timer-%d", i)
		ranked := top.Rank(key)
		homes[ranked[0]]++
		if diff := cmp.Diff(named(top.Placement().active.ring.order(key), names), ranked); diff != "" {
			t.Fatalf("rank of %s (-ring +placement):\n%s", key, diff)
		}
		if again := other.Rank(key); !slices.Equal(again, ranked) {
			t.Fatalf("rank of %s is %v or %v, by the order of the list", key, ranked, again)
		}
		hint := top.HintOf(ranked[0])
		if got := top.Hinted(hint); !slices.Equal(got, ranked[:1]) {
			t.Fatalf("the filter of %s, on %s, means %v", key, ranked[0], got)
		}
		if got := top.Hinted(hint | top.HintOf(ranked[1])); !slices.Contains(got, ranked[0]) || !slices.Contains(got, ranked[1]) {
			t.Fatalf("the filter of %v means %v", ranked[:2], got)
		}
	}
	if len(homes) != len(names) {
		t.Errorf("homes %v", homes)
	}
}

// The masks come from the hashes of the names after clashes are resolved, as in placement.
func TestMasksOfClashingNames(t *testing.T) {
	top := placementOf("a", "a2")
	for i, seed := range top.Placement().active.ring.seeds {
		if top.Placement().masks[i] != timer.HintOf(seed) {
			t.Errorf("mask %d is %#x, want that of %#x", i, uint64(top.Placement().masks[i]), seed)
		}
	}
	one := placementOf("alone")
	if got := one.Rank("k"); !slices.Equal(got, []string{"alone"}) || one.HintOf("alone").Empty() {
		t.Errorf("rank with one shard: %v, filter %#x", got, uint64(one.HintOf("alone")))
	}
}

// The view contains everything that decides where timers belong, and nothing else.
func TestViews(t *testing.T) {
	three := Topology{Epoch: 1, Shards: []Member{{Name: "a"}, {Name: "b"}, {Name: "c"}}, Active: []string{"a", "b", "c"}}
	views := map[string]string{}
	differs := func(what string, change func(*Topology)) {
		t.Helper()
		other := three
		change(&other)
		if same, seen := views[other.View()]; seen {
			t.Errorf("%s has the view of %s", what, same)
		}
		views[other.View()] = what
	}
	differs("three", func(*Topology) {})
	differs("two", func(l *Topology) { l.Active = []string{"a", "b"} })
	differs("two, and a third soon", func(l *Topology) { l.Active, l.Next = []string{"a", "b"}, []string{"a", "b", "c"} })
	differs("three, and two soon", func(l *Topology) { l.Next = []string{"a", "b"} })
	differs("in another order", func(l *Topology) { l.Active = []string{"b", "a", "c"} })
	same := three
	same.Epoch, same.Change, same.Moved, same.Former = 9, "x", 8, [][]string{{"a", "b"}}
	same.Shards = append(slices.Clone(three.Shards), Member{Name: "d"})
	if len(three.View()) != 16 || same.View() != three.View() {
		t.Errorf("views %q and %q, want one, of 16 digits", three.View(), same.View())
	}
}

func TestFormerly(t *testing.T) {
	names := func(l Topology) []string {
		c := &Cluster{}
		c.current.Store(NewPlacement(l, nil))
		return c.Formerly("tea")
	}
	two, three, four := []string{"a", "b"}, []string{"a", "b", "c"}, []string{"a", "b", "c", "d"}
	rank := func(list []string) []string { p := newPlacing(list); return p.rank("tea") }
	for name, tc := range map[string]struct {
		topology Topology
		want     []string
	}{
		"nothing has changed":   {Topology{Active: three}, three},
		"one is announced":      {Topology{Active: three, Next: four}, three},
		"one has come":          {Topology{Active: four, Former: [][]string{three}}, three},
		"two have come":         {Topology{Active: four, Former: [][]string{three, two}}, three},
		"one came, one is soon": {Topology{Active: three, Next: four, Former: [][]string{two}}, two},
	} {
		if got := names(tc.topology); !slices.Equal(got, rank(tc.want)) {
			t.Errorf("%s: %v, want %v", name, got, rank(tc.want))
		}
	}
}
