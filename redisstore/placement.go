package redisstore

import (
	"slices"

	"chronos/scheduler/store"
	"chronos/scheduler/timer"
)

// placement is a topology with what it takes to work with it: the shards, how timers
// are placed on them, and the mask of each in an ID's filter. It is never changed.
type placement struct {
	topology Topology
	shards   []*shard // in list order
	masks    []timer.Hint
	index    map[string]int // of each shard, by its name
	active   placing
	others   []placing // what soon counts, and what did
	changed  chan struct{}
}

// placing is a list of shards that timers belong on.
type placing struct {
	names []string
	ring  ring
}

func newPlacing(names []string) placing { return placing{names: names, ring: newRing(names)} }

// newPlacement is that of a topology whose shards are given in list order.
func newPlacement(l Topology, shards []*shard) *placement {
	t := &placement{
		topology: l, shards: shards, index: make(map[string]int, len(shards)), active: newPlacing(l.Active), changed: make(chan struct{}),
	}
	for i, s := range shards {
		t.index[s.name] = i
	}
	for _, seed := range newRing(l.names()).seeds {
		t.masks = append(t.masks, timer.HintOf(seed))
	}
	if l.Next != nil {
		t.others = append(t.others, newPlacing(l.Next))
	}
	for _, names := range l.Former {
		t.others = append(t.others, newPlacing(names))
	}
	return t
}

// rank is the shards in the order in which a timer's copies belong on them.
func (p *placing) rank(key string) []string {
	if len(p.names) == 1 {
		return slices.Clone(p.names)
	}
	names := make([]string, len(p.names))
	for r, i := range p.ring.order(key) {
		names[r] = p.names[i]
	}
	return names
}

// elsewhere is where the first n copies of a timer belonged, or soon will.
func (t *placement) elsewhere(key string, n int) (all []store.Other) {
	for i := range t.others {
		ranked := t.others[i].rank(key)
		for r, name := range ranked[:min(n, len(ranked))] {
			all = append(all, store.Other{Shard: name, Rank: r, Coming: i == 0 && t.topology.Next != nil})
		}
	}
	return all
}

func (t *placement) hintOf(name string) timer.Hint {
	if i, ok := t.index[name]; ok {
		return t.masks[i]
	}
	return 0
}

func (t *placement) hinted(hint timer.Hint) (names []string) {
	for i, mask := range t.masks {
		if hint.Has(mask) {
			names = append(names, t.shards[i].name)
		}
	}
	return names
}
