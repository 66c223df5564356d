package redisstore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"chronos/redisstore/endpoint"
	"chronos/redisstore/topology"
	"chronos/scheduler/store"
	"chronos/scheduler/timer"
)

// AddShard is topology.Cluster's. The sweep of the own site fills the new shard, so the other sites need not.
func (s *Store) AddShard(ctx context.Context, m topology.Member, force bool) (topology.Topology, error) {
	if err := s.vetElsewhere(m); err != nil {
		return s.Topology(), err
	}
	next, err := s.Cluster.AddShard(ctx, m, force)
	if err == nil {
		s.noteFilled(ctx, m.Name)
	}
	return next, err
}

// noteFilled notes on a new shard from which sites the other shards have all timers. Without the note the other sites
// fill the shard needlessly. On the shards of a site that waits for a fill nothing may be noted.
func (s *Store) noteFilled(ctx context.Context, shard string) {
	from := s.Sites().All
	for _, sh := range s.Shards() {
		if has, err := s.filledFrom(ctx, sh); err == nil && sh != shard {
			from = slices.DeleteFunc(slices.Clone(from), func(site string) bool { return !slices.Contains(has, site) })
		}
	}
	if err := s.NoteFilled(ctx, shard, "", from); err != nil {
		s.log.Warn("a new shard could not be noted as filled; the other sites will fill the shard", "shard", shard, "err", err)
	}
}

// filledFrom are the sites from which a shard has all timers, without the notes of fills under way.
func (s *Store) filledFrom(ctx context.Context, shard string) ([]string, error) {
	noted, err := s.Filled(ctx, shard)
	return slices.DeleteFunc(noted, func(site string) bool { return !endpoint.ValidName(site) }), err
}

// AddShardTo adds a shard to another site. A site that is not known yet begins with the shard. Errors as AddShard.
func (s *Store) AddShardTo(ctx context.Context, site string, m topology.Member, force bool) error {
	t := s.Topology()
	if site == t.Site && site != "" {
		_, err := s.AddShard(ctx, m, force)
		return err
	}
	if err := s.vetElsewhere(m); err != nil {
		return err
	}
	if !t.Knows(site) {
		return s.addSite(ctx, topology.Site{Name: site, Shards: []topology.Member{m}}, force)
	}
	guest, err := s.reachedGuest(ctx, site)
	if err != nil {
		return t.Refuse("site %s can't be reached from here (%v); ask a node of that site", site, err)
	}
	if _, err = guest.Cluster.AddShard(ctx, m, force); err == nil {
		guest.noteFilled(ctx, m.Name)
	}
	return err
}

// vetElsewhere refuses a new shard of which a shard of another site has the name or the URL.
func (s *Store) vetElsewhere(m topology.Member) error {
	t := s.Topology()
	for name, guest := range s.guests.all() {
		if err := t.RefuseTaken(name, guest.Topology().Shards, m); err != nil {
			return err
		}
	}
	return nil
}

// reachedGuest is the store of another site that this node reaches.
func (s *Store) reachedGuest(ctx context.Context, site string) (*Store, error) {
	guest := s.Guest(site)
	if guest == nil {
		return nil, errors.New("this node can't use the shards of the site")
	}
	if guest.Writable() != nil {
		_ = guest.Cluster.Join(ctx) // the node may have heard of the site a moment ago
	}
	return guest, guest.Writable()
}

// NameSite names the site of a cluster without sites. First all shards note that they have all timers of the site: a site
// without such a note counts as emptied. Errors as AddShard.
func (s *Store) NameSite(ctx context.Context, name string) error {
	t := s.Topology()
	if err := t.RefuseName(name); err != nil {
		return err
	}
	for _, sh := range s.Shards() {
		if err := s.NoteFilled(ctx, sh, "", []string{name}); err != nil {
			return t.Refuse("shard %s can't be reached (%v), and has to be when the site is named; try again when it can", sh, err)
		}
	}
	_, err := s.Cluster.NameSite(ctx, name)
	return err
}

// addSite has all sites know a new site, the own site last: an operator may repeat an addition that was not finished.
func (s *Store) addSite(ctx context.Context, other topology.Site, force bool) error {
	t := s.Topology()
	if err := t.RefuseSite(other); err != nil {
		return err
	}
	telling, err := s.reachedGuests(ctx, other.Name)
	if err != nil {
		return t.Refuse("%v, and has to know the new site; try again when it can be reached", err)
	}
	telling = append(telling, s)
	if err := s.found(ctx, telling, other, force); err != nil {
		return err
	}
	for _, site := range telling {
		if l := site.Topology(); l.Knows(other.Name) {
			continue
		}
		for _, sh := range site.Shards() {
			if has, err := site.filledFrom(ctx, sh); err != nil || len(has) == 0 {
				continue // the new site, too, fills a shard that waits for a fill, or can't be reached
			}
			if err := site.NoteFilled(ctx, sh, "", []string{other.Name}); err != nil {
				s.log.Warn("the new site will fill a shard needlessly", "site", other.Name, "shard", sh, "err", err)
			}
		}
		if _, err := site.AddSite(ctx, other); err != nil {
			return err
		}
	}
	return nil
}

// reachedGuests are the stores of the other sites but one, in the order of their names. The error names a site that this
// node does not reach.
func (s *Store) reachedGuests(ctx context.Context, but string) (all []*Store, _ error) {
	for _, name := range slices.Sorted(maps.Keys(s.guests.all())) {
		if name == but {
			continue
		}
		guest, err := s.reachedGuest(ctx, name)
		if err != nil {
			return nil, fmt.Errorf("site %s can't be reached (%w)", name, err)
		}
		all = append(all, guest)
	}
	return all, nil
}

