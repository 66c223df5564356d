package redisstore

import (
	"context"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// learnInterval is how often a node asks where the Redis instances listen.
	learnInterval = 10 * time.Second
	// learnPatience bounds the questions to Redis, and those to the resolver.
	learnPatience = 2 * time.Second
	// lookupsAtOnce bounds how many host names are looked up at the same time.
	lookupsAtOnce = 8
	// addressLife is how long an address is remembered that the resolver no longer
	// gives: a resolver may give some of a name's addresses at a time.
	addressLife = 10 * time.Minute
	// maxAddresses bounds the addresses of one name.
	maxAddresses = 256
)

// addressBook knows where the Redis instances of the topology listen. It is safe for
// concurrent use.
type addressBook struct {
	lookUp func(ctx context.Context, network, host string) ([]netip.Addr, error)
	known  atomic.Pointer[[]netip.AddrPort]

	mu    sync.Mutex
	names map[string]map[netip.Addr]time.Time // addresses of host names, and when each was given last
}

// Addresses are where the Redis instances of the topology listen, Sentinels and the
// members of Clusters included, as far as this node knows: literal addresses from the
// moment the node adopts the topology, the others once LearnAddresses has asked. An
// unspecified address stands for every address of this machine. The slice must not be
// changed.
func (s *Store) Addresses() []netip.AddrPort { return *s.book.known.Load() }

// KeepAddresses learns the addresses every ten seconds, and when the topology changes,
// until ctx ends.
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

// LearnAddresses asks Sentinels and Clusters for their members, and the resolver for
// the addresses of host names; it takes four seconds at most. Where a question fails,
// the earlier answer stands.
func (s *Store) LearnAddresses(ctx context.Context) {
	bounded, cancel := context.WithTimeout(ctx, learnPatience)
	defer cancel()
	var wg sync.WaitGroup
	for _, sh := range s.everyShard() {
		wg.Go(func() { sh.learnMembers(bounded) })
	}
	wg.Wait()
	topology := s.Topology()
	s.book.resolve(ctx, s.endpoints(&topology))
	s.publish(&topology)
}

