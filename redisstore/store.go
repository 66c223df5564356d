// Package redisstore keeps timers in sorted sets on several Redis instances, the shards. The package implements
// store.Store with the scripts of package lua. keys.go names the keys, write.go and lease.go carry out the methods,
// letters.go keeps the dead letters. Package record encodes a timer, package shard talks to one Redis, and package
// topology says which shards exist, and on which shards a timer belongs.
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

	"github.com/prometheus/client_golang/prometheus"

	"chronos/redisstore/endpoint"
	"chronos/redisstore/shard"
	"chronos/redisstore/topology"
	"chronos/scheduler/awake"
	"chronos/scheduler/store"
	"chronos/scheduler/timing"
)

// Options configure a Store.
type Options struct {
	Shards []endpoint.Config
	// Node is this process's id, fresh per start. The id is in every lease token.
	Node string
	// Lane is the deliverer kind, "http" or "kafka". Timers of different kinds are kept apart.
	Lane string
	Log  *slog.Logger
	// Dial connects to shards that come later, as Config.Dial connects to the shards of the start; nil for the
	// network.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Connections is by what factor a shard may exceed the usual number of connections; 0 for factor 1. In bubbles
	// of testing/synctest nobody must wait for a connection: go-redis waits by timers that bubbles must not share,
	// and does.
	Connections int
	// Opened is by what factor more connections than usual are opened ahead; 0 for factor 1, -1 for no connections.
	// In the bubbles a caller that finds no open connection opens a connection, and further callers wait for the
	// connection.
	Opened int
	// Awake is the clock by which shards are waited for, and which stands still while the process does; nil for a
	// clock that never stands still.
	Awake *awake.Clock
	// Registerer takes the metrics of the store; nil for none.
	Registerer prometheus.Registerer
	// Deliveries is about how many entries the log of deliveries keeps for each partition of a shard; 0 for no log.
	Deliveries int

	// Site is the site of the shards, and Others are the other sites; "" and nil without sites.
	Site   string
	Others []Site
	// Alone keeps the timers of the lane at the own site.
	Alone bool

	guest              bool          // the shards are another site's than the node's
	announced, drained time.Duration // the topology's, in tests
}

// Store is a store.Store. Make a Store with Open; Close ends the Store.
type Store struct {
	*topology.Cluster // where timers belong

	options  Options
	book     *endpoint.Book
	keys     [Partitions]partitionKeys
	calls    *callKeys
	lane     string
	node     string
	logs     int // entries of the log of deliveries for each partition; 0 for no log
	log      *slog.Logger
	awake    *awake.Clock
	patience time.Duration // of a flush; afterwards nobody waits for the flush any more
	notAfter time.Duration // timing.CommandLife
	metrics  *metrics
	guests   guests
	alone    bool // knows no other sites
	guest    bool // another site's
	counter  atomic.Uint64
	rotation atomic.Uint64
	minted   atomic.Uint64 // keys
}

var _ store.Store = (*Store)(nil)

// Open connects to the shards. A shard that can't be reached stops nothing, and is looked at again at the next use.
// A reachable shard that evicts timers is unfit: Open fails with an error that says what to change.
func Open(ctx context.Context, o Options) (*Store, error) {
	if len(o.Shards) == 0 {
		return nil, errors.New("open store: no shards")
	}
	if o.Node == "" || strings.ContainsAny(o.Node, ": ") || o.Lane == "" {
		return nil, errors.New("open store: want a lane, and a node id without colon and space")
	}
	var err error
	s := &Store{
		options: o, book: endpoint.NewBook(), keys: laneKeys(o.Lane), lane: o.Lane, node: o.Node, alone: o.Alone, guest: o.guest, logs: o.Deliveries, log: o.Log, awake: cmp.Or(o.Awake, awake.Always()), patience: timing.CommandLife, notAfter: timing.CommandLife,
	}
	if s.metrics, err = newMetrics(o.Registerer); err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	s.calls = newCallKeys(&s.keys, s.logs > 0)
	s.minted.Store(rand.Uint64N(Partitions) * together) // nodes that start together go on in different partitions
	s.Cluster, err = topology.New(topology.Options{
		Given: membersOf(o.Shards), Site: o.Site, Others: othersOf(o.Others), Guest: o.guest, Node: o.Node, Log: o.Log, Connect: s.connector(&o), Adopt: s.adopted, Vacate: s.vacate, Swept: s.isSwept,
		Announced: o.announced, Drained: o.drained,
	})
	if err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	s.adopted(new(s.Topology()))
	if o.guest {
		return s, nil // the first calls look at the shards
	}
	if err := s.firstLook(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("open store: %w", err), s.Close())
	}
	s.WarnOfTwins()
	return s, nil
}

// connector connects to a shard as the options say.
func (s *Store) connector(o *Options) func(m topology.Member) (topology.Shard, error) {
	options := shard.Options{Far: o.guest, Connections: max(o.Connections, 1), Opened: cmp.Or(o.Opened, 1), Awake: s.awake, Log: s.log, Flush: s.flush, Durations: s.metrics.duration}
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

// own are the topology's shards by their own type.
func own(all []topology.Shard) []*shard.Shard {
	shards := make([]*shard.Shard, len(all))
	for i, sh := range all {
		shards[i], _ = sh.(*shard.Shard) // connector makes no other type
	}
	return shards
}

// shards are the shards of the topology, in list order.
func (s *Store) shards() []*shard.Shard { return own(s.Placement().Shards) }

// firstLook verifies all shards in parallel and reports the unfit shards.
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
	found, _ := sh.(*shard.Shard) // connector makes no other type
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
