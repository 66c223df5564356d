// Package site is how the sites of a cluster keep each other's timers: copies in every site, of which those of the
// home come due first (docs/sites.md). A node polls the shards of its own site, and is a guest at the other sites.
package site

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/time/rate"

	"chronos/scheduler/replica"
	"chronos/scheduler/settings"
	"chronos/scheduler/shard"
	"chronos/scheduler/store"
)

// Sites are the other sites, as a node knows the other sites. A Sites without other sites does nothing. All methods are
// safe for concurrent use.
type Sites struct {
	config *settings.Config
	own    Site
	others atomic.Pointer[map[string]*Other] // nobody changes a map
	making sync.Mutex                        // held while others is replaced
	fill   fill
	// underWay are the writes to other sites for which nobody waits any more.
	underWay sync.WaitGroup
	metrics  *metrics
	pace     *rate.Limiter // of timers that another site is told of in a fill
}

// Site is a site whose copies a node writes and reads.
type Site struct {
	Name   string
	Shards *shard.Registry
	Copies *replica.Keeper
}

// Other is another site.
type Other struct {
	Site

	s        *Sites
	touch    touch
	waiting  waiting
	empty    atomic.Bool // the site has lost its timers, and is not filled yet
	outcomes outcomes
}

// New knows the other sites that the store of the own site names.
func New(config *settings.Config, own *shard.Registry, copies *replica.Keeper) *Sites {
	s := &Sites{config: config, own: Site{Shards: own, Copies: copies}, pace: rate.NewLimiter(rate.Limit(config.SweepRate), max(fillPage, config.SweepRate))}
	s.metrics = newMetrics(s)
	s.gather()
	s.fill.hollow.Store(!s.None())
	return s
}

// gather takes the other sites from the store.
func (s *Sites) gather() map[string]*Other {
	s.making.Lock()
	defer s.making.Unlock()
	known := map[string]*Other{}
	if all := s.others.Load(); all != nil {
		known = *all
	}
	now := map[string]*Other{}
	for _, name := range s.own.Shards.Store.Sites().All {
		backend := s.own.Shards.Store.Site(name)
		if backend == nil {
			continue // the own site, or a site that has just come
		}
		if now[name] = known[name]; now[name] == nil || now[name].Shards.Store != backend {
			now[name] = s.newOther(name, backend)
		}
	}
	s.others.Store(&now)
	for name := range known {
		if now[name] == nil {
			s.metrics.forget(name)
		}
	}
	guests := make([]*shard.Registry, 0, len(now))
	for _, other := range now {
		guests = append(guests, other.Shards)
	}
	s.own.Shards.Visits(guests)
	return now
}

func (s *Sites) newOther(name string, backend store.Store) *Other {
	config := *s.config
	config.MinCopies, config.Registerer, config.Log = 1, nil, s.config.Log.With("site", name)
	o := &Other{s: s}
	o.Name = name
	o.Shards = shard.NewGuest(&config, backend, s.own.Shards)
	o.Copies = replica.New(&config, o.Shards, func(context.Context, *shard.Shard, int) {})
	o.outcomes.ready = make(chan struct{}, 1)
	return o
}

// all are the other sites.
func (s *Sites) all() map[string]*Other { return *s.others.Load() }

// None reports whether there are no other sites.
func (s *Sites) None() bool { return len(s.all()) == 0 }

// ownName is the name of the own site; "" without sites.
func (s *Sites) ownName() string { return s.own.Shards.Store.Sites().Own }

// Run visits the other sites, and tells them what they have not been told, until ctx ends.
func (s *Sites) Run(ctx context.Context) {
	var all sync.WaitGroup
	defer s.underWay.Wait()
	defer all.Wait()
	all.Go(func() { s.KeepFilled(ctx) })
	visiting := map[*Other]func(){}
	for {
		changed := s.own.Shards.Store.Changed()
		now := slices.Collect(maps.Values(s.gather()))
		for other, stop := range visiting {
			if !slices.Contains(now, other) {
				stop()
				delete(visiting, other)
				all.Go(func() { s.forget(ctx, other.Name) })
			}
		}
		for _, other := range now {
			if visiting[other] == nil {
				visit, stop := context.WithCancel(ctx)
				visiting[other] = stop
				all.Go(func() { other.run(visit) })
			}
		}
		select {
		case <-ctx.Done():
			for _, stop := range visiting {
				stop()
			}
			return
		case <-changed:
		}
	}
}

// run works with another site until ctx ends.
func (o *Other) run(ctx context.Context) {
	var all sync.WaitGroup
	defer all.Wait()
	all.Go(func() { o.Copies.Repair(ctx) })
	all.Go(func() { o.tellOutcomes(ctx) })
	all.Go(func() { o.watchFill(ctx) })
	all.Go(func() { o.fillAgain(ctx) })
	o.eachShard(ctx, o.Shards, func(ctx context.Context, sh *shard.Shard) {
		var both sync.WaitGroup
		both.Go(func() { sh.Visit(ctx) })
		both.Go(func() { o.readMarks(ctx, sh) })
		both.Wait()
	}, &all)
	o.eachShard(ctx, o.s.own.Shards, o.tellMarks, &all)
	<-ctx.Done()
}

// eachShard works on every shard of a registry, as long as the shard is in the topology.
func (o *Other) eachShard(ctx context.Context, r *shard.Registry, work func(ctx context.Context, sh *shard.Shard), all *sync.WaitGroup) {
	all.Go(func() {
		working := map[*shard.Shard]func(){}
		for {
			changed := r.Store.Changed()
			now := r.Gather()
			for sh, stop := range working {
				if now[sh.Name] != sh {
					stop()
					delete(working, sh)
				}
			}
			for _, sh := range now {
				if working[sh] == nil {
					own, stop := context.WithCancel(ctx)
					working[sh] = stop
					all.Go(func() { work(own, sh) })
				}
			}
			select {
			case <-ctx.Done():
				for _, stop := range working {
					stop()
				}
				return
			case <-changed:
			}
		}
	})
}

// reached reports whether this node reaches the site: some shard of the site is not silent.
func (o *Other) reached() bool {
	if o.Shards.Store.Writable() != nil {
		return false
	}
	for _, sh := range o.Shards.All() {
		if !sh.Away() {
			return true
		}
	}
	return false
}

// home is the site whose copies of a version come due first.
func (s *Sites) home(r *store.Record) string {
	sites := s.own.Shards.Store.Sites()
	return sites.Home(r.ID.Key, r.Site)
}
