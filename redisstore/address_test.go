package redisstore

import (
	"context"
	"errors"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"chronos/internal/testkit"
)

// hosts is a resolver that knows the given names.
func hosts(known map[string][]string) func(context.Context, string, string) ([]netip.Addr, error) {
	return func(_ context.Context, _, host string) (found []netip.Addr, err error) {
		for _, text := range known[host] {
			found = append(found, netip.MustParseAddr(text))
		}
		if found == nil {
			err = errors.New("no such host")
		}
		return found, err
	}
}

// addresses are those of the store, sorted.
func addresses(s *Store) []string {
	var all []string
	for _, at := range s.Addresses() {
		all = append(all, at.String())
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func wantAddresses(t *testing.T, s *Store, want ...string) {
	t.Helper()
	slices.Sort(want)
	if got := addresses(s); !slices.Equal(got, want) {
		t.Errorf("the addresses are %v, want %v", got, want)
	}
}

func TestAddressesOfURLs(t *testing.T) {
	for raw, want := range map[string][]string{
		"redis://10.0.0.1:7000/0":                                    {"10.0.0.1:7000"},
		"redis://10.0.0.1":                                           {"10.0.0.1:6379"},
		"redis://:secret@[::ffff:10.0.0.1]:6379/3":                   {"[::ffff:10.0.0.1]:6379"},
		"rediss://user:secret@[fd00::1]:6390":                        {"[fd00::1]:6390"},
		"redis://:6380":                                              {"127.0.0.1:6380", "[::1]:6380"},
		"redis://LocalHost.:6380":                                    {"127.0.0.1:6380", "[::1]:6380"},
		"unix:///run/redis.sock":                                     nil,
		"redis+cluster://10.0.0.1:7000?addr=10.0.0.2:7001&addr=a:1":  {"10.0.0.1:7000", "10.0.0.2:7001"},
		"redis+sentinel://10.0.0.1?master_name=m&addr=10.0.0.2:7001": {"10.0.0.1:6379", "10.0.0.2:7001"},
		"redis://redis.test:6379":                                    nil, // until it is looked up
	} {
		s := &Store{}
		s.current.Store(newPlacement(Topology{}, nil))
		s.publish(&Topology{Shards: []Member{{Name: "a", URL: raw}}})
		wantAddresses(t, s, want...)
	}
}

// A host name stands for all addresses that the resolver gave lately; where the
// resolver fails, for those that are known.
func TestAddressesOfHostNames(t *testing.T) {
	t.Parallel()
	s := openShards(t, io.Discard, ShardConfig{Name: "a", URL: "redis://redis.test:1"})
	wantAddresses(t, s)
	for _, step := range []struct {
		known map[string][]string
		want  []string
	}{
		{map[string][]string{"redis.test": {"10.0.0.1", "fd00::1"}}, []string{"10.0.0.1:1", "[fd00::1]:1"}},
		{map[string][]string{"redis.test": {"::ffff:10.0.0.2"}}, []string{"10.0.0.1:1", "10.0.0.2:1", "[fd00::1]:1"}},
		{nil, []string{"10.0.0.1:1", "10.0.0.2:1", "[fd00::1]:1"}},
	} {
		s.book.lookUp = hosts(step.known)
		s.LearnAddresses(t.Context())
		wantAddresses(t, s, step.want...)
	}
	s.book.note("redis.test", []netip.Addr{netip.MustParseAddr("10.0.0.3")}, time.Now().Add(addressLife+time.Minute))
	topology := s.Topology()
	s.publish(&topology)
	wantAddresses(t, s, "10.0.0.3:1")
}

// However many addresses a name has in the course of time, few are remembered.
func TestAddressesAreBounded(t *testing.T) {
	b := &addressBook{names: map[string]map[netip.Addr]time.Time{}}
	addr := netip.MustParseAddr("10.0.0.0")
	for range 10 * maxAddresses {
		addr = addr.Next()
		b.note("redis.test", []netip.Addr{addr}, time.Now())
	}
	all := b.addressesOf("redis.test")
	if len(all) > maxAddresses+1 || !slices.Contains(all, addr) {
		t.Errorf("%d addresses are remembered, the latest among them: %t", len(all), slices.Contains(all, addr))
	}
	b.lookUp = hosts(map[string][]string{"other.test": {"10.0.0.1"}})
	b.resolve(t.Context(), []string{"other.test:1"})
	if len(b.addressesOf("redis.test")) != 0 || len(b.addressesOf("other.test")) != 1 {
		t.Errorf("names after the topology has changed: %v", b.names)
	}
}

// The address of a Redis that is added counts from the moment the topology does, on
// each node that follows.
func TestAddressesFollowTheTopology(t *testing.T) {
	t.Parallel()
	l := layOut(t, "a", "b", "c")
	first, other := l.node("a", "b"), l.node("a", "b")
	of := func(names ...string) (all []string) {
		for _, name := range names {
			all = append(all, l.redis[name].addr())
		}
		return all
	}
	wantAddresses(t, first, of("a", "b")...)
	if _, err := first.AddShard(t.Context(), Member{Name: "c", URL: l.redis["c"].shard("c").URL}, false); err != nil {
		t.Fatal(err)
	}
	wantAddresses(t, first, of("a", "b", "c")...)
	await(t, soon, "the other node follows", func() bool {
		_, member := other.current.Load().topology.member("c")
		return member
	})
	wantAddresses(t, other, of("a", "b", "c")...)
}

// A Redis that is reached by a socket, and listens on a port too, stands on every
// address of this machine.
func TestAddressesOfARedisOnASocket(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "s")
	p := startProcess(t, "--unixsocket", socket)
	s := openShards(t, io.Discard, ShardConfig{Name: "a", URL: "unix://" + socket})
	s.LearnAddresses(t.Context())
	wantAddresses(t, s, "[::]:"+p.port)
}

// The members of a Cluster count, whichever of them the URL names.
func TestAddressesOfAClustersMembers(t *testing.T) {
	t.Parallel()
	all := []*process{startProcess(t, "--cluster-enabled", "yes"), startProcess(t, "--cluster-enabled", "yes")}
	all[0].do("CLUSTER", "ADDSLOTSRANGE", 0, 8191)
	all[1].do("CLUSTER", "ADDSLOTSRANGE", 8192, 16383)
	all[0].do("CLUSTER", "MEET", "127.0.0.1", all[1].port)
	for _, p := range all {
		await(t, soon, "the cluster to be whole", func() bool {
			info, _ := p.admin.ClusterInfo(t.Context()).Result()
			return strings.Contains(info, "cluster_state:ok") && strings.Contains(info, "cluster_known_nodes:2")
		})
	}
	s := openShards(t, io.Discard, ShardConfig{Name: "a", URL: "redis+cluster://" + all[0].addr()})
	s.LearnAddresses(t.Context())
	wantAddresses(t, s, all[0].addr(), all[1].addr())
}

// The master of a Sentinel group counts, and so do the replicas, which may be the next
// master, and the Sentinels.
func TestAddressesOfASentinelGroup(t *testing.T) {
	t.Parallel()
	master := startProcess(t)
	replica := startProcess(t, "--replicaof", "127.0.0.1 "+master.port)
	sentinel := startSentinel(t, master)
	await(t, soon, "the Sentinel to know the replica", func() bool {
		text, _ := sentinel.admin.Info(t.Context(), "sentinel").Result()
		return strings.Contains(text, "slaves=1")
	})
	s := openShards(t, io.Discard, ShardConfig{Name: "a", URL: "redis+sentinel://" + sentinel.addr() + "?master_name=group"})
	s.LearnAddresses(t.Context())
	wantAddresses(t, s, sentinel.addr(), master.addr(), replica.addr())
	sentinel.kill()
	s.LearnAddresses(t.Context()) // the Sentinel doesn't answer: what is known stands
	wantAddresses(t, s, sentinel.addr(), master.addr(), replica.addr())
}

// startSentinel starts a Sentinel of a group with the master.
func startSentinel(t *testing.T, master *process) *process {
	t.Helper()
	p := &process{t: t, port: testkit.FreePort(t)}
	config := filepath.Join(t.TempDir(), "sentinel.conf")
	text := "port " + p.port + "\nbind 127.0.0.1\nsentinel monitor group 127.0.0.1 " + master.port + " 1\n"
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p.args = []string{config, "--sentinel"}
	p.admin = redis.NewClient(&redis.Options{Addr: p.addr(), DisableIdentity: true, Protocol: 2})
	t.Cleanup(func() {
		p.kill()
		_ = p.admin.Close()
	})
	p.start()
	return p
}
