package redisstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"chronos/redisstore/endpoint"
	"chronos/redisstore/record"
	"chronos/redisstore/shard"
	"chronos/scheduler/store"
	"chronos/scheduler/storetest"
	"chronos/scheduler/verify/testkit"
)

// testRedis is a shard for tests, real or in this process.
type testRedis struct {
	network, address, url string

	client redis.UniversalClient
	// connect makes the store's clients; nil for clients of network and address.
	connect func(*redis.Options) redis.UniversalClient
	server  *testkit.Process     // nil for a Redis in this process
	mini    *miniredis.Miniredis // nil for a real Redis
	ahead   *atomic.Int64        // of the wall clock, ns; nil for a clock that doesn't go by itself
	moving  sync.Mutex           // held while the clock is moved: the clock never goes back
}

func newTestRedis(network, address, url string, mini *miniredis.Miniredis) *testRedis {
	return &testRedis{
		network: network, address: address, url: url, mini: mini,
		client: redis.NewClient(&redis.Options{Network: network, Addr: address, MaxRetries: -1, ReadTimeout: time.Minute}),
	}
}

// startRedis starts a redis-server that keeps nothing and ends with the test. The server listens on a socket in the
// test's folder; a long test name makes the path too long.
func startRedis(t testing.TB, env ...string) *testRedis {
	t.Helper()
	server := testkit.StartVolatileRedis(t, env...)
	r := newTestRedis(server.Network, server.Address, server.URL, nil)
	r.server = server.Process
	t.Cleanup(func() { _ = r.client.Close() })
	return r
}

// startMini starts a Redis in this process whose clock stands at an instant until the test moves the clock.
func startMini(t testing.TB, at time.Time) *testRedis {
	t.Helper()
	mini := miniredis.RunT(t)
	mini.SetTime(at)
	r := newTestRedis("tcp", mini.Addr(), "redis://"+mini.Addr(), mini)
	t.Cleanup(func() { _ = r.client.Close() })
	return r
}

// startSwift starts a Redis in this process whose clock goes, and can be moved on by the test. Stores learn a
// shard's clock from the shard's answers, and don't learn a clock that stands.
func startSwift(t testing.TB) *testRedis {
	t.Helper()
	r := startMini(t, time.Now())
	r.ahead = &atomic.Int64{}
	return r
}

// now is the shard's clock.
func (r *testRedis) now(t testing.TB) time.Time {
	t.Helper()
	if r.ahead != nil {
		return time.Now().Round(0).Add(time.Duration(r.ahead.Load()))
	}
	now, err := r.client.Time(context.Background()).Result()
	if err != nil {
		t.Fatalf("read the shard's clock: %v", err)
	}
	return now
}

// pass lets d pass on the shard's clock.
func (r *testRedis) pass(t testing.TB, d time.Duration) {
	t.Helper()
	switch end := r.now(t).Add(d); {
	case r.ahead != nil:
		r.ahead.Add(int64(d))
	case r.mini != nil:
		r.mini.SetTime(end)
	default:
		testkit.Eventually(t, d+10*time.Second, "the shard's clock", func() bool { return !r.now(t).Before(end) })
	}
}

// A testRedis whose clock goes is a hook that sets the clock before each command.

func (r *testRedis) moveOn() {
	r.moving.Lock()
	defer r.moving.Unlock()
	r.mini.SetTime(time.Now().Add(time.Duration(r.ahead.Load())))
}

func (r *testRedis) DialHook(next redis.DialHook) redis.DialHook { return next }

func (r *testRedis) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, command redis.Cmder) error {
		r.moveOn()
		return next(ctx, command)
	}
}

func (r *testRedis) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, commands []redis.Cmder) error {
		r.moveOn()
		return next(ctx, commands)
	}
}

// openStore opens a node's store on shards. The store is closed with the test.
func openStore(t testing.TB, node, lane string, shards ...*testRedis) *Store {
	t.Helper()
	options := Options{Node: node, Lane: lane, Log: slog.New(slog.DiscardHandler), Opened: -1, Deliveries: storetest.KeptDeliveries} // bePatient closes connections
	for i, r := range shards {
		options.Shards = append(options.Shards, endpoint.Config{Name: string(rune('a' + i)), URL: r.url})
	}
	s, err := Open(t.Context(), options)
	if err != nil {
		t.Fatalf("open store: %v", err)
	}
	s.patience, s.notAfter = time.Minute, time.Minute // however busy the machine is
	for i, r := range shards {
		r.bePatient(s.shards()[i])
	}
	if shards[0].connect != nil {
		s.learn(t, shards...) // the store's own clients may not trust the authority of the test
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close store: %v", err)
		}
	})
	return s
}

