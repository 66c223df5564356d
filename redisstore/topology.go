package redisstore

import (
	"chronos/scheduler"
)

// topology is the list of shards, how timers are placed on them, and the mask
// of each in an ID's filter.
type topology struct {
	shards []*shard
	ring   ring
	masks  []scheduler.Hint
	index  map[string]int // of each shard, by its name
}

func newTopology(shards []*shard) *topology {
	names := make([]string, len(shards))
	t := &topology{shards: shards, index: make(map[string]int, len(shards))}
	for i, s := range shards {
		names[i], t.index[s.name] = s.name, i
	}
	t.ring = newRing(names)
	for _, seed := range t.ring.seeds {
		t.masks = append(t.masks, scheduler.HintOf(seed))
	}
	return t
}

func (t *topology) names() []string {
	names := make([]string, len(t.shards))
	for i, s := range t.shards {
		names[i] = s.name
	}
	return names
}

// rank is all shards in the order in which a timer's copies belong on them.
func (t *topology) rank(key string) []string {
	if len(t.shards) == 1 {
		return []string{t.shards[0].name}
	}
	names := make([]string, len(t.shards))
	for r, i := range t.ring.order(key) {
		names[r] = t.shards[i].name
	}
	return names
}

func (t *topology) hintOf(name string) scheduler.Hint {
	if i, ok := t.index[name]; ok {
		return t.masks[i]
	}
	return 0
}

func (t *topology) hinted(hint scheduler.Hint) (names []string) {
	for i, mask := range t.masks {
		if hint.Has(mask) {
			names = append(names, t.shards[i].name)
		}
	}
	return names
}
