package redisstore

import (
	"context"
	"net/netip"
	"slices"
	"time"

	"chronos/redisstore/endpoint"
	"chronos/redisstore/shard"
	"chronos/redisstore/topology"
)

const (
	// learnInterval is how often a node asks where the Redis instances listen.
	learnInterval = 10 * time.Second
	// learnPatience bounds the questions to Redis.
	learnPatience = 2 * time.Second
)

// Addresses are where the Redis instances of the topology listen, Sentinels and the members of Clusters included, as
// far as this node knows. Literal addresses are known once the node adopts the topology, all further addresses once
// LearnAddresses has asked. An unspecified address stands for every address of this machine. The slice must not be
// changed.
func (s *Store) Addresses() []netip.AddrPort {
	known := s.book.Known()
	for _, guest := range s.guests.all() {
		known = slices.Concat(known, guest.Addresses())
	}
	return known
}

// KeepAddresses learns the addresses every ten seconds, and when the topology changes, until ctx ends.
func (s *Store) KeepAddresses(ctx context.Context) {
	ticker := time.NewTicker(learnInterval)
	defer ticker.Stop()
	for {
		changed := s.Changed()
		s.LearnAddresses(ctx)
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-ticker.C:
		}
	}
}

// LearnAddresses asks Sentinels and Clusters for their members, and the resolver for the addresses of host names.
// LearnAddresses takes four seconds at most. If a question fails, the earlier answer stands.
func (s *Store) LearnAddresses(ctx context.Context) {
	for _, guest := range s.guests.all() {
		guest.LearnAddresses(ctx)
	}
	bounded, cancel := context.WithTimeout(ctx, learnPatience)
	defer cancel()
	scatter(own(s.Connected()), func(_ int, sh *shard.Shard) { sh.LearnMembers(bounded) })
	now := s.Topology()
	s.book.Resolve(ctx, s.endpoints(&now))
	s.publish(&now)
}

// adopted takes in a topology.
func (s *Store) adopted(l *topology.Topology) {
	s.publish(l)
	s.visit(l)
	s.warnOfSite(l)
}

// publish has Addresses tell the known addresses of a topology's endpoints.
func (s *Store) publish(l *topology.Topology) {
	s.book.Publish(s.endpoints(l))
	s.metrics.keep(own(s.Connected()))
}

// endpoints are host:port of all Redis instances, by the URLs that this node uses and by the URLs of the topology;
// ":port" is an instance on this machine.
func (s *Store) endpoints(l *topology.Topology) (all []string) {
	for _, sh := range own(s.Connected()) {
		all = append(all, sh.Endpoints()...)
	}
	for _, m := range l.Shards {
		all = append(all, endpoint.Of(m.URL)...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}
