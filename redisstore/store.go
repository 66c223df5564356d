// Package redisstore keeps timers in sorted sets on several Redis instances, the shards:
// store.Store by the scripts of package lua. keys.go names the keys, write.go and lease.go carry out
// the methods, letters.go keeps the dead letters. Package record says what a timer looks like, package
// shard talks to one Redis, and package topology says which shards there are, and on which of them a
// timer belongs.
package redisstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"chronos/redisstore/endpoint"
	"chronos/redisstore/shard"
	"chronos/redisstore/topology"
	"chronos/scheduler/awake"
	"chronos/scheduler/store"
	"chronos/scheduler/timing"
)

// Options say what a Store works on.
type Options struct {
	Shards []endpoint.Config
	// Node is this process's id, fresh per start: it is in every lease token.
	Node string
	// Lane separates what different deliverers fire: "http" or "kafka".
	Lane string
	Log  *slog.Logger
	// Dial connects to shards that come later, as Config.Dial does to those of
	// the start; nil for the network.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Connections is how many times the usual number of connections a shard may have,
	// 0 for once. In bubbles of testing/synctest nobody must wait for one: go-redis
	// waits by timers that bubbles must not share, and does.
	Connections int
	// Opened is how many times the usual number are opened ahead, 0 for once, -1 for none. In the
	// bubbles a caller who finds no open connection opens one, which others wait for.
	Opened int
	// Awake is the clock that stands still while the process does, by which shards are
	// waited for; nil for one that never does.
	Awake *awake.Clock

	announced, drained time.Duration // the topology's, in tests
}

// Store is a store.Store. Make it with Open; Close ends it.
type Store struct {
	*topology.Cluster // where timers belong

	book     *endpoint.Book
	keys     [Partitions]partitionKeys
	calls    *callKeys
	lane     string
	node     string
	log      *slog.Logger
	awake    *awake.Clock
	patience time.Duration // of a flush, which nobody waits for any longer
	notAfter time.Duration // timing.CommandLife
	counter  atomic.Uint64
	rotation atomic.Uint64
	minted   atomic.Uint64 // keys
}

var _ store.Store = (*Store)(nil)

// Open connects to the shards. One that can't be reached stops nothing: it is
// looked at again when it is needed. One that is reached and unfit, since it
// evicts, is an error that says what to change.
func Open(ctx context.Context, o Options) (*Store, error) {
	if len(o.Shards) == 0 {
		return nil, errors.New("open store: no shards")
	}
	if o.Node == "" || strings.ContainsAny(o.Node, ": ") || o.Lane == "" {
		return nil, errors.New("open store: want a lane, and a node id without colon and space")
	}
	s := &Store{
		book: endpoint.NewBook(), keys: laneKeys(o.Lane), lane: o.Lane, node: o.Node, log: o.Log, awake: cmp.Or(o.Awake, awake.Always()), patience: timing.CommandLife, notAfter: timing.CommandLife,
	}
	s.calls = newCallKeys(&s.keys)
	s.minted.Store(rand.Uint64N(Partitions) * together) // nodes that start together go on in different partitions
	given := make([]topology.Member, len(o.Shards))
	for i, config := range o.Shards {
		given[i] = topology.Member{Name: config.Name, URL: config.URL}
	}
	var err error
	s.Cluster, err = topology.New(topology.Options{
		Given: given, Node: o.Node, Log: o.Log, Connect: s.connector(&o), Adopt: s.publish, Vacate: s.vacate, Swept: s.isSwept,
		Announced: o.announced, Drained: o.drained,
	})
	if err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	s.publish(new(s.Topology()))
	if err := s.firstLook(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("open store: %w", err), s.Close())
	}
	s.WarnOfTwins()
	return s, nil
}

// connector connects to a shard as the options say.
func (s *Store) connector(o *Options) func(m topology.Member) (topology.Shard, error) {
	options := shard.Options{Connections: max(o.Connections, 1), Opened: cmp.Or(o.Opened, 1), Awake: s.awake, Log: s.log, Flush: s.flushMerge}
	return func(m topology.Member) (topology.Shard, error) {
		config := endpoint.Config{Name: m.Name, URL: m.URL, Dial: o.Dial}
		if at := slices.IndexFunc(o.Shards, func(c endpoint.Config) bool { return c.Name == m.Name }); at >= 0 {
			config.Dial = o.Shards[at].Dial
		}
		sh, err := shard.New(config, options)
		if err != nil {
			return nil, err
		}
		return sh, nil
	}
}

// own are the shards as what they are.
func own(all []topology.Shard) []*shard.Shard {
	shards := make([]*shard.Shard, len(all))
	for i, sh := range all {
		shards[i], _ = sh.(*shard.Shard) // connector makes no others
	}
	return shards
}

// shards are those of the topology, in list order.
func (s *Store) shards() []*shard.Shard { return own(s.Placement().Shards) }

// firstLook verifies all shards side by side and reports the unfit ones.
func (s *Store) firstLook(ctx context.Context) error {
	shards := s.shards()
	faults := make([]error, len(shards))
	scatter(shards, func(i int, sh *shard.Shard) {
		err := sh.Ready(ctx)
		if _, unfit := errors.AsType[shard.UnfitError](err); unfit {
			faults[i] = err
		} else if err != nil {
			sh.Log.Warn("shard can't be reached; timers without a copy elsewhere wait until the shard is back", "err", err)
		}
	})
	return errors.Join(faults...)
}

func (s *Store) shard(name string) (*shard.Shard, error) {
	sh, err := s.Placement().Shard(name)
	if err != nil {
		return nil, err
	}
	found, _ := sh.(*shard.Shard) // connector makes no others
	return found, nil
}

// readyShard is a shard that has been verified.
func (s *Store) readyShard(ctx context.Context, name string) (*shard.Shard, error) {
	sh, err := s.shard(name)
	if err == nil {
		err = sh.Ready(ctx)
	}
	return sh, err
}
