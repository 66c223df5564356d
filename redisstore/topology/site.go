package topology

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"chronos/redisstore/endpoint"
	"chronos/scheduler/store"
	"chronos/scheduler/timer"
)

// Site is another site, and the shards by which nodes find the topology of that site.
type Site struct {
	Name   string   `json:"name"`
	Shards []Member `json:"shards"`
}

// Sites is store.Neighbours's.
func (c *Cluster) Sites() store.Sites { return c.Placement().sites }

func sitesOf(l *Topology) store.Sites {
	if l.Site == "" {
		return store.Sites{}
	}
	sites := store.Sites{Own: l.Site, All: []string{l.Site}}
	for _, other := range l.Sites {
		sites.All = append(sites.All, other.Name)
	}
	slices.Sort(sites.All)
	return sites
}

// NameSite names the site of a cluster without sites. Results as AddShard.
func (c *Cluster) NameSite(ctx context.Context, name string) (Topology, error) {
	return c.change(ctx, func(now *Topology) (Topology, error) { return now.nameSite(name) })
}

// AddSite has timers stored in another site, too, and names the shards by which nodes find the other site. Results as
// AddShard.
func (c *Cluster) AddSite(ctx context.Context, other Site) (Topology, error) {
	return c.change(ctx, func(now *Topology) (Topology, error) { return now.addSite(other) })
}

// RemoveSite forgets another site. Results as AddShard.
func (c *Cluster) RemoveSite(ctx context.Context, name string) (Topology, error) {
	return c.change(ctx, func(now *Topology) (Topology, error) { return now.removeSite(name) })
}

func (l *Topology) nameSite(name string) (Topology, error) {
	switch {
	case !endpoint.ValidName(name):
		return *l, l.Refuse("a site's name is 1 to 64 of A-Z a-z 0-9 . _ - and begins with a letter or digit")
	case l.Site == name:
		return *l, l.Refuse("the site is named %s already", name)
	case l.Site != "":
		return *l, l.Refuse("the site is named %s; timers remember the name, and a site keeps its name", l.Site)
	}
	next := *l
	next.Site = name
	return next, nil
}

func (l *Topology) addSite(other Site) (Topology, error) {
	switch {
	case l.Site == "":
		return *l, l.Refuse("this cluster has no site yet; name it first: chronos topology name-site NAME")
	case !endpoint.ValidName(other.Name):
		return *l, l.Refuse("a site's name is 1 to 64 of A-Z a-z 0-9 . _ - and begins with a letter or digit")
	case other.Name == l.Site || l.site(other.Name) != nil:
		return *l, l.Refuse("there is a site %s", other.Name)
	case len(other.Shards) == 0:
		return *l, l.Refuse("name a shard of site %s and its URL", other.Name)
	}
	for _, m := range other.Shards {
		if _, err := endpoint.NewConnector(m.URL); err != nil || !endpoint.ValidName(m.Name) {
			return *l, l.Refuse("shard %s of site %s: want a name and a Redis URL", m.Name, other.Name)
		}
		if err := l.RefuseTaken(l.Site, l.Shards, m); err != nil {
			return *l, err
		}
		for _, known := range l.Sites {
			if err := l.RefuseTaken(known.Name, known.Shards, m); err != nil {
				return *l, err
			}
		}
	}
	next := *l
	next.Sites = append(slices.Clone(l.Sites), other)
	return next, nil
}

func (l *Topology) removeSite(name string) (Topology, error) {
	switch {
	case name == l.Site && l.Site != "":
		return *l, l.Refuse("site %s is this one; remove it through a node of another site", name)
	case len(l.Sites) == 0:
		return *l, l.Refuse("there is no site %s; this cluster has no other sites", name)
	case l.site(name) == nil:
		return *l, l.Refuse("there is no site %s; the other sites are %s", name, strings.Join(l.siteNames(), ", "))
	}
	next := *l
	next.Sites = slices.DeleteFunc(slices.Clone(l.Sites), func(s Site) bool { return s.Name == name })
	return next, nil
}

// RefuseTaken is the error that a new shard has the name or the URL of a shard of a site; nil if no shard of the site has.
func (l *Topology) RefuseTaken(site string, shards []Member, m Member) error {
	for _, taken := range shards {
		switch {
		case taken.Name == m.Name:
			return l.Refuse("site %s has a shard %s; choose another name: no two sites have a shard of one name", site, m.Name)
		case m.URL != "" && endpoint.SamePlace(taken.URL, m.URL):
			return l.Refuse("shard %s of site %s has this URL already; give another Redis", taken.Name, site)
		}
	}
	return nil
}

// RefuseSite is the error that another site can't be added, nil if the site can be added.
func (l *Topology) RefuseSite(other Site) error {
	_, err := l.addSite(other)
	return err
}

// RefuseName is the error that the site can't have the name, nil if the site can.
func (l *Topology) RefuseName(name string) error {
	_, err := l.nameSite(name)
	return err
}

// RefuseRemoval is the error that a site can't be removed, nil if the site can be removed.
func (l *Topology) RefuseRemoval(name string) error {
	_, err := l.removeSite(name)
	return err
}

// Knows reports whether a site is this one or one of the other sites.
func (l *Topology) Knows(site string) bool { return site == l.Site || l.site(site) != nil }

// site is the named other site; nil for no such site.
func (l *Topology) site(name string) *Site {
	if i := slices.IndexFunc(l.Sites, func(s Site) bool { return s.Name == name }); i >= 0 {
		return &l.Sites[i]
	}
	return nil
}

func (l *Topology) siteNames() []string {
	names := make([]string, len(l.Sites))
	for i := range l.Sites {
		names[i] = l.Sites[i].Name
	}
	return names
}

// checkSites is the fault of a topology's sites.
func (l *Topology) checkSites() error {
	seen := map[string]bool{l.Site: true}
	if l.Site != "" && !endpoint.ValidName(l.Site) || l.Site == "" && len(l.Sites) > 0 {
		return fmt.Errorf("%w: site %q", errTopology, l.Site)
	}
	for _, s := range l.Sites {
		if seen[s.Name] || !endpoint.ValidName(s.Name) || len(s.Shards) == 0 {
			return fmt.Errorf("%w: site %q", errTopology, s.Name)
		}
		seen[s.Name] = true
		for _, m := range s.Shards {
			if _, err := endpoint.NewConnector(m.URL); err != nil || !endpoint.ValidName(m.Name) {
				return fmt.Errorf("%w: shard %q of site %s", errTopology, m.Name, s.Name)
			}
		}
	}
	return nil
}

// unfound is why a guest must not write: the guest has found no topology yet.
func (c *Cluster) unfound() error {
	if !c.o.Guest || c.Topology().Epoch > 0 {
		return nil
	}
	return fmt.Errorf("%w: site %s has no topology yet, or can't be reached", timer.ErrUnavailable, c.o.Site)
}
