package redisstore

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"chronos/redisstore/endpoint"
	"chronos/redisstore/topology"
	"chronos/scheduler/verify/testkit"
)

// addresses are the addresses of the store, sorted.
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

// The address of an added Redis counts from the moment the topology does, on every node that follows.
func TestAddressesFollowTheTopology(t *testing.T) {
	t.Parallel()
	l := storesOn(t, "a", "b", "c")
	first, other := l.node("a", "b"), l.node("a", "b")
	of := func(names ...string) (all []string) {
		for _, name := range names {
			all = append(all, l.redis[name].Address)
		}
		return all
	}
	wantAddresses(t, first, of("a", "b")...)
	if _, err := first.AddShard(t.Context(), topology.Member{Name: "c", URL: l.redis["c"].URL}, false); err != nil {
		t.Fatal(err)
	}
	wantAddresses(t, first, of("a", "b", "c")...)
	testkit.Eventually(t, testkit.Soon, "the other node follows", func() bool {
		return slices.Contains(other.Shards(), "c")
	})
	wantAddresses(t, other, of("a", "b", "c")...)
}

// A Redis behind a socket that also listens on a port stands on every address of this machine.
func TestAddressesOfARedisOnASocket(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "s")
	p := testkit.StartRedis(t, "--unixsocket", socket)
	s := openShards(t, io.Discard, endpoint.Config{Name: "a", URL: "unix://" + socket})
	s.LearnAddresses(t.Context())
	wantAddresses(t, s, "[::]:"+p.Port)
}

// All members of a Cluster count, whichever member the URL names.
func TestAddressesOfAClustersMembers(t *testing.T) {
	t.Parallel()
	all := []*testkit.Redis{testkit.StartRedis(t, "--cluster-enabled", "yes"), testkit.StartRedis(t, "--cluster-enabled", "yes")}
	all[0].Do("CLUSTER", "ADDSLOTSRANGE", 0, 8191)
	all[1].Do("CLUSTER", "ADDSLOTSRANGE", 8192, 16383)
	all[0].Do("CLUSTER", "MEET", "127.0.0.1", all[1].Port)
	for _, p := range all {
		testkit.Eventually(t, testkit.Soon, "the cluster to be whole", func() bool {
			info, _ := p.Admin.ClusterInfo(t.Context()).Result()
			return strings.Contains(info, "cluster_state:ok") && strings.Contains(info, "cluster_known_nodes:2")
		})
	}
	s := openShards(t, io.Discard, endpoint.Config{Name: "a", URL: "redis+cluster://" + all[0].Address})
	s.LearnAddresses(t.Context())
	wantAddresses(t, s, all[0].Address, all[1].Address)
}

// The master of a Sentinel group counts. The replicas count, too, since a replica may be the next master, and so do
// the Sentinels.
func TestAddressesOfASentinelGroup(t *testing.T) {
	t.Parallel()
	master := testkit.StartRedis(t)
	replica := testkit.StartRedis(t, "--replicaof", "127.0.0.1 "+master.Port)
	sentinel := startSentinel(t, master)
	testkit.Eventually(t, testkit.Soon, "the Sentinel to know the replica", func() bool {
		text, _ := sentinel.Admin.Info(t.Context(), "sentinel").Result()
		return strings.Contains(text, "slaves=1")
	})
	s := openShards(t, io.Discard, endpoint.Config{Name: "a", URL: "redis+sentinel://" + sentinel.Address + "?master_name=group"})
	s.LearnAddresses(t.Context())
	wantAddresses(t, s, sentinel.Address, master.Address, replica.Address)
	sentinel.Kill()
	s.LearnAddresses(t.Context()) // the Sentinel doesn't answer: the known addresses stand
	wantAddresses(t, s, sentinel.Address, master.Address, replica.Address)
}

// startSentinel starts a Sentinel of a group with the master.
func startSentinel(t *testing.T, master *testkit.Redis) *testkit.Redis {
	t.Helper()
	r := testkit.NewRedis(t)
	config := filepath.Join(r.Dir, "sentinel.conf")
	text := "port " + r.Port + "\nbind 127.0.0.1\nsentinel monitor group 127.0.0.1 " + master.Port + " 1\n"
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	r.Args = []string{config, "--sentinel"}
	r.Start()
	return r
}
