package simtest

import (
	"slices"
	"testing"
	"time"

	"chronos/redisstore/topology"
	"chronos/scheduler/verify/history"
)

// unknownShards finds the times in which no node knew some shard of the cluster. A node that starts knows the listed
// shards alone until one of these names the others. A shard that no node knows is as good as away.
type unknownShards struct {
	members []string      // of the last topology by which a node worked
	seen    time.Duration // when a node last worked by a topology
	now     []string      // the shards that no node knows
}

// look takes the topologies of all nodes that run; a topology of epoch 0 is a list of shards. look returns the faults
// that are over.
func (u *unknownShards) look(running []topology.Topology, at time.Duration) (over []history.Fault) {
	var members, listed []string
	for i := range running {
		if t := &running[i]; t.Epoch > 0 {
			members = append(members, names(t)...)
		} else {
			listed = append(listed, names(t)...)
		}
	}
	switch {
	case len(members) > 0:
		over = u.faults(at)
		u.members, u.seen, u.now = members, at, nil
	case len(listed) > 0:
		u.now = slices.DeleteFunc(slices.Clone(u.members), func(name string) bool { return slices.Contains(listed, name) })
	}
	return over
}

// faults returns the shards that no node knew, as faults that end at an instant.
func (u *unknownShards) faults(end time.Duration) (all []history.Fault) {
	slices.Sort(u.now)
	for _, name := range slices.Compact(u.now) {
		all = append(all, history.Fault{Kind: "shard-unknown", Class: history.ShardAway, Shard: name, StartNs: int64(u.seen), EndNs: int64(end)})
	}
	return all
}

// TestUnknownShards: a shard is unknown from the last look at which a node knew the shard, until a node works by a
// topology again. A time without any node is no such time.
func TestUnknownShards(t *testing.T) {
	list := func(epoch int64, shards ...string) (t topology.Topology) {
		for _, name := range shards {
			t.Shards = append(t.Shards, topology.Member{Name: name})
		}
		t.Epoch = epoch
		return t
	}
	var u unknownShards
	for i, look := range []struct {
		running []topology.Topology
		want    int
	}{
		{[]topology.Topology{list(0, "a"), list(0, "a")}, 0},
		{[]topology.Topology{list(7, "a", "b", "c"), list(0, "a")}, 0},
		{nil, 0},
		{[]topology.Topology{list(6, "a", "b"), list(7, "a", "b", "c")}, 0},
		{[]topology.Topology{list(0, "a")}, 0},
		{[]topology.Topology{list(0, "a"), list(0, "a")}, 0},
		{nil, 0},
		{[]topology.Topology{list(0, "a"), list(7, "a", "b", "c")}, 2},
		{[]topology.Topology{list(7, "a", "b", "c")}, 0},
	} {
		at := time.Duration(i) * time.Second
		over := u.look(look.running, at)
		if len(over) != look.want {
			t.Fatalf("look %d: %d faults %+v, want %d", i, len(over), over, look.want)
		}
		for k, f := range over {
			if f.Shard != []string{"b", "c"}[k] || f.StartNs != int64(3*time.Second) || f.EndNs != int64(at) {
				t.Errorf("look %d: fault %+v", i, f)
			}
		}
	}
}
