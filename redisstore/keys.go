package redisstore

import (
	"fmt"

	"github.com/cespare/xxhash/v2"
)

// Partitions is how many groups of keys a shard has for each lane. It is a
// constant of the data: changing it loses sight of every stored timer.
const Partitions = 16

// nodesKey is the sorted set of live nodes of a shard: node id by the time of
// its last announcement, ms of the shard's clock.
const nodesKey = "chronos:nodes"

// partitionKeys are the keys of one partition. They share a hash tag, so that a
// script may touch them together on a Redis Cluster.
type partitionKeys struct {
	due, timers, leases, dead string
}

func (k partitionKeys) three() []string { return []string{k.due, k.timers, k.leases} }

// laneKeys are the keys of all partitions of a lane.
func laneKeys(lane string) [Partitions]partitionKeys {
	var keys [Partitions]partitionKeys
	for p := range keys {
		prefix := fmt.Sprintf("chronos:{%s.%02d}:", lane, p)
		keys[p] = partitionKeys{due: prefix + "due", timers: prefix + "timers", leases: prefix + "leases", dead: prefix + "dead"}
	}
	return keys
}

// partitionOf is where a timer's key lives on every shard.
func partitionOf(key string) int { return int(xxhash.Sum64String(key) % Partitions) }
