package scheduler

import (
	"context"
	"fmt"
	"hash/fnv"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"chronos/scheduler/awake"
	"chronos/scheduler/store"
	"chronos/scheduler/timer"
	"chronos/scheduler/wheel"
)

// Scheduler is one node's engine: it takes timers from clients and fires them.
// Make it with New and let Run fire; the methods for clients (Create, Replace,
// Delete, Lookup) are safe for concurrent use before, during and after Run.
type Scheduler struct {
	config    Config
	tags      atomic.Uint32 // of versions: begins with one of this node's own
	store     store.Store
	deliverer Deliverer
	log       *slog.Logger
	lines     lines
	metrics   *metrics

	wheel  *wheel.Wheel[turn]
	slots  *slots
	shards shards

	repairs   *repairs
	writes    *writeQueues
	sweepPace *rate.Limiter
	latest    latest // version

	pace   *pace
	firing sync.WaitGroup // workers that deliver
	handed chan shot      // to an idle one of them
	idle   atomic.Int32   // workers
}

// New makes an engine. Its error lists every setting that is wrong.
func New(config Config, backend store.Store, deliverer Deliverer) (*Scheduler, error) {
	if err := config.Validate(); err != nil {
		return nil, fmt.Errorf("make scheduler: %w", err)
	}
	if config.Awake == nil {
		config.Awake = awake.Always()
	}
	metrics, err := newMetrics(config.Registerer)
	if err != nil {
		return nil, fmt.Errorf("make scheduler: %w", err)
	}
	tag := fnv.New32a()
	_, _ = tag.Write([]byte(config.Node)) // never fails
	s := &Scheduler{
		config: config, store: backend, deliverer: deliverer, log: config.Log, lines: newLines(), metrics: metrics,
		wheel: wheel.New[turn](time.Now()), slots: newSlots(config.Slots),
		handed: make(chan shot), pace: newPace(), repairs: newRepairs(), writes: newWriteQueues(),
		sweepPace: rate.NewLimiter(rate.Limit(config.SweepRate), sweepPage),
	}
	s.tags.Store(tag.Sum32())
	if config.PreciseSleep {
		if err := s.wheel.SleepPrecisely(); err != nil {
			s.log.Debug("callbacks are up to a millisecond later than they might be", "err", err)
		}
	}
	s.gather()
	return s, nil
}

const (
	// loopsPerShard are a shard's loops for fences and for settlements: one batch is put
	// together while another is on its way.
	loopsPerShard = 2
	// lateLoops are those of each queue of what waits for a shard which answers late.
	lateLoops = 4
)

// Run claims and fires until ctx ends. Then it has other live nodes take its
// partitions over, claims no more, calls back what it has claimed, gives back
// what of that finds no slot, lets callbacks under way end (within the limit),
// settles them, and returns. What it can't settle in time is left to the leases.
// It must be called once at most.
func (s *Scheduler) Run(ctx context.Context) {
	lasting := context.WithoutCancel(ctx)
	claiming, stopClaiming := context.WithCancel(lasting)
	defer stopClaiming()
	work, stopWork := context.WithCancel(lasting)
	defer stopWork()
	turning, stopWheel := context.WithCancel(lasting)
	defer stopWheel()
	c := crew{s: s, watching: ctx, polling: claiming, work: work, leave: map[*shard]func(){}}
	stopTelling := s.tellUntilStopped(lasting)
	defer stopTelling()
	var wheels sync.WaitGroup
	wheels.Go(func() { s.wheel.Run(turning, s.expire) })
	c.watches.Go(func() { s.repair(ctx) })
	c.follow() // ends with ctx
	c.watches.Wait()
	s.leaveRepairs(lasting)
	s.handOver(lasting)
	stopClaiming()
	c.polls.Wait()
	if s.wheel.Len() > 0 {
		// Nobody else would call these back in time.
		sleep(lasting, s.config.horizon())
	}
	stopWheel()
	wheels.Wait()
	for _, t := range s.wheel.Drain(nil) {
		s.giveBack(t)
	}
	s.finishInHand(lasting)
	stopWork()
	c.loops.Wait()
	s.firing.Wait()
}

// giveBack releases what was in the wheel when it stopped. What was there only
// to end a wait may have got its slot.
func (s *Scheduler) giveBack(t turn) {
	if t.endsWait > 0 {
		if waited, _ := s.slots.abandon(t); !waited {
			return
		}
	}
	t.claim.settle(store.Settlement{Outcome: store.OutcomeRelease})
}

// finishInHand waits until all claims are settled, as long as callbacks may last
// and settling may take.
func (s *Scheduler) finishInHand(ctx context.Context) {
	patience, cancel := context.WithTimeout(ctx, s.config.Limit+s.config.Settling)
	defer cancel()
	for _, sh := range s.shards.load() {
		if !sh.credit.settled(patience) {
			sh.log.Warn("stopped with unsettled callbacks; other nodes take them over when their leases end",
				"callbacks", sh.credit.all-sh.credit.left())
		}
	}
}

// handOverTime is how long it takes until other nodes have learnt that one has
// left, and poll in its place.
const handOverTime = beatInterval + 150*time.Millisecond

// handOver withdraws the node, and goes on claiming until others do in its place.
func (s *Scheduler) handOver(ctx context.Context) {
	bounded, cancel := context.WithTimeout(ctx, s.config.Settling)
	defer cancel()
	begun := time.Now()
	var leaving sync.WaitGroup
	others := false
	for _, sh := range s.shards.load() {
		others = others || sh.othersLive.Load()
		leaving.Go(func() {
			if err := s.store.Leave(bounded, sh.name); err != nil {
				s.log.Debug("could not withdraw from shard", "shard", sh.name, "err", err)
			}
		})
	}
	leaving.Wait()
	if others {
		sleep(ctx, handOverTime-time.Since(begun))
	}
}

// Ready says whether this node should get requests: nil, or that the node doesn't know
// where to write, that none of its shards has answered a heartbeat and its last claim, or
// that no node claims overdue timers of a shard.
func (s *Scheduler) Ready() error {
	if err := s.store.Writable(); err != nil {
		return err
	}
	answers := false
	for _, sh := range s.shards.load() {
		if err := sh.neglected(); err != nil {
			return err
		}
		answers = answers || sh.health.Load() == healthUp && sh.fastest.Load() != nil
	}
	if !answers {
		return fmt.Errorf("%w: no shard answers", timer.ErrUnavailable)
	}
	return nil
}
