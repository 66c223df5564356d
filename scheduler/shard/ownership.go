package shard

import (
	"math/bits"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"

	"chronos/scheduler/store"
	"chronos/scheduler/timing"
)

// PartitionSet is a set of a shard's partitions.
type PartitionSet uint16

// AllPartitions are those of a shard.
const AllPartitions = 1<<store.Partitions - 1

func (set PartitionSet) has(p int) bool { return set>>p&1 != 0 }

// List has them in order.
func (set PartitionSet) List() []int {
	all := make([]int, 0, bits.OnesCount16(uint16(set)))
	for p := range store.Partitions {
		if set.has(p) {
			all = append(all, p)
		}
	}
	return all
}

// ranks says for each partition of a shard how many of the other live nodes come before node,
// by rendezvous hashing (Thaler and Ravishankar 1998): the node with rank 0 owns the partition.
// Nodes that reach more shards come first, and nodes that lack a shard which node reaches do not
// count: that node leaves timers to others. All nodes that see the same nodes agree.
func ranks(node store.LiveNode, others []store.LiveNode, shard string) (rank [store.Partitions]int) {
	others = slices.DeleteFunc(slices.Clone(others), func(other store.LiveNode) bool { return !within(other.Lacks, node.Lacks) })
	for p := range store.Partitions {
		at := "/" + shard + "/" + strconv.Itoa(p)
		own := xxhash.Sum64String(node.Name + at)
		for _, other := range others {
			h := xxhash.Sum64String(other.Name + at)
			if len(other.Lacks) < len(node.Lacks) || h < own || h == own && other.Name < node.Name {
				rank[p]++
			}
		}
	}
	return rank
}

// within reports whether every name is among all.
func within(names, all []string) bool {
	return !slices.ContainsFunc(names, func(name string) bool { return !slices.Contains(all, name) })
}

const (
	// PollParts is how many polls go over a shard in one interval: a few claims at
	// a time keep what else the shard is asked from waiting behind many.
	PollParts = 4
	maxRank   = 16 // nodes of this rank look once in hours
)

// ownership is which of a shard's partitions this node polls, and when. Soft: it
// decides who looks first, never who may. Until it is told of other nodes it owns
// all. It is safe for concurrent use.
type ownership struct {
	mu       sync.Mutex
	rank     [store.Partitions]int
	handed   [store.Partitions]time.Time // when the partition was handed over to a node that reaches more
	nextLook [store.Partitions]time.Time
	poked    [store.Partitions]time.Time // when something is due that the next poll might miss; zero for nothing
	earliest time.Time                   // of poked
	Pokes    chan struct{}               // has a token when earliest was brought forward
}

func newOwnership() *ownership { return &ownership{Pokes: make(chan struct{}, 1)} }

// handOverTime is how long a former owner goes on polling: until other nodes have heard that this
// node reaches fewer shards, or this node has heard that other nodes reach no more shards.
const handOverTime = timing.BeatInterval + 2*lackingLook + 150*time.Millisecond

// set takes the ranks. A node that lacks a shard hands over what it owned.
func (o *ownership) set(rank [store.Partitions]int, lacks bool, now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for p := range rank {
		if rank[p] != o.rank[p] {
			o.nextLook[p] = time.Time{} // what a higher rank has put off may be far away
		}
		if lacks && o.rank[p] == 0 && rank[p] > 0 {
			o.handed[p] = now
		}
	}
	o.rank = rank
}

// First reports whether this node is the first to look after a partition.
func (o *ownership) First(p int) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.rank[p] == 0
}

// Turn is what the n-th poll is about: partitions of its own, and those of
// others at which it is time to look.
func (o *ownership) Turn(n int, now time.Time) (own, others PartitionSet) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for p := n % PollParts; p < store.Partitions; p += PollParts {
		switch rank, ago := o.rank[p], now.Sub(o.handed[p]); {
		case rank == 0, ago < handOverTime:
			own |= 1 << p
		case ago < timing.NodeLife: // the next owner may have lost the shard as well
			others |= 1 << p
		case !now.Before(o.nextLook[p]):
			others |= 1 << p
			// Turns come with jitter: a look may be a little early, never late by one.
			o.nextLook[p] = now.Add(timing.LookInterval<<(min(rank, maxRank)-1) - timing.LookInterval/8)
		}
	}
	return own, others
}

// poke has a partition polled at an instant, whoever owns it.
func (o *ownership) poke(p int, at time.Time) {
	o.mu.Lock()
	if o.poked[p].IsZero() || at.Before(o.poked[p]) {
		o.poked[p] = at
	}
	earlier := o.earliest.IsZero() || at.Before(o.earliest)
	if earlier {
		o.earliest = at
	}
	o.mu.Unlock()
	if earlier {
		select {
		case o.Pokes <- struct{}{}:
		default:
		}
	}
}

// TakePoked returns the partitions that are to be polled by now. What is poked
// from here on may be missed by that poll.
func (o *ownership) TakePoked(now time.Time) (set PartitionSet) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.earliest.IsZero() || now.Before(o.earliest) {
		return 0
	}
	o.earliest = time.Time{}
	for p, at := range o.poked {
		switch {
		case at.IsZero():
		case !now.Before(at):
			set |= 1 << p
			o.poked[p] = time.Time{}
		case o.earliest.IsZero() || at.Before(o.earliest):
			o.earliest = at
		}
	}
	return set
}

// NextPoked is when TakePoked has something to return; zero for never.
func (o *ownership) NextPoked() time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.earliest
}
