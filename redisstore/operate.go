package redisstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"chronos/redisstore/endpoint"
	"chronos/scheduler/awake"
	"chronos/scheduler/timer"
)

// AddShard announces a new shard, or again a shard that is being drained, which then
// needs no URL. A second database of a Redis that has a shard already needs force. It
// returns the topology as it stands after that; a *RefusedError says why nothing was
// changed.
func (s *Store) AddShard(ctx context.Context, m Member, force bool) (Topology, error) {
	t := s.Topology()
	_, member := t.member(m.Name)
	if given, is := s.given[m.Name]; is && !member && m.URL != "" && !endpoint.SamePlace(given.URL, m.URL) {
		return t, t.refuse("this node was started with a shard %s at another place in CHRONOS_REDIS, and would use that one; give the new one another name", m.Name)
	}
	return s.changeBy(ctx, force, func(now *Topology) (Topology, error) { return now.add(m) })
}

// DrainShard announces that a shard takes no more timers: the sweep then moves
// those that it has. One that can't be reached needs force: then it has no voice in
// this change and those that follow, so that one of two shards can be given up. Results as AddShard.
func (s *Store) DrainShard(ctx context.Context, name string, force bool) (Topology, error) {
	t := s.Topology()
	if _, err := t.drain(name, force); err != nil {
		return t, err
	}
	if force {
		return s.change(ctx, func(now *Topology) (Topology, error) { return now.drain(name, true) }, name)
	}
	if sh, err := s.shard(name); err == nil {
		if at := sh.topology(ctx); at.err != nil {
			return t, t.refuse("shard %s can't be reached (%v); if it is gone for good, drain it with force: what has no copy elsewhere is lost", name, at.err)
		}
	}
	return s.change(ctx, func(now *Topology) (Topology, error) { return now.drain(name, false) })
}

// Lost is store.Store's.
func (s *Store) Lost(shard string) bool {
	_, lost := s.current.Load().topology.Lost[shard]
	return lost
}

// Lose is store.Store's.
func (s *Store) Lose(ctx context.Context, shard string) error {
	_, err := s.change(ctx, func(now *Topology) (Topology, error) { return now.lose(shard) })
	return ignoreRefusal(err)
}

// Regain is store.Store's.
func (s *Store) Regain(ctx context.Context, shard string) error {
	sh, err := s.shard(shard)
	if err != nil {
		return err
	}
	epoch, _ := s.Epoch(shard)
	for _, lane := range lanes() {
		if err := sh.isSwept(ctx, lane, epoch); err != nil {
			return err
		}
	}
	_, err = s.change(ctx, func(now *Topology) (Topology, error) { return now.regain(shard) })
	return ignoreRefusal(err)
}

// ignoreRefusal is for changes that any node makes: somebody else did it, or another
// change came first.
func ignoreRefusal(err error) error {
	if _, refused := errors.AsType[*RefusedError](err); refused {
		return nil
	}
	return err
}

const (
	// emptyTwice is how long lies between two looks that must find a shard empty.
	emptyTwice = time.Second
	// drainedFor is how long a shard must have said that it is drained before it may go:
	// who reaches no other has heard of it by then, and writes nothing there (blindFor).
	drainedFor = 10 * time.Second
)

// RemoveShard forgets a shard that is drained and empty, or, with force, whatever
// it has. Its dead letters are brought to other shards first. Results as AddShard.
func (s *Store) RemoveShard(ctx context.Context, name string, force bool) (Topology, error) {
	t := s.Topology()
	if _, err := t.remove(name); err != nil {
		return t, err
	}
	if !force {
		if err := s.isDrained(ctx, &t, name); err != nil {
			return t, err
		}
		if err := s.moveLetters(ctx, &t, name); err != nil {
			return t, err
		}
		for look := range 2 {
			if look > 0 && !awake.Sleep(ctx, emptyTwice) {
				return t, ctx.Err()
			}
			if err := s.isEmpty(ctx, &t, name); err != nil {
				return t, err
			}
		}
	}
	var voiceless []string
	if force {
		voiceless = []string{name}
	}
	return s.change(ctx, func(now *Topology) (Topology, error) { return now.remove(name) }, voiceless...)
}

// wholeSeconds rounds up, since nobody can try again in 0s.
func wholeSeconds(d time.Duration) time.Duration {
	return (d + time.Second - 1).Truncate(time.Second)
}

// isDrained is nil if a shard has said for long enough that it is drained.
func (s *Store) isDrained(ctx context.Context, t *Topology, name string) error {
	sh, err := s.shard(name)
	if err != nil {
		return err
	}
	if at := sh.topology(ctx); at.err != nil {
		return t.refuseUnseen(name, at.err)
	}
	s.mu.Lock()
	since, says := s.drained[name]
	s.mu.Unlock()
	if wait := s.drainedFor - time.Since(since); says && wait > 0 {
		return t.refuse("shard %s was told a moment ago that it is drained; try again in %v", name, wholeSeconds(wait))
	}
	if !says {
		return t.refuse("shard %s has not been told yet that it is drained; try again in some seconds", name)
	}
	return nil
}

func (l *Topology) refuseUnseen(name string, err error) error {
	return l.refuse("shard %s can't be looked at (%v); if it is gone for good, remove it with force: what has no other copy is lost", name, err)
}

// isEmpty is nil if a shard has nothing of any lane.
func (s *Store) isEmpty(ctx context.Context, t *Topology, name string) error {
	sh, err := s.shard(name)
	if err != nil {
		return err
	}
	if err := sh.ready(ctx); err != nil {
		return t.refuseUnseen(name, err)
	}
	pipe := sh.poll.Pipeline()
	var counts []*redis.IntCmd
	for _, lane := range lanes() {
		for _, keys := range laneKeys(lane) {
			counts = append(counts, pipe.ZCard(ctx, keys.due), pipe.ZCard(ctx, keys.dead))
		}
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return fmt.Errorf("%w: shard %s: %w", timer.ErrUnavailable, name, err)
	}
	copies, letters := int64(0), int64(0)
	for i, count := range counts {
		if i%2 == 0 {
			copies += count.Val()
		} else {
			letters += count.Val()
		}
	}
	switch {
	case copies > 0:
		return t.refuse("shard %s still has %d copies of timers; wait until the sweep has moved them, or remove it with force: what has no other copy is lost", name, copies)
	case letters > 0:
		return t.refuse("shard %s still has %d dead letters, more than can be moved at once; try again, or remove it with force: they are lost", name, letters)
	}
	return nil
}