// found stores the first topology of a new site on the shard of the site, with the known sites. From then on all sites
// write to the new site and fill the new site, also while no node works there.
func (s *Store) found(ctx context.Context, known []*Store, other topology.Site, force bool) error {
	t, m := s.Topology(), other.Shards[0]
	o := s.options
	o.Site, o.Shards, o.Others, o.Alone, o.Registerer, o.Log = other.Name, configsOf(other.Shards), nil, true, nil, s.log.With("site", other.Name)
	for _, site := range known {
		l := site.Topology()
		o.Others = append(o.Others, Site{Name: l.Site, Shards: configsOf(l.Shards)})
	}
	founded, err := Open(ctx, o)
	if err != nil {
		return t.Refuse("the Redis of shard %s can't be used: %v", m.Name, err)
	}
	defer founded.Close() //nolint:errcheck // nothing waits for the connections
	if err := founded.vetFirst(ctx, &t, known, force); err != nil {
		return err
	}
	if err := founded.Join(ctx); err != nil {
		return err
	}
	for _, site := range othersOf(o.Others) {
		if l := founded.Topology(); l.Epoch == 0 || l.Knows(site.Name) {
			continue
		}
		if _, err := founded.AddSite(ctx, site); err != nil { // a node of the new site has begun with fewer sites
			return err
		}
	}
	if founded.Topology().Epoch == 0 {
		return t.Refuse("the Redis of shard %s did not take the topology of the site; try again", m.Name)
	}
	return nil
}

// vetFirst refuses the first shard of a new site if the Redis can't be reached, belongs to another cluster, has timers of an
// earlier site of the same name, or has a known shard.
func (s *Store) vetFirst(ctx context.Context, t *topology.Topology, known []*Store, force bool) error {
	sh := s.Placement().Shards[0]
	held, err := topology.HeldBy(ctx, sh)
	if err != nil {
		return t.Refuse("the Redis of shard %s can't be read (%v), and may belong to another chronos; try again when it can", sh.Name(), err)
	}
	for _, site := range known {
		if err := t.RefuseTwin(sh, site.Placement().Shards, force); err != nil {
			return err
		}
	}
	begunElsewhere := slices.ContainsFunc(known, func(site *Store) bool { l := site.Topology(); return l.Knows(s.options.Site) })
	if held == nil || begunElsewhere && held.Site == s.options.Site {
		return nil
	}
	if held.Site != s.options.Site {
		return t.Refuse("the Redis of shard %s belongs to another chronos, or did: empty it first, or give another database", sh.Name())
	}
	noted, err := s.Filled(ctx, sh.Name()) // notes of a fill that had begun, too, tell of a shard that had timers
	if err != nil {
		return t.Refuse("the Redis of shard %s can't be read (%v); try again when it can", sh.Name(), err)
	}
	if len(noted) > 0 {
		return t.Refuse("the Redis of shard %s has timers of an earlier site %s: empty it first, or give another database", sh.Name(), held.Site)
	}
	return nil
}

// RemoveSite has the own site and the other sites forget a site. Without force the site must be reached and out of use, and
// must have nothing that the other sites have not been told. Errors as AddShard.
func (s *Store) RemoveSite(ctx context.Context, name string, force bool) error {
	t := s.Topology()
	if err := t.RefuseRemoval(name); err != nil {
		return err
	}
	if !force {
		if err := s.vetRemoval(ctx, &t, name); err != nil {
			return err
		}
	}
	for _, other := range t.Sites {
		if other.Name == name {
			continue
		}
		guest, err := s.reachedGuest(ctx, other.Name)
		switch {
		case err != nil && !force:
			return t.Refuse("site %s can't be reached (%v), and has to forget site %s, too; try again when it can, or remove with force", other.Name, err, name)
		case err != nil:
			s.log.Warn("a site that can't be reached has not forgotten a removed site", "site", other.Name, "removed", name, "err", err)
			continue
		}
		if l := guest.Topology(); l.RefuseRemoval(name) != nil {
			continue // forgotten by an earlier removal that was not finished
		}
		if _, err := guest.Cluster.RemoveSite(ctx, name); err != nil {
			return err
		}
	}
	_, err := s.Cluster.RemoveSite(ctx, name)
	return err
}

// vetRemoval refuses to remove a site with nodes, a site out of reach, or a site with marks for other sites.
func (s *Store) vetRemoval(ctx context.Context, t *topology.Topology, name string) error {
	guest, err := s.reachedGuest(ctx, name)
	unreached := func(err error) error {
		return t.Refuse("site %s can't be reached (%v); if it is gone for good, remove it with force: the other sites call back the timers that they know, and what only site %s knew is lost", name, err, name)
	}
	if err != nil {
		return unreached(err)
	}
	for _, sh := range guest.Shards() {
		heard, err := guest.Beat(ctx, sh, store.Announcement{Clock: time.Now(), Format: timer.LastFormat, Guest: true})
		if err != nil {
			return unreached(err)
		}
		if len(heard.Nodes) > 0 {
			return t.Refuse("site %s is in use: %d of its nodes work on shard %s. Stop the nodes of the site for good, or they go on calling back timers that the other sites call back, too; then remove the site, and empty its Redis before another use",
				name, len(heard.Nodes), sh)
		}
		for _, to := range guest.Sites().All {
			if to == name {
				continue
			}
			oldest, err := guest.OldestMark(ctx, sh, to)
			if err != nil {
				return unreached(err)
			}
			if oldest >= 0 {
				return t.Refuse("site %s has changes of timers that site %s has not been told of; start a node of site %s, and stop the node when `chronos topology` there shows that site %s is not behind; or remove with force, and lose the changes",
					name, to, name, to)
			}
		}
	}
	return nil
}
