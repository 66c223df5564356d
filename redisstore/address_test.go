package redisstore

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"chronos/internal/testkit"
	"chronos/redisstore/endpoint"
)

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
		return slices.Contains(other.Shards(), "c")
	})
	wantAddresses(t, other, of("a", "b", "c")...)
}

// A Redis that is reached by a socket, and listens on a port too, stands on every
// address of this machine.
func TestAddressesOfARedisOnASocket(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "s")
	p := startProcess(t, "--unixsocket", socket)
	s := openShards(t, io.Discard, endpoint.Config{Name: "a", URL: "unix://" + socket})
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
	s := openShards(t, io.Discard, endpoint.Config{Name: "a", URL: "redis+cluster://" + all[0].addr()})
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
	s := openShards(t, io.Discard, endpoint.Config{Name: "a", URL: "redis+sentinel://" + sentinel.addr() + "?master_name=group"})
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
