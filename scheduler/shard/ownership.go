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

// AllPartitions are the partitions of a shard.
const AllPartitions = 1<<store.Partitions - 1

func (set PartitionSet) has(p int) bool { return set>>p&1 != 0 }

// List returns the partitions in order.
func (set PartitionSet) List() []int {
	all := make([]int, 0, bits.OnesCount16(uint16(set)))
	for p := range store.Partitions {
		if set.has(p) {
			all = append(all, p)
		}
	}
	return all
}

// ranks says for each partition of a shard how many live nodes come before node, by rendezvous
// hashing (Thaler and Ravishankar 1998). The node with rank 0 owns the partition. Nodes that reach
// more shards come first. Nodes that lack a shard which node reaches do not count: a lacking node
// leaves timers to nodes that reach the shard. All nodes that see the same nodes agree.
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
	// PollParts is how many polls go over a shard in an interval. A poll then makes few claims,
	// and other calls to the shard do not wait behind many claims.
	PollParts = 4
	maxRank   = 16 // from rank 16 on, a node looks once in hours
)

// ownership says which partitions of a shard this node polls, and when. Ownership is soft: the
// owner looks first, but every node may claim. A node that has heard of no other node owns all
// partitions. ownership is safe for concurrent use.
type ownership struct {
	mu       sync.Mutex
	rank     [store.Partitions]int
	handed   [store.Partitions]time.Time // when the partition went to a node that reaches more
	nextLook [store.Partitions]time.Time
	poked    [store.Partitions]time.Time // when to poll for a timer that the next poll might miss; zero for no poll
	earliest time.Time                   // the first of poked
	Pokes    chan struct{}               // has a token when earliest was brought forward
}

func newOwnership() *ownership { return &ownership{Pokes: make(chan struct{}, 1)} }

// handOverTime is how long a former owner goes on polling. By then the next owner has heard that
// this node reaches fewer shards, or this node has heard that the next owner lacks the shard, too.
const handOverTime = timing.BeatInterval + 2*lackingLook + 150*time.Millisecond

// set takes new ranks. A node that lacks a shard hands over the partitions that the node no
// longer owns.
func (o *ownership) set(rank [store.Partitions]int, lacks bool, now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for p := range rank {
		if rank[p] != o.rank[p] {
			o.nextLook[p] = time.Time{} // a higher rank may have put the look far off
		}
		if lacks && o.rank[p] == 0 && rank[p] > 0 {
			o.handed[p] = now
		}
	}
	o.rank = rank
}

// First reports whether this node owns the partition p.
func (o *ownership) First(p int) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.rank[p] == 0
}

// Turn returns the partitions of the n-th poll: own partitions, and partitions of other nodes at
// which it is time to look.
func (o *ownership) Turn(n int, now time.Time) (own, others PartitionSet) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for p := n % PollParts; p < store.Partitions; p += PollParts {
		switch rank, ago := o.rank[p], now.Sub(o.handed[p]); {
		case rank == 0, ago < handOverTime:
			own |= 1 << p
		case ago < timing.NodeLife: // the next owner may lack the shard, too
			others |= 1 << p
		case !now.Before(o.nextLook[p]):
			others |= 1 << p
			// Turns come with jitter: a look may be a little early, but never a turn late.
			o.nextLook[p] = now.Add(timing.LookInterval<<(min(rank, maxRank)-1) - timing.LookInterval/8)
		}
	}
	return own, others
}

// poke has a partition polled at an instant, whichever node is the owner.
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

// TakePoked returns the partitions that are to be polled by now. The poll may miss what a later
// poke was for.
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

// NextPoked is when TakePoked has a partition to return; zero for never.
func (o *ownership) NextPoked() time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.earliest
}
