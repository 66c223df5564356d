package topology

import (
	"fmt"
	"slices"

	"chronos/scheduler/store"
	"chronos/scheduler/timer"
)

// Placement is a topology with all that work by the topology needs: the shards, how timers are placed on the shards,
// and the mask of each shard in an ID's filter. A Placement never changes.
type Placement struct {
	Topology Topology
	Shards   []Shard // in list order
	masks    []timer.Hint
	indexes  map[string]int // of each shard, by the shard's name
	sites    store.Sites
	active   placing
	others   []placing // the announced list, and the former lists
	changed  chan struct{}
}

// placing is a list of shards that timers belong on.
type placing struct {
	names []string
	ring  ring
}

func newPlacing(names []string) placing { return placing{names: names, ring: newRing(names)} }

// NewPlacement makes the Placement of a topology; the shards come in list order.
func NewPlacement(l Topology, shards []Shard) *Placement {
	p := &Placement{Topology: l, Shards: shards, sites: sitesOf(&l), indexes: make(map[string]int, len(shards)), active: newPlacing(l.Active), changed: make(chan struct{})}
	for i, m := range l.Shards {
		p.indexes[m.Name] = i
	}
	for _, seed := range newRing(l.names()).seeds {
		p.masks = append(p.masks, timer.HintOf(seed))
	}
	if l.Next != nil {
		p.others = append(p.others, newPlacing(l.Next))
	}
	for _, names := range l.Former {
		p.others = append(p.others, newPlacing(names))
	}
	return p
}

// Index is the place of a shard in the list.
func (p *Placement) Index(name string) (i int, known bool) {
	i, known = p.indexes[name]
	return i, known
}

// Shard is the named shard.
func (p *Placement) Shard(name string) (Shard, error) {
	i, known := p.indexes[name]
	if !known {
		return nil, fmt.Errorf("%w: no shard is named %q", timer.ErrUnavailable, name)
	}
	return p.Shards[i], nil
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

// Shards is store.Placement's.
func (c *Cluster) Shards() []string { return c.Placement().Topology.names() }

// Changed is store.Placement's.
func (c *Cluster) Changed() <-chan struct{} { return c.Placement().changed }

// Rank is store.Placement's.
func (c *Cluster) Rank(key string) []string { return c.Placement().active.rank(key) }

// Others is store.Placement's.
func (c *Cluster) Others(key string, n int) (all []store.Other) {
	p := c.Placement()
	for i := range p.others {
		ranked := p.others[i].rank(key)
		for r, name := range ranked[:min(n, len(ranked))] {
			all = append(all, store.Other{Shard: name, Rank: r, Coming: i == 0 && p.Topology.Next != nil})
		}
	}
	return all
}

// HintOf is store.Placement's.
func (c *Cluster) HintOf(shard string) timer.Hint {
	p := c.Placement()
	if i, known := p.indexes[shard]; known {
		return p.masks[i]
	}
	return 0
}

// Hinted is store.Placement's.
func (c *Cluster) Hinted(hint timer.Hint) (names []string) {
	p := c.Placement()
	for i, mask := range p.masks {
		if hint.Has(mask) {
			names = append(names, p.Topology.Shards[i].Name)
		}
	}
	return names
}

// View is store.Listing's.
func (c *Cluster) View() string { return c.Placement().Topology.View() }

// Formerly is store.Listing's.
func (c *Cluster) Formerly(key string) []string {
	p := c.Placement()
	if len(p.Topology.Former) == 0 {
		return p.active.rank(key)
	}
	return p.others[len(p.others)-len(p.Topology.Former)].rank(key)
}

// Epoch is store.Sweeping's.
func (c *Cluster) Epoch(shard string) (epoch int64, steady bool) {
	t := &c.Placement().Topology
	return t.EpochOf(shard), t.Next == nil && c.Writable() == nil
}