// endpoints are host:port of all Redis instances, by the URLs that this node uses and
// by those of the topology; ":port" is one on this machine.
func (s *Store) endpoints(l *Topology) (all []string) {
	for _, sh := range s.everyShard() {
		all = append(all, urlEndpoints(sh.url)...)
		all = append(all, sh.memberEndpoints()...)
	}
	for _, m := range l.Shards {
		all = append(all, urlEndpoints(m.URL)...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// publish has Addresses tell what is known of a topology's endpoints.
func (s *Store) publish(l *Topology) {
	var known []netip.AddrPort
	for _, endpoint := range s.endpoints(l) {
		host, port, ok := splitEndpoint(endpoint)
		if !ok {
			continue
		}
		for _, addr := range s.book.addressesOf(host) {
			known = append(known, netip.AddrPortFrom(addr, port))
		}
	}
	s.book.known.Store(&known)
}

func splitEndpoint(endpoint string) (host string, port uint16, ok bool) {
	host, text, err := net.SplitHostPort(endpoint)
	if err != nil {
		return "", 0, false
	}
	number, err := strconv.ParseUint(text, 10, 16)
	return host, uint16(number), err == nil && number > 0
}

// literalAddresses are those of a host that needs no lookup.
func literalAddresses(host string) []netip.Addr {
	if host == "" {
		return []netip.Addr{netip.IPv6Unspecified()}
	}
	if isLocalhost(host) {
		return []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()}
	}
	if addr, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{addr}
	}
	return nil
}

func isLocalhost(host string) bool {
	return strings.EqualFold(strings.TrimSuffix(host, "."), "localhost")
}

func (b *addressBook) addressesOf(host string) []netip.Addr {
	all := literalAddresses(host)
	b.mu.Lock()
	defer b.mu.Unlock()
	for addr := range b.names[host] {
		all = append(all, addr)
	}
	return all
}

// resolve looks up the host names among the endpoints, and forgets all other names.
func (b *addressBook) resolve(ctx context.Context, endpoints []string) {
	ctx, cancel := context.WithTimeout(ctx, learnPatience)
	defer cancel()
	wanted := map[string]bool{}
	for _, endpoint := range endpoints {
		if host, _, ok := splitEndpoint(endpoint); ok && (literalAddresses(host) == nil || isLocalhost(host)) {
			wanted[host] = true
		}
	}
	places := make(chan struct{}, lookupsAtOnce)
	var wg sync.WaitGroup
	for host := range wanted {
		places <- struct{}{}
		wg.Go(func() {
			defer func() { <-places }()
			if found, err := b.lookUp(ctx, "ip", host); err == nil {
				b.note(host, found, time.Now())
			}
		})
	}
	wg.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	for host := range b.names {
		if !wanted[host] {
			delete(b.names, host)
		}
	}
}

// note adds what a lookup found, and forgets what no lookup has found for long.
func (b *addressBook) note(host string, found []netip.Addr, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	known := b.names[host]
	if known == nil {
		known = map[netip.Addr]time.Time{}
		b.names[host] = known
	}
	for addr, at := range known {
		if now.Sub(at) > addressLife || len(known) > maxAddresses {
			delete(known, addr)
		}
	}
	for _, addr := range found {
		known[addr.Unmap()] = now
	}
}

// urlEndpoints are host:port of the URL of a shard, none of a unix socket.
func urlEndpoints(raw string) []string {
	u, err := bounded(raw)
	if err != nil || u.Scheme == "unix" {
		return nil
	}
	base, kind, _ := strings.Cut(u.Scheme, "+")
	u.Scheme = base
	switch kind {
	case "sentinel":
		if o, err := redis.ParseFailoverURL(u.String()); err == nil {
			return o.SentinelAddrs
		}
	case "cluster":
		if o, err := redis.ParseClusterURL(u.String()); err == nil {
			return o.Addrs
		}
	default:
		if o, err := redis.ParseURL(u.String()); err == nil {
			return []string{o.Addr}
		}
	}
	return nil
}

// memberEndpoints are host:port of what learnMembers found; of a Redis that is reached
// by a unix socket, the port on which that Redis listens, too.
func (s *shard) memberEndpoints() []string {
	var all []string
	if members := s.members.Load(); members != nil {
		all = slices.Clone(*members)
	}
	if port := s.tcpPort.Load(); port != nil && strings.HasPrefix(s.url, "unix:") {
		all = append(all, ":"+*port)
	}
	return all
}

// learnMembers asks a Sentinel or a Cluster who belongs to it.
func (s *shard) learnMembers(ctx context.Context) {
	u, err := url.Parse(s.url)
	if err != nil {
		return
	}
	base, kind, _ := strings.Cut(u.Scheme, "+")
	var members []string
	switch cluster, isCluster := s.poll.(*redis.ClusterClient); {
	case isCluster:
		members = clusterMembers(ctx, cluster)
	case kind == "sentinel":
		if u, err = bounded(s.url); err == nil {
			u.Scheme = base
			members = sentinelMembers(ctx, u.String())
		}
	}
	if len(members) > 0 {
		s.members.Store(&members)
	}
}

func clusterMembers(ctx context.Context, cluster *redis.ClusterClient) (members []string) {
	var mu sync.Mutex
	err := cluster.ForEachShard(ctx, func(_ context.Context, node *redis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		members = append(members, node.Options().Addr)
		return nil
	})
	if err != nil {
		return nil
	}
	return members
}

// sentinelMembers are what the first Sentinel that answers knows: the master, its
// replicas and the other Sentinels.
func sentinelMembers(ctx context.Context, raw string) []string {
	o, err := redis.ParseFailoverURL(raw)
	if err != nil {
		return nil
	}
	for _, addr := range o.SentinelAddrs {
		client := redis.NewSentinelClient(&redis.Options{
			Addr: addr, Username: o.SentinelUsername, Password: o.SentinelPassword, TLSConfig: o.TLSConfig, Protocol: 2,
			DialTimeout: o.DialTimeout, ReadTimeout: o.ReadTimeout, WriteTimeout: o.WriteTimeout,
			MaxRetries: -1, DialerRetries: 1, PoolSize: 1, ContextTimeoutEnabled: true, DisableIdentity: true,
		})
		members, err := askSentinel(ctx, client, o.MasterName)
		_ = client.Close() // the answer is what matters
		if err == nil {
			return members
		}
	}
	return nil
}

func askSentinel(ctx context.Context, sentinel *redis.SentinelClient, group string) ([]string, error) {
	master, err := sentinel.Master(ctx, group).Result()
	if err != nil {
		return nil, err
	}
	replicas, err := sentinel.Replicas(ctx, group).Result()
	if err != nil {
		return nil, err
	}
	others, err := sentinel.Sentinels(ctx, group).Result()
	if err != nil {
		return nil, err
	}
	var members []string
	for _, member := range slices.Concat([]map[string]string{master}, replicas, others) {
		members = append(members, net.JoinHostPort(member["ip"], member["port"]))
	}
	return members, nil
}
