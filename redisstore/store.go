// Package redisstore keeps timers in sorted sets on several Redis instances:
// scheduler.Store by the scripts of package lua. keys.go names the keys,
// record.go says what a timer looks like, ring.go where it lives; shard.go talks
// to one Redis, write.go and lease.go carry out the methods.
package redisstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"chronos/scheduler"
)

// Options say what a Store works on.
type Options struct {
	Shards []ShardConfig
	// Node is this process's id, fresh per start: it is in every lease token.
	Node string
	// Lane separates what different deliverers fire: "http" or "kafka".
	Lane string
	Log  *slog.Logger
}

// Store is a scheduler.Store. Make it with Open; Close ends it.
type Store struct {
	topology *topology
	keys     [Partitions]partitionKeys
	node     string
	log      *slog.Logger
	mergers  []*batcher    // of each shard
	patience time.Duration // of a flush, which nobody waits for any longer
	counter  atomic.Uint64
	rotation atomic.Uint64
	minted   atomic.Uint64 // keys
}

var _ scheduler.Store = (*Store)(nil)

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
	all := loadScripts()
	shards := make([]*shard, len(o.Shards))
	for i, config := range o.Shards {
		var err error
		if shards[i], err = newShard(config, all, o.Log); err != nil {
			return nil, fmt.Errorf("open store: %w", err)
		}
	}
	s := &Store{
		topology: newTopology(shards), keys: laneKeys(o.Lane), node: o.Node, log: o.Log,
		patience: notAfter,
	}
	s.minted.Store(rand.Uint64N(Partitions) * together) // nodes that start together go on in different partitions
	for _, sh := range shards {
		s.mergers = append(s.mergers, newBatcher(func(items []*item) { s.flushMerge(sh, items) }))
	}
	if err := s.firstLook(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("open store: %w", err), s.Close())
	}
	return s, nil
}

// firstLook verifies all shards side by side and reports the unfit ones.
func (s *Store) firstLook(ctx context.Context) error {
	faults := make([]error, len(s.topology.shards))
	var wg sync.WaitGroup
	for i, sh := range s.topology.shards {
		wg.Go(func() {
			err := sh.ready(ctx)
			if _, unfit := errors.AsType[unfitError](err); unfit {
				faults[i] = err
			} else if err != nil {
				sh.log.Warn("shard can't be reached; its timers wait until it is back", "err", err)
			}
		})
	}
	wg.Wait()
	return errors.Join(faults...)
}

// Close ends all connections. Calls under way fail; none may be made after it.
func (s *Store) Close() error {
	for _, b := range s.mergers {
		b.close()
	}
	var errs []error
	for _, sh := range s.topology.shards {
		errs = append(errs, sh.close())
	}
	return errors.Join(errs...)
}

// Shards is scheduler.Store's.
func (s *Store) Shards() []string { return s.topology.names() }

// Changed is scheduler.Store's.
func (s *Store) Changed() <-chan struct{} { return nil }

// Others is scheduler.Store's.
func (s *Store) Others(string, int) []scheduler.Away { return nil }

// Rank is scheduler.Store's.
func (s *Store) Rank(key string) []string { return s.topology.rank(key) }

// HintOf is scheduler.Store's.
func (s *Store) HintOf(shard string) scheduler.Hint { return s.topology.hintOf(shard) }

// Hinted is scheduler.Store's.
func (s *Store) Hinted(hint scheduler.Hint) []string { return s.topology.hinted(hint) }

func (s *Store) shard(name string) (*shard, error) {
	i, ok := s.topology.index[name]
	if !ok {
		return nil, fmt.Errorf("%w: no shard is named %q", scheduler.ErrUnavailable, name)
	}
	return s.topology.shards[i], nil
}
