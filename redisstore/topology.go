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
	byName map[string]*shard
}

func newTopology(shards []*shard) *topology {
	names := make([]string, len(shards))
	t := &topology{shards: shards, byName: make(map[string]*shard, len(shards))}
	for i, s := range shards {
		names[i], t.byName[s.name] = s.name, s
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

// home is the shard of the timer's primary and the filter that names it.
func (t *topology) home(key string) (*shard, scheduler.Hint) {
	i := t.ring.primary(key)
	return t.shards[i], t.masks[i]
}
