package redisstore

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"chronos/redisstore/endpoint"
	"chronos/redisstore/topology"
	"chronos/scheduler/store"
	"chronos/scheduler/timing"
)

// Site is another site, and shards of that site.
type Site struct {
	Name   string
	Shards []endpoint.Config
}

// BySite splits shards into the shards of a site, and the other sites in the order of the list.
func BySite(shards []endpoint.Config, site string) (own []endpoint.Config, others []Site) {
	for _, c := range shards {
		i := slices.IndexFunc(others, func(s Site) bool { return s.Name == c.Site })
		switch {
		case c.Site == site:
			own = append(own, c)
		case i < 0:
			others = append(others, Site{Name: c.Site, Shards: []endpoint.Config{c}})
		default:
			others[i].Shards = append(others[i].Shards, c)
		}
	}
	return own, others
}

// Sites is store.Neighbours's. A store that works alone knows no sites.
func (s *Store) Sites() store.Sites {
	if s.alone {
		return store.Sites{}
	}
	return s.Cluster.Sites()
}

// guests are the stores of the other sites, by site. A guest that is no site any more stays open until the end: calls
// may be under way.
type guests struct {
	mu    sync.Mutex
	known map[string]*Store // nobody changes a map
	left  []*Store
}

// othersOf are the other sites as the topology knows sites.
func othersOf(sites []Site) []topology.Site {
	others := make([]topology.Site, len(sites))
	for i, site := range sites {
		others[i] = topology.Site{Name: site.Name, Shards: membersOf(site.Shards)}
	}
	return others
}

func membersOf(shards []endpoint.Config) []topology.Member {
	given := make([]topology.Member, len(shards))
	for i, config := range shards {
		given[i] = topology.Member{Name: config.Name, URL: config.URL}
	}
	return given
}

func configsOf(members []topology.Member) []endpoint.Config {
	shards := make([]endpoint.Config, len(members))
	for i, m := range members {
		shards[i] = endpoint.Config{Name: m.Name, URL: m.URL}
	}
	return shards
}

// openGuest opens the store of another site as a guest: by the shards that the node was told, and otherwise by the
// shards that the topology names.
func (s *Store) openGuest(t *topology.Site) (*Store, error) {
	guest := s.options
	guest.Site, guest.Others, guest.guest, guest.Registerer = t.Name, nil, true, nil
	guest.Log = s.log.With("site", t.Name)
	guest.Shards = configsOf(t.Shards)
	if i := slices.IndexFunc(s.options.Others, func(o Site) bool { return o.Name == t.Name }); i >= 0 {
		guest.Shards = s.options.Others[i].Shards
	}
	return Open(context.Background(), guest)
}

// visit opens the stores of the sites that a topology names, and leaves the stores of other sites.
func (s *Store) visit(l *topology.Topology) {
	g := &s.guests
	if s.alone || s.guest { // the node itself knows the sites that a guest's topology names
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	now := make(map[string]*Store, len(l.Sites))
	for i := range l.Sites {
		site := &l.Sites[i]
		if known := g.known[site.Name]; known != nil {
			now[site.Name] = known
			continue
		}
		guest, err := s.openGuest(site)
		if err != nil {
			s.log.Error("the shards of another site can't be used", "site", site.Name, "err", err)
			continue
		}
		now[site.Name] = guest
	}
	for name, known := range g.known {
		if now[name] == nil {
			g.left = append(g.left, known)
		}
	}
	g.known = now
}

// warnOfSite warns if the node was told of another site than the topology has. The topology counts.
func (s *Store) warnOfSite(l *topology.Topology) {
	if told := s.options.Site; told != "" && l.Epoch > 0 && told != l.Site && !s.guest {
		s.log.Warn("CHRONOS_SITE is not the site that the shards have; the site of the shards counts; a cluster without sites gets a site by: chronos topology name-site",
			"told", told, "site", l.Site)
	}
}

func (g *guests) all() map[string]*Store {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.known
}

// Site is store.Store's.
func (s *Store) Site(name string) store.Store {
	if guest := s.guests.all()[name]; guest != nil {
		return guest
	}
	return nil
}

// Guest is the store of another site by the store's own type; nil for an unknown site.
func (s *Store) Guest(name string) *Store { return s.guests.all()[name] }

// Follow follows the topology of the site, and the topologies of the other sites, until ctx ends.
func (s *Store) Follow(ctx context.Context) {
	var all sync.WaitGroup
	defer all.Wait()
	all.Go(func() { s.Cluster.Follow(ctx) })
	following := map[*Store]func(){}
	for {
		changed, now := s.Changed(), s.guests.all()
		for guest, stop := range following {
			if !slices.Contains(slices.Collect(maps.Values(now)), guest) {
				stop()
				delete(following, guest)
			}
		}
		for _, guest := range now {
			if following[guest] == nil {
				guestCtx, stop := context.WithCancel(ctx)
				following[guest] = stop
				all.Go(func() {
					_ = guest.Join(guestCtx) // a guest only looks
					guest.Follow(guestCtx)
				})
			}
		}
		select {
		case <-ctx.Done():
			for _, stop := range following {
				stop()
			}
			return
		case <-changed:
		}
	}
}

// joinGuests looks for the topologies of the other sites, so that a node that starts knows the other sites at once.
func (s *Store) joinGuests(ctx context.Context) {
	bounded, cancel := context.WithTimeout(ctx, timing.TopologyPatience)
	defer cancel()
	scatter(slices.Collect(maps.Values(s.guests.all())), func(_ int, guest *Store) { _ = guest.Cluster.Join(bounded) })
}

// Join is topology.Cluster's, for the own site and the other sites.
func (s *Store) Join(ctx context.Context) error {
	if err := s.Cluster.Join(ctx); err != nil {
		return err
	}
	s.joinGuests(ctx)
	return nil
}

// Close ends all connections. Calls under way fail; no call may be made after Close.
func (s *Store) Close() error {
	var errs []error
	g := &s.guests
	g.mu.Lock()
	open := append(slices.Collect(maps.Values(g.known)), g.left...)
	g.known, g.left = nil, nil
	g.mu.Unlock()
	for _, guest := range open {
		errs = append(errs, guest.Close())
	}
	return errors.Join(append(errs, s.Cluster.Close())...)
}
