package redisstore

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"

	"chronos/scheduler/store"
	"chronos/scheduler/timer"
)

// Partitions is how many groups of keys a shard has for each deliverer kind. Partitions is a constant of the data: a
// change loses sight of every stored timer.
const Partitions = store.Partitions

// nodesKey is the sorted set of a shard's live nodes of a deliverer kind: node id by the time of the node's last
// announcement, ms of the shard's clock.
func nodesKey(lane string) string { return "chronos:{" + lane + "}:nodes" }

// clocksKey is the hash of the clocks that nodes have announced on a shard: node id to the node's clock, and to the
// time of the announcement by the shard's clock, ms.
func clocksKey(lane string) string { return "chronos:{" + lane + "}:clocks" }

// statusKey is the hash of what the nodes tell of themselves on a shard: node id to a text (package pulse).
func statusKey(lane string) string { return "chronos:{" + lane + "}:status" }

// pausesKey is the hash of the decisions about destinations that a shard keeps: destination to stamp and end of the
// pause, ms.
func pausesKey(lane string) string { return "chronos:{" + lane + "}:pauses" }

// dedicationKey holds the purpose of the deliverer kind's timers on a shard.
func dedicationKey(lane string) string { return "chronos:lane:" + lane }

// partitionKeys are the keys of one partition. The keys share a hash tag, so that a script may touch the keys
// together on a Redis Cluster.
type partitionKeys struct {
	due, timers, leases, dead, tags, deliveries string
	marked                                      string
}

// untold is the sorted set of the marks for a site: mark by the time of the mark, ms.
func (k *partitionKeys) untold(site string) string {
	return strings.TrimSuffix(k.marked, "marked") + "untold:" + site
}

// callKeys are the keys that scripts take, by partition. Calls share these slices, which nobody changes.
type callKeys struct {
	three, merge, claim, settle, fence [Partitions][]string
}

// newCallKeys makes the keys. Without a log of deliveries no settlement gets the key of the log.
func newCallKeys(lane *[Partitions]partitionKeys, logs bool) *callKeys {
	c := &callKeys{}
	for p, k := range lane {
		c.three[p] = []string{k.due, k.timers, k.leases}
		c.merge[p] = []string{k.due, k.timers, k.leases, k.tags}
		c.claim[p] = append(slices.Clone(c.merge[p]), k.marked)
		c.settle[p] = []string{k.due, k.timers, k.leases, k.dead, k.tags}
		if logs {
			c.settle[p] = append(c.settle[p], k.deliveries)
		}
		c.fence[p] = []string{k.due, k.leases}
	}
	return c
}

// laneKeys are the keys of all partitions of a deliverer kind.
func laneKeys(lane string) [Partitions]partitionKeys {
	var keys [Partitions]partitionKeys
	for p := range keys {
		prefix := fmt.Sprintf("chronos:{%s.%02d}:", lane, p)
		keys[p] = partitionKeys{
			due: prefix + "due", timers: prefix + "timers", leases: prefix + "leases", dead: prefix + "dead", tags: prefix + "tags",
			deliveries: prefix + "deliveries", marked: prefix + "marked",
		}
	}
	return keys
}

// partitionOf is the partition of a timer's key on every shard.
func partitionOf(key string) int { return int(xxhash.Sum64String(key) % Partitions) }

// together is how many successive new keys share a partition.
const together = 64

// NewKey is store.Store's. The last two digits are chosen so that successive keys share a partition. Then one script
// call writes timers that are created together, and one call may claim, fence or settle timers that are due
// together.
func (s *Store) NewKey(prefix string) (string, error) {
	made, err := timer.NewKey()
	if err != nil {
		return "", err
	}
	want := s.minted.Add(1) / together % Partitions
	const digits = "0123456789abcdef"
	key := append(append(make([]byte, 0, len(prefix)+len(made)), prefix...), made...)
	last := key[len(key)-2:]
	first, second := strings.IndexByte(digits, last[0]), strings.IndexByte(digits, last[1])
	for try := range 1 << 8 { // one of 16 fits
		last[0], last[1] = digits[(first+try>>4)&15], digits[(second+try)&15]
		if xxhash.Sum64(key)%Partitions == want {
			break
		}
	}
	return string(key), nil
}
