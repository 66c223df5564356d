package shard

import (
	"hash/fnv"
	"iter"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"chronos/scheduler/settings"
	"chronos/scheduler/store"
	"chronos/scheduler/timing"
)

// Registry has the shards that the store names, and says where the copies of a timer belong.
// Shards come and go while the engine runs. Registry is safe for concurrent use.
type Registry struct {
	config *settings.Config
	Store  store.Store
	gauges *shardGauges
	// Tell is the text that the node tells of itself with each heartbeat; nil for none. Set Tell before the
	// first heartbeat.
	Tell func() string

	mu     sync.Mutex // for replacing the map; nobody changes a map
	byName atomic.Pointer[map[string]*Shard]
	made   int // shards so far

	host   *Registry                   // of a registry of guests: the registry of the node's own site
	guests atomic.Pointer[[]*Registry] // the registries of the other sites

	tags   atomic.Uint32 // of versions: begins with a hash of this node's name
	latest latest        // version
}

// New makes a registry of the shards that the store names.
func New(config *settings.Config, backend store.Store) *Registry {
	r := &Registry{config: config, Store: backend}
	r.gauges = newShardGauges(r.live)
	tag := fnv.New32a()
	_, _ = tag.Write([]byte(config.Node)) // never fails
	r.tags.Store(tag.Sum32())
	r.Gather()
	return r
}

// NewGuest makes a registry of the shards of another site, on which the node works as a guest: the node's versions
// and clocks are those of its own site, host.
func NewGuest(config *settings.Config, backend store.Store, host *Registry) *Registry {
	r := New(config, backend)
	r.host = host
	return r
}

// Visits names the registries of the other sites, whose clocks count here.
func (r *Registry) Visits(guests []*Registry) { r.guests.Store(&guests) }

// All are the shards by name. Nobody may change the map.
func (r *Registry) All() map[string]*Shard { return *r.byName.Load() }

// Shard is the shard of the name; nil if no shard has the name.
func (r *Registry) Shard(name string) *Shard {
	if sh := r.All()[name]; sh != nil {
		return sh
	}
	if !slices.Contains(r.Store.Shards(), name) {
		return nil
	}
	return r.Gather()[name] // the shard has just come
}

// Gone reports whether the shard was removed since the caller got sh. A later shard of the same
// name is another shard. Callers pass over a removed shard, as a new look for places would.
func (sh *Shard) Gone() bool { return sh.removed.Load() }

// Several reports whether a timer may have copies on more than one shard.
func (r *Registry) Several() bool { return len(r.All()) > 1 }

// Gather takes the shards from the store: known shards stay, new shards are made, and removed
// shards are forgotten.
func (r *Registry) Gather() map[string]*Shard {
	r.mu.Lock()
	defer r.mu.Unlock()
	names := r.Store.Shards()
	known := map[string]*Shard{}
	if all := r.byName.Load(); all != nil {
		known = *all
	}
	now := make(map[string]*Shard, len(names))
	for _, name := range names {
		if now[name] = known[name]; now[name] == nil {
			now[name] = newShard(r, r.made, name)
			r.made++
		}
	}
	r.byName.Store(&now)
	for name, sh := range known {
		if now[name] == nil {
			sh.removed.Store(true)
		}
	}
	return now
}

// lacking are the shards that this node does not reach, by name. Shards that are given up do not
// count, since no node waits for a shard that is given up.
func (r *Registry) lacking() (names []string) {
	for name, sh := range r.All() {
		if sh.Reach() == Down && !r.Store.Lost(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// failing reports whether a shard that this node reaches is not up.
func (r *Registry) failing() bool {
	for _, sh := range r.All() {
		if reach := sh.Reach(); reach != Up && reach != Down {
			return true
		}
	}
	return false
}

// others are the live nodes without this node. The shards that a node lacks count only if this
// node knows the shards.
func (r *Registry) others(live []store.LiveNode) []store.LiveNode {
	others := make([]store.LiveNode, 0, len(live))
	for _, node := range live {
		if node.Name == r.config.Node {
			continue
		}
		var lacks []string
		for name := range r.All() {
			if slices.Contains(node.Lacks, name) {
				lacks = append(lacks, name)
			}
		}
		others = append(others, store.LiveNode{Name: node.Name, Lacks: lacks, Format: node.Format})
	}
	return others
}

// live is how many nodes are live, this node included.
func (r *Registry) live() int {
	names := map[string]bool{r.config.Node: true}
	for node := range r.liveOthers() {
		names[node.Name] = true
	}
	return len(names)
}

// AllRead reports whether all live nodes read timers of the format. A shard that has not answered lately says nothing of nodes.
func (r *Registry) AllRead(format int) bool {
	for node := range r.liveOthers() {
		if node.Format < format {
			return false
		}
	}
	return true
}

// liveOthers are the other nodes that have announced themselves lately, once for each shard.
func (r *Registry) liveOthers() iter.Seq[*store.LiveNode] {
	return func(yield func(*store.LiveNode) bool) {
		now := r.config.SinceBoot()
		for _, sh := range r.All() {
			known := sh.heard.Load()
			if known == nil || now-known.sinceBoot > timing.NodeLife {
				continue
			}
			for i := range known.others {
				if !yield(&known.others[i]) {
					return
				}
			}
		}
	}
}

// Ailing reports whether a shard is not up.
func (r *Registry) Ailing() bool {
	for _, sh := range r.All() {
		if sh.Reach() != Up {
			return true
		}
	}
	return false
}

// Collectors are the metrics of all shards.
func (r *Registry) Collectors() []prometheus.Collector { return r.gauges.collectors() }
