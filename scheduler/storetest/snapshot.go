package storetest

import (
	"maps"
	"slices"
)

// Snapshot remembers the contents of all shards. The returned function brings the contents back, as often as it is
// called. A test thus goes on from one state in many ways.
func (m *Model) Snapshot() (restore func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	kept := m.copyShards(m.shards)
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.shards = m.copyShards(kept)
	}
}

func (m *Model) copyShards(shards map[string]*shard) map[string]*shard {
	all := make(map[string]*shard, len(shards))
	for name, s := range shards {
		c := newShard(s.name)
		c.log = slices.Clone(s.log)
		c.dead, c.beats, c.clocks, c.told = slices.Clone(s.dead), maps.Clone(s.beats), maps.Clone(s.clocks), maps.Clone(s.told)
		for key, e := range s.entries {
			same := *e // the lists of an entry are never changed in place
			if e.lease != nil {
				held := *e.lease
				same.lease = &held
			}
			c.entries[key] = &same
		}
		all[name] = c
	}
	return all
}