// bePatient gives the shard connections that do not time out on a busy machine.
func (r *testRedis) bePatient(sh *shard.Shard) {
	const patience = time.Minute
	// No call may be under way on the replaced connections, and no clock reading may arrive after a test has moved
	// the clock.
	sh.Wait()
	for _, client := range clientsOf(sh) {
		_ = (*client).Close()
		options := &redis.Options{
			Network: r.network, Addr: r.address, Protocol: 2, MaxRetries: -1, ContextTimeoutEnabled: true,
			ReadTimeout: patience, WriteTimeout: patience, PoolTimeout: patience,
			DisableIdentity: true, MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		}
		if r.connect != nil {
			*client = r.connect(options)
			warm(*client)
			continue
		}
		*client = redis.NewClient(options)
		if r.ahead != nil {
			(*client).AddHook(r)
		}
	}
}

// warm opens a connection to every instance, as a store does before the first call.
func warm(client redis.UniversalClient) {
	if cluster, is := client.(*redis.ClusterClient); is {
		_ = cluster.ForEachMaster(context.Background(), func(ctx context.Context, one *redis.Client) error { return one.Ping(ctx).Err() }) // the calls of the test find the error, too
		return
	}
	_ = client.Ping(context.Background())
}

func clientsOf(sh *shard.Shard) []*redis.UniversalClient {
	return []*redis.UniversalClient{&sh.Front, &sh.Poll, &sh.Fire, &sh.Ask}
}

func hook(sh *shard.Shard, h redis.Hook) {
	for _, client := range clientsOf(sh) {
		(*client).AddHook(h)
	}
}

// replied is a script's answer about a timer.
func replied(now time.Time, reply ...string) *shard.Item {
	return &shard.Item{NowUs: now.UnixMicro(), Reply: reply}
}

// learn tells a store the clocks of its shards. Otherwise the store would know only the shards' last answers, and a
// clock that a test moved would look like a stepped clock.
func (s *Store) learn(t testing.TB, shards ...*testRedis) {
	t.Helper()
	for i, r := range shards {
		clock := s.shards()[i].Clock
		clock.Learn(clock.Now(), r.now(t).UnixMicro())
	}
}

// spots are the timers' copies on the first shard.
func spots(keys ...string) []store.Spot {
	all := make([]store.Spot, len(keys))
	for i, key := range keys {
		all[i] = store.Spot{Shard: "a", Key: key}
	}
	return all
}

// keysOf makes n keys in one partition of one shard.
func (s *Store) keysOf(name string, partition, n int) []string {
	var keys []string
	for i := 0; len(keys) < n; i++ {
		key := fmt.Sprintf("key-%04d", i)
		if s.Rank(key)[0] == name && partitionOf(key) == partition {
			keys = append(keys, key)
		}
	}
	return keys
}

// deadLetters reads "key reason record" of each dead letter of a shard.
func (s *Store) deadLetters(t testing.TB, name string, shards ...*testRedis) (letters []storetest.DeadLetter) {
	t.Helper()
	at, _ := s.Placement().Index(name)
	r := shards[at]
	for p := range s.keys {
		found, err := r.client.ZRangeWithScores(t.Context(), s.keys[p].dead, 0, -1).Result()
		if err != nil {
			t.Fatalf("read the dead letters: %v", err)
		}
		for _, z := range found {
			letters = append(letters, readLetter(t, z))
		}
	}
	return letters
}

func readLetter(t testing.TB, z redis.Z) storetest.DeadLetter {
	t.Helper()
	text, _ := z.Member.(string)
	words := strings.SplitN(text, " ", 3)
	if len(words) < 3 {
		t.Fatalf("dead letter %q", text)
	}
	rec, err := record.Parse(words[2])
	key, keyErr := record.Unescape(words[0])
	reason, reasonErr := record.Unescape(words[1])
	if err := errors.Join(err, keyErr, reasonErr); err != nil {
		t.Fatalf("dead letter %q: %v", text, err)
	}
	return storetest.DeadLetter{At: time.UnixMilli(int64(z.Score)), Key: key, Reason: reason, State: rec.State}
}
