package scheduler

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
)

// shards are those that the store names. They come and go while the engine runs.
// The map is never changed, only replaced; it is safe for concurrent use.
type shards struct {
	mu     sync.Mutex // for replacing it
	byName atomic.Pointer[map[string]*shard]
	made   int // so far
}

func (all *shards) load() map[string]*shard { return *all.byName.Load() }

// shard is the one of this name, nil if there is none.
func (s *Scheduler) shard(name string) *shard {
	if sh := s.shards.load()[name]; sh != nil {
		return sh
	}
	if !slices.Contains(s.store.Shards(), name) {
		return nil
	}
	return s.gather()[name] // it has just come
}

// gone reports whether the shard was removed since it was found to be a place of some
// timer: one of its name that comes later is another. It is passed over, as it is by
// who looks for places now.
func (sh *shard) gone() bool { return sh.removed.Load() }

// several reports whether a timer may have copies on more than one shard.
func (s *Scheduler) several() bool { return len(s.shards.load()) > 1 }

// gather takes the shards from the store: it keeps those that it has, makes those
// that are new, and forgets those that are gone.
func (s *Scheduler) gather() map[string]*shard {
	s.shards.mu.Lock()
	defer s.shards.mu.Unlock()
	names := s.store.Shards()
	known := map[string]*shard{}
	if all := s.shards.byName.Load(); all != nil {
		known = *all
	}
	now := make(map[string]*shard, len(names))
	for _, name := range names {
		if now[name] = known[name]; now[name] == nil {
			now[name] = newShard(s, s.shards.made, name)
			s.shards.made++
		}
	}
	s.shards.byName.Store(&now)
	for name, sh := range known {
		if now[name] == nil {
			sh.removed.Store(true)
		}
	}
	return now
}

// crew is who works on the shards while the engine runs. Each kind of work ends
// with its own context, for all shards, or when the shard is gone.
type crew struct {
	s                       *Scheduler
	watching, polling, work context.Context
	watches, polls, loops   sync.WaitGroup
	leave                   map[*shard]func() // ends the work on one
}

// follow has work begin on shards that come, and end on those that go, until
// watching ends.
func (c *crew) follow() {
	for {
		changed := c.s.store.Changed()
		all := c.s.gather()
		for sh, leave := range c.leave {
			if all[sh.name] != sh {
				leave()
				delete(c.leave, sh)
			}
		}
		for _, sh := range all {
			if c.leave[sh] == nil {
				c.start(sh)
			}
		}
		select {
		case <-changed:
		case <-c.watching.Done():
			return
		}
	}
}

// drainLate begins the loops that drain a queue of what waits for a shard which answers late.
func drainLate[T any](ctx context.Context, c *crew, q *queue[T], most func(context.Context) int, do func(context.Context, []T)) {
	t := newTurns(c.s.config.Awake)
	for range lateLoops {
		c.loops.Go(func() { q.drainInTurn(ctx, t, most, do) })
	}
}

// start begins the work on a shard. What is in hand when the shard goes is let
// come to its end first.
func (c *crew) start(sh *shard) {
	watching, stopWatching := context.WithCancel(c.watching)
	polling, stopPolling := context.WithCancel(c.polling)
	work, stopWork := context.WithCancel(c.work)
	var observers sync.WaitGroup // who may write the shard's gauges
	observe := func(kind *sync.WaitGroup, do func()) {
		observers.Add(1)
		kind.Go(func() {
			defer observers.Done()
			do()
		})
	}
	c.leave[sh] = func() {
		stopWatching()
		stopPolling()
		c.watches.Go(func() {
			observers.Wait()
			sh.forgetGauges()
		})
		c.watches.Go(func() {
			defer stopWork()
			patience, cancel := context.WithTimeout(c.work, c.s.config.Limit+c.s.config.Settling)
			defer cancel()
			sh.credit.settled(patience)
		})
	}
	observe(&c.watches, func() { sh.watch(watching) })
	observe(&c.watches, func() { sh.sweep(watching) })
	observe(&c.polls, func() { sh.poll(polling) })
	for range loopsPerShard {
		c.loops.Go(func() { sh.fences.drain(work, c.s.pace.wait, sh.fence) })
		c.loops.Go(func() { sh.settlements.drain(work, atMost(maxSettlements), sh.settleBatch) })
	}
	drainLate(work, c, sh.held.fences, c.s.pace.wait, sh.fenceHeld)
	drainLate(work, c, sh.held.settlements, atMost(maxSettlements), sh.settleHeld)
	drainLate(work, c, sh.held.contenders, atMost(maxSettlements), sh.contendHeld)
	drainLate(work, c, sh.adoptions, atMost(maxSettlements), sh.adopt)
	if c.s.config.Renew {
		c.loops.Go(func() { sh.renew(work) })
	}
	c.loops.Go(func() { sh.contenders.drain(work, atMost(maxSettlements), sh.contend) })
	c.loops.Go(func() { sh.graves.drain(work, atMost(maxSettlements), sh.bury) })
}
