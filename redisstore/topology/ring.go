package topology

import (
	"slices"

	"github.com/cespare/xxhash/v2"
)

// ring ranks shards for a timer by rendezvous hashing (Thaler and Ravishankar 1998), as Metaswitch's Chronos does.
// Each shard's name is hashed once to a seed, and the timer's key is hashed with each seed. The lowest hash is the
// primary, the highest the first backup. Hence a timer moves only to a new shard or away from a leaving shard, and a
// primary never becomes a backup.
type ring struct {
	seeds []uint64
	hash  func(key string, seed uint64) uint64
}

// newRing makes the ring of the named shards, in list order.
func newRing(names []string) ring {
	return newRingWith(names, seededHash)
}

func newRingWith(names []string, hash func(string, uint64) uint64) ring {
	seeds := make([]uint64, len(names))
	for i, name := range names {
		seeds[i] = distinct(hash(name, 0), seeds[:i])
	}
	return ring{seeds: seeds, hash: hash}
}

// seededHash is XXH64. The choice is frozen by golden values in the test.
func seededHash(key string, seed uint64) uint64 {
	var d xxhash.Digest
	d.ResetWithSeed(seed)
	_, _ = d.WriteString(key) // never fails
	return d.Sum64()
}

// order is all shards by rank: the primary, then the backups.
func (r ring) order(key string) []int {
	hashes, order := make([]uint64, 0, len(r.seeds)), make([]int, 0, len(r.seeds))
	for i, seed := range r.seeds {
		// A clash is resolved for the shard first in the list.
		h := distinct(r.hash(key, seed), hashes)
		at := len(order)
		for at > 0 && hashes[order[at-1]] > h {
			at--
		}
		hashes, order = append(hashes, h), slices.Insert(order, at, i)
	}
	if len(order) > 1 {
		slices.Reverse(order[1:])
	}
	return order
}

// distinct increments h until h differs from all taken hashes.
func distinct(h uint64, taken []uint64) uint64 {
	for slices.Contains(taken, h) {
		h++
	}
	return h
}
