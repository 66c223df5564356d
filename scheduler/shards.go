package scheduler

import (
	"hash/fnv"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"chronos/scheduler/store"
)

// registry has the shards that the store names, and says where the copies of a timer belong.
// Shards come and go while the engine runs. It is safe for concurrent use.
type registry struct {
	config *Config
	store  store.Store
	gauges *shardGauges

	mu     sync.Mutex // for replacing the map, which is never changed
	byName atomic.Pointer[map[string]*shard]
	made   int // shards so far

	tags   atomic.Uint32 // of versions: begins with one of this node's own
	latest latest        // version
}

func newRegistry(config *Config, backend store.Store) *registry {
	r := &registry{config: config, store: backend, gauges: newShardGauges()}
	tag := fnv.New32a()
	_, _ = tag.Write([]byte(config.Node)) // never fails
	r.tags.Store(tag.Sum32())
	r.gather()
	return r
}

func (r *registry) load() map[string]*shard { return *r.byName.Load() }

// shard is the one of this name, nil if there is none.
func (r *registry) shard(name string) *shard {
	if sh := r.load()[name]; sh != nil {
		return sh
	}
	if !slices.Contains(r.store.Shards(), name) {
		return nil
	}
	return r.gather()[name] // it has just come
}

// gone reports whether the shard was removed since it was found to be a place of some
// timer: one of its name that comes later is another. It is passed over, as it is by
// who looks for places now.
func (sh *shard) gone() bool { return sh.removed.Load() }

// several reports whether a timer may have copies on more than one shard.
func (r *registry) several() bool { return len(r.load()) > 1 }

// gather takes the shards from the store: it keeps those that it has, makes those
// that are new, and forgets those that are gone.
func (r *registry) gather() map[string]*shard {
	r.mu.Lock()
	defer r.mu.Unlock()
	names := r.store.Shards()
	known := map[string]*shard{}
	if all := r.byName.Load(); all != nil {
		known = *all
	}
	now := make(map[string]*shard, len(names))
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

// ailing reports whether a shard is not well.
func (r *registry) ailing() bool {
	for _, sh := range r.load() {
		if sh.ails() {
			return true
		}
	}
	return false
}

func (r *registry) collectors() []prometheus.Collector { return r.gauges.collectors() }
