package redisstore

import (
	"fmt"
	"strings"

	"github.com/cespare/xxhash/v2"

	"chronos/scheduler/store"
	"chronos/scheduler/timer"
)

// Partitions is how many groups of keys a shard has for each lane. It is a
// constant of the data: changing it loses sight of every stored timer.
const Partitions = store.Partitions

// nodesKey is the sorted set of live nodes of a shard that work on a lane: node id by
// the time of its last announcement, ms of the shard's clock.
func nodesKey(lane string) string { return "chronos:{" + lane + "}:nodes" }

// clocksKey is the hash of what the clocks of the nodes showed that announced themselves
// there: node id to that, and to when it was by the shard's clock, ms.
func clocksKey(lane string) string { return "chronos:{" + lane + "}:clocks" }

// dedicationKey is what the lane's timers on a shard are for.
func dedicationKey(lane string) string { return "chronos:lane:" + lane }

// partitionKeys are the keys of one partition. They share a hash tag, so that a
// script may touch them together on a Redis Cluster.
type partitionKeys struct {
	due, timers, leases, dead, tags string
}

// callKeys are the keys by partition that scripts take. Calls share these slices, which nobody changes.
type callKeys struct {
	three, merge, settle, fence [Partitions][]string
}

func newCallKeys(lane *[Partitions]partitionKeys) *callKeys {
	c := &callKeys{}
	for p, k := range lane {
		c.three[p] = []string{k.due, k.timers, k.leases}
		c.merge[p] = []string{k.due, k.timers, k.leases, k.tags}
		c.settle[p] = []string{k.due, k.timers, k.leases, k.dead, k.tags}
		c.fence[p] = []string{k.due, k.leases}
	}
	return c
}

// laneKeys are the keys of all partitions of a lane.
func laneKeys(lane string) [Partitions]partitionKeys {
	var keys [Partitions]partitionKeys
	for p := range keys {
		prefix := fmt.Sprintf("chronos:{%s.%02d}:", lane, p)
		keys[p] = partitionKeys{
			due: prefix + "due", timers: prefix + "timers", leases: prefix + "leases", dead: prefix + "dead", tags: prefix + "tags",
		}
	}
	return keys
}

// partitionOf is where a timer's key lives on every shard.
func partitionOf(key string) int { return int(xxhash.Sum64String(key) % Partitions) }

// together is how many keys that are made one after another share a partition.
const together = 64

// NewKey is store.Store's. The last two digits are chosen so that keys made
// one after another share a partition: what is created together is written by
// one script call, and if it is due together, claimed, fenced and settled by one.
func (s *Store) NewKey() (string, error) {
	made, err := timer.NewKey()
	if err != nil {
		return "", err
	}
	want := s.minted.Add(1) / together % Partitions
	const digits = "0123456789abcdef"
	key := []byte(made)
	first, second := strings.IndexByte(digits, key[30]), strings.IndexByte(digits, key[31])
	for try := range 1 << 8 { // one of 16 fits
		key[30], key[31] = digits[(first+try>>4)&15], digits[(second+try)&15]
		if xxhash.Sum64(key)%Partitions == want {
			break
		}
	}
	return string(key), nil
}
