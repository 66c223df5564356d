package shard

import (
	"context"
	"strings"

	"chronos/redisstore/endpoint"
)

// Endpoints are host:port of the shard by its URL, and of the members that LearnMembers found. For a Redis behind a
// unix socket, Endpoints has the port on which the Redis listens, too.
func (s *Shard) Endpoints() []string {
	all := endpoint.Of(s.url)
	if members := s.members.Load(); members != nil {
		all = append(all, *members...)
	}
	if port := s.tcpPort.Load(); port != nil && strings.HasPrefix(s.url, "unix:") {
		all = append(all, ":"+*port)
	}
	return all
}

// LearnMembers asks a Sentinel or a Cluster for its members.
func (s *Shard) LearnMembers(ctx context.Context) {
	if members := endpoint.Members(ctx, s.url, s.Poll); len(members) > 0 {
		s.members.Store(&members)
	}
}
