package redisstore

import (
	"context"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"chronos/redisstore/endpoint"
	"chronos/redisstore/shard"
	"chronos/scheduler/awake"
	"chronos/scheduler/store"
)

// Checked is a Redis instance as Check has found the instance.
type Checked struct {
	Name  string
	URL   string // without secrets
	Facts store.ShardFacts
	Err   error // why the instance could not be asked; nil if the instance has answered
}

// Check asks Redis instances what they say of themselves, all at once, and changes nothing. The errors show
// no secrets.
func Check(ctx context.Context, shards []endpoint.Config) []Checked {
	checked := make([]Checked, len(shards))
	clock := awake.Start()
	defer clock.Stop()
	var all sync.WaitGroup
	for i, config := range shards {
		checked[i] = Checked{Name: config.Name, URL: endpoint.WithoutSecrets(config.URL)}
		all.Go(func() { checked[i].Facts, checked[i].Err = ask(ctx, config, clock) })
	}
	all.Wait()
	return checked
}

// checkPatience is how long an instance has to answer.
const checkPatience = 5 * time.Second

func ask(ctx context.Context, config endpoint.Config, clock *awake.Clock) (facts store.ShardFacts, err error) {
	connect, err := config.Connector()
	if err != nil {
		return facts, err
	}
	ctx, cancel := context.WithTimeout(ctx, checkPatience)
	defer cancel()
	client := connect(1, func(context.Context, *redis.Conn) error { return nil }, clock)
	defer client.Close() //nolint:errcheck // nothing was written
	return shard.FactsOf(ctx, client)
}
