package redisstore

import (
	"crypto/tls"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"chronos/scheduler/storetest"
	"chronos/scheduler/verify/testkit"
)

// TestContractSentinel: the store keeps the contract on a Redis that is found by Sentinel.
func TestContractSentinel(t *testing.T) {
	t.Parallel()
	master := testkit.StartRedis(t)
	testkit.StartReplica(t, master)
	url := testkit.StartSentinels(t, 3, map[string]*testkit.Redis{"m": master})["m"]
	runMode(t, &testRedis{url: url, client: master.Admin, connect: func(o *redis.Options) redis.UniversalClient {
		options, err := redis.ParseFailoverURL("redis" + url[len("redis+sentinel"):])
		if err != nil {
			t.Fatal(err)
		}
		options.Protocol, options.MaxRetries, options.ContextTimeoutEnabled, options.DisableIdentity = o.Protocol, o.MaxRetries, true, true
		options.ReadTimeout, options.WriteTimeout, options.PoolTimeout = o.ReadTimeout, o.WriteTimeout, o.PoolTimeout
		return redis.NewFailoverClient(options)
	}})
}

// TestContractCluster: the store keeps the contract on a Redis Cluster, where a script has keys of one slot.
func TestContractCluster(t *testing.T) {
	t.Parallel()
	url, masters := testkit.StartCluster(t, 3)
	var addresses []string
	for _, m := range masters {
		addresses = append(addresses, m.Address)
	}
	connect := func(o *redis.Options) redis.UniversalClient {
		return redis.NewClusterClient(&redis.ClusterOptions{
			Addrs: slices.Clone(addresses), Protocol: o.Protocol, MaxRedirects: -1, MaxRetries: o.MaxRetries, ContextTimeoutEnabled: true, DisableIdentity: true,
			ReadTimeout: o.ReadTimeout, WriteTimeout: o.WriteTimeout, PoolTimeout: o.PoolTimeout, MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		})
	}
	client := connect(&redis.Options{Protocol: 2, MaxRetries: 3, ReadTimeout: time.Minute, WriteTimeout: time.Minute, PoolTimeout: time.Minute})
	t.Cleanup(func() { _ = client.Close() })
	runMode(t, &testRedis{url: url, client: client, connect: connect})
}

// TestContractTLS: the store keeps the contract on a Redis that speaks TLS alone.
func TestContractTLS(t *testing.T) {
	t.Parallel()
	authority := testkit.NewAuthority(t)
	server := testkit.StartTLSRedis(t, authority)
	runMode(t, &testRedis{url: server.URL, client: server.Admin, connect: func(o *redis.Options) redis.UniversalClient {
		o.Network, o.Addr, o.TLSConfig = "tcp", server.Address, &tls.Config{RootCAs: authority.Pool, MinVersion: tls.VersionTLS12}
		return redis.NewClient(o)
	}})
}

// runMode runs the suite of the contract. Each test has a deliverer kind to itself.
func runMode(t *testing.T, shard *testRedis) {
	t.Helper()
	var lanes atomic.Int64
	storetest.Run(t, func(t *testing.T) storetest.Fixture {
		return fixture(t, fmt.Sprint("lane", lanes.Add(1)), shard)
	})
}
