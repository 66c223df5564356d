package simtest

import (
	"maps"
	"slices"
	"strings"
	"time"

	"chronos/redisstore"
	"chronos/scheduler/verify/history"
	"chronos/scheduler/verify/record"
)

// tombLife is how long the tombstones of deletes live in runs: they are removed before the shards are dumped.
const tombLife = 20 * time.Second

// dump records all copies on the shards, and the owners of each timer.
func (c *cluster) dump() {
	at := c.journal.now()
	var copies []history.Copy
	var strays []history.Stray
	for _, s := range c.shards {
		taken, err := s.snapshot()
		if err != nil {
			c.t.Errorf("dump shard %s: %v", s.name, err)
			continue
		}
		s.mu.Lock()
		now := time.Now().Add(s.ahead)
		s.mu.Unlock()
		some, odd := contents(s.name, taken, now)
		copies, strays = append(copies, some...), append(strays, odd...)
	}
	rank, active := c.placement()
	var homes []history.Home
	seen := map[string]bool{}
	for i := range copies {
		if found := &copies[i]; !seen[found.Key] {
			seen[found.Key] = true
			ranked := rank(found.Key)
			homes = append(homes, history.Home{Key: found.Key, Shards: ranked[:min(found.RF, len(ranked))]})
		}
	}
	c.journal.dump(at, copies, strays, homes, active)
}

// placement returns a node's order of the shards for a key, and the shards that take timers. All nodes agree.
func (c *cluster) placement() (rank func(key string) []string, active []string) {
	for _, m := range c.machines {
		if _, err := m.operate(func(s *redisstore.Store) { rank, active = s.Rank, s.Topology().Active }); err == nil {
			return rank, active
		}
	}
	c.t.Error("no node runs at the end")
	return func(string) []string { return nil }, nil
}

// contents returns the copies on a shard, and as strays all data that belongs to no copy.
func contents(shard string, taken snapshot, now time.Time) (copies []history.Copy, strays []history.Stray) {
	odd := func(what string) { strays = append(strays, history.Stray{Shard: shard, Key: what}) }
	for _, name := range slices.Sorted(maps.Keys(taken.hashes)) {
		if name == topologyKey || name == "chronos:swept" {
			continue
		}
		base, kind := cutLast(name, ":")
		switch kind {
		case "timers":
			some := timersOf(shard, taken, base, now, odd)
			copies = append(copies, some...)
			if off := tagsOff(taken, base); off != "" {
				odd(base + ":tags " + off)
			}
		case "leases":
			for key := range taken.hashes[name] {
				if _, there := taken.hashes[base+":timers"][key]; !there {
					odd(name + " " + key)
				}
			}
		case "tags", "clocks", "pauses", "status":
		default:
			odd(name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(taken.sorted)) {
		base, kind := cutLast(name, ":")
		switch kind {
		case "due":
			for key := range taken.sorted[name] {
				if _, there := taken.hashes[base+":timers"][key]; !there {
					odd(name + " " + key)
				}
			}
		case "dead", "nodes":
		default:
			odd(name)
		}
	}
	return copies, strays
}

func cutLast(text, sep string) (before, after string) {
	i := strings.LastIndex(text, sep)
	return text[:max(i, 0)], text[i+len(sep):]
}

// timersOf returns the copies of one partition.
func timersOf(shard string, taken snapshot, base string, now time.Time, odd func(string)) (copies []history.Copy) {
	records := taken.hashes[base+":timers"]
	for _, key := range slices.Sorted(maps.Keys(records)) {
		if key == "#" {
			continue // the field counts writes
		}
		found, err := record.Parse(key, records[key])
		score, due := taken.sorted[base+":due"][key]
		if err != nil || !due {
			odd(base + ":timers " + key)
			continue
		}
		_, found.Leased = taken.hashes[base+":leases"][key]
		found.Shard, found.ScoreMs = shard, int64(score)-now.UnixMilli()
		copies = append(copies, found)
	}
	return copies
}
