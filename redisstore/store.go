// Package redisstore keeps timers in sorted sets on several Redis instances:
// store.Store by the scripts of package lua. keys.go names the keys,
// record.go says what a timer looks like, ring.go where it lives; shard.go talks
// to one Redis, write.go and lease.go carry out the methods. Nodes agree on the shards
// by topology.go, agreement.go, join.go and follow.go, operators change them by
// operate.go and vet.go; sweep.go notes what is where it belongs, letters.go keeps the dead
// letters.
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
	"sync"
	"sync/atomic"
	"time"

	"chronos/redisstore/endpoint"
	"chronos/scheduler/awake"
	"chronos/scheduler/store"
	"chronos/scheduler/timer"
)

// Options say what a Store works on.
type Options struct {
	Shards []endpoint.Config
	// Node is this process's id, fresh per start: it is in every lease token.
	Node string
	// Lane separates what different deliverers fire: "http" or "kafka".
	Lane string
	Log  *slog.Logger
	// Dial connects to shards that come later, as ShardConfig.Dial does to those of
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
}

// Store is a store.Store. Make it with Open; Close ends it.
type Store struct {
	current    atomic.Pointer[placement]
	book       *endpoint.Book
	keys       [Partitions]partitionKeys
	lane       string
	node       string
	log        *slog.Logger
	scripts    scripts
	given      map[string]endpoint.Config // what the node was started with, by name
	dial       func(ctx context.Context, network, address string) (net.Conn, error)
	pools      pools
	awake      *awake.Clock
	patience   time.Duration // of a flush, which nobody waits for any longer
	notAfter   time.Duration // notAfter
	announced  time.Duration // announcedFor
	drainedFor time.Duration // drainedFor
	origin     time.Time
	counter    atomic.Uint64
	rotation   atomic.Uint64
	minted     atomic.Uint64 // keys
	adopted    atomic.Int64  // when the topology was, ns since origin
	warned     atomic.Bool   // that the topology is not stored yet
	behind     atomic.Bool   // some shard holds an earlier topology, or none
	begun      atomic.Int32  // how many looks in a row found a later one that isn't agreed on
	sure       atomic.Bool   // half of the shards have said once that its topology is theirs (stands)
	read       atomic.Int64  // when the shards had no later one, ns since origin; 0 if never yet

	adopting sync.Mutex // held while current is replaced: a look and an operator's change may find the same one
	mu       sync.Mutex
	opened   []*shard             // all that are connected to, those of no topology too
	drained  map[string]time.Time // since when a shard has said at each look that it is
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
		keys: laneKeys(o.Lane), lane: o.Lane, node: o.Node, log: o.Log, book: endpoint.NewBook(), scripts: loadScripts(), given: map[string]endpoint.Config{}, patience: notAfter, notAfter: notAfter,
		announced: announcedFor, drainedFor: drainedFor, drained: map[string]time.Time{}, origin: time.Now(), dial: o.Dial, pools: pools{max(o.Connections, 1), cmp.Or(o.Opened, 1)}, awake: o.Awake,
	}
	if s.awake == nil {
		s.awake = awake.Always()
	}
	s.minted.Store(rand.Uint64N(Partitions) * together) // nodes that start together go on in different partitions
	for _, config := range o.Shards {
		s.given[config.Name] = config
	}
	first := firstTopology(o.Shards)
	shards, err := s.shardsOf(&first)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open store: %w", err), s.Close())
	}
	s.current.Store(newPlacement(first, shards))
	s.book.Publish(s.endpoints(&first))
	if err := s.firstLook(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("open store: %w", err), s.Close())
	}
	s.warnOfTwins()
	return s, nil
}

// shardsOf are those of a topology, in list order. It connects to those that are
// new, by the URL that the node was started with if it was.
func (s *Store) shardsOf(l *Topology) ([]*shard, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]*shard, len(l.Shards))
	for i, m := range l.Shards {
		config := s.config(m)
		at := slices.IndexFunc(s.opened, func(sh *shard) bool { return sh.name == m.Name && sh.url == config.URL })
		if at >= 0 {
			all[i] = s.opened[at]
			continue
		}
		sh, err := newShard(config, s.scripts, s.pools, s.awake, s.log)
		if err != nil {
			return nil, err
		}
		sh.merger = newBatcher(func(items []*item) { s.flushMerge(sh, items) }, flushPatience)
		s.opened = append(s.opened, sh)
		all[i] = sh
	}
	return all, nil
}

func (s *Store) config(m Member) endpoint.Config {
	if config, is := s.given[m.Name]; is {
		return config
	}
	return endpoint.Config{Name: m.Name, URL: m.URL, Dial: s.dial}
}

// everyShard is all that are connected to.
func (s *Store) everyShard() []*shard {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.opened)
}

// Topology is the one that this node works by.
func (s *Store) Topology() Topology { return s.current.Load().topology }

// firstLook verifies all shards side by side and reports the unfit ones.
func (s *Store) firstLook(ctx context.Context) error {
	shards := s.everyShard()
	faults := make([]error, len(shards))
	var wg sync.WaitGroup
	for i, sh := range shards {
		wg.Go(func() {
			err := sh.ready(ctx)
			if _, unfit := errors.AsType[unfitError](err); unfit {
				faults[i] = err
			} else if err != nil {
				sh.log.Warn("shard can't be reached; timers without a copy elsewhere wait until the shard is back", "err", err)
			}
		})
	}
	wg.Wait()
	return errors.Join(faults...)
}

// Close ends all connections. Calls under way fail; none may be made after it.
func (s *Store) Close() error {
	var errs []error
	for _, sh := range s.everyShard() {
		sh.merger.close()
	}
	for _, sh := range s.everyShard() {
		errs = append(errs, sh.close())
	}
	return errors.Join(errs...)
}

// Shards is store.Store's.
func (s *Store) Shards() []string { return s.current.Load().topology.names() }

// Changed is store.Store's.
func (s *Store) Changed() <-chan struct{} { return s.current.Load().changed }

// Rank is store.Store's.
func (s *Store) Rank(key string) []string { return s.current.Load().active.rank(key) }

// Others is store.Store's.
func (s *Store) Others(key string, n int) []store.Other {
	return s.current.Load().elsewhere(key, n)
}

// HintOf is store.Store's.
func (s *Store) HintOf(shard string) timer.Hint { return s.current.Load().hintOf(shard) }

// Hinted is store.Store's.
func (s *Store) Hinted(hint timer.Hint) []string { return s.current.Load().hinted(hint) }

func (s *Store) shard(name string) (*shard, error) {
	t := s.current.Load()
	i, ok := t.index[name]
	if !ok {
		return nil, fmt.Errorf("%w: no shard is named %q", timer.ErrUnavailable, name)
	}
	return t.shards[i], nil
}
