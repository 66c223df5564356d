package endpoint

import (
	"context"
	"net"
	"slices"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

// Of are the endpoints that the URL of a shard names, as host:port; no endpoint for a unix socket.
func Of(raw string) []string {
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

// Members asks the Sentinels or the Cluster of a URL for the endpoints of all members. The result is empty for a
// single instance, and without an answer.
func Members(ctx context.Context, raw string, client redis.UniversalClient) []string {
	if cluster, is := client.(*redis.ClusterClient); is {
		return clusterMembers(ctx, cluster)
	}
	u, err := bounded(raw)
	if err != nil {
		return nil
	}
	base, kind, _ := strings.Cut(u.Scheme, "+")
	if kind != "sentinel" {
		return nil
	}
	u.Scheme = base
	return sentinelMembers(ctx, u.String())
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

// sentinelMembers are the members that the first answering Sentinel knows: the master, the replicas and all
// Sentinels.
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
