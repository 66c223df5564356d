package redisstore

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"chronos/scheduler"
)

func topologyOf(names ...string) *topology {
	shards := make([]*shard, len(names))
	for i, name := range names {
		shards[i] = &shard{name: name}
	}
	return newTopology(shards)
}

func TestTopologyKeepsListOrder(t *testing.T) {
	names := []string{"c", "a", "b"}
	top := topologyOf(names...)
	if diff := cmp.Diff(names, top.names()); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
	for i, name := range names {
		if top.byName[name] != top.shards[i] {
			t.Errorf("%s is found as %v", name, top.byName[name])
		}
	}
	if top.byName["d"] != nil {
		t.Error("an unknown name is found")
	}
}

// A timer's filter names the shard that it is on, as the ring says, and hardly
// any other. Where a timer is depends on the names alone, not on their order.
func TestHome(t *testing.T) {
	names := []string{"a", "b", "c", "d", "e"}
	top := topologyOf(names...)
	turned := slices.Clone(names)
	slices.Reverse(turned)
	other := topologyOf(turned...)
	homes := map[string]int{}
	for i := range 1000 {
		key := fmt.Sprintf("timer-%d", i)
		home, hint := top.home(key)
		homes[home.name]++
		if want := names[top.ring.order(key)[0]]; home.name != want {
			t.Fatalf("home of %s is %s, want %s", key, home.name, want)
		}
		if again, _ := other.home(key); again.name != home.name {
			t.Fatalf("home of %s is %s or %s, by the order of the list", key, home.name, again.name)
		}
		for k, mask := range top.masks {
			if hint.Has(mask) != (names[k] == home.name) {
				t.Fatalf("the filter of %s, on %s, says %t for %s", key, home.name, hint.Has(mask), names[k])
			}
		}
	}
	if len(homes) != len(names) {
		t.Errorf("homes %v", homes)
	}
}

// The masks come from the hashes of the names after clashes are resolved, as
// placement does.
func TestMasksOfClashingNames(t *testing.T) {
	top := topologyOf("a", "a2")
	for i, seed := range top.ring.seeds {
		if top.masks[i] != scheduler.HintOf(seed) {
			t.Errorf("mask %d is %#x, want that of %#x", i, uint64(top.masks[i]), seed)
		}
	}
	one, hint := topologyOf("alone").home("k")
	if one.name != "alone" || hint.Empty() {
		t.Errorf("home with one shard: %s, filter %#x", one.name, uint64(hint))
	}
}
