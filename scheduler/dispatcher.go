package scheduler

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"chronos/scheduler/sample"
	"chronos/scheduler/store"
	"chronos/scheduler/wheel"
)

// dispatcher claims the timers that are due, calls back, and settles the outcomes. It is safe
// for concurrent use.
type dispatcher struct {
	config    *Config
	shards    *registry
	copies    *keeper
	store     store.Store
	deliverer Deliverer
	log       *slog.Logger
	lines     lines
	metrics   *metrics

	lanes perShard[lane]
	wheel *wheel.Wheel[turn]
	slots *slots

	pace   *pace
	firing sync.WaitGroup // workers that deliver
	handed chan shot      // to an idle one of them
	idle   atomic.Int32   // workers
}

func newDispatcher(config *Config, shards *registry, copies *keeper, deliverer Deliverer) *dispatcher {
	d := &dispatcher{
		config: config, shards: shards, copies: copies, store: shards.store, deliverer: deliverer, log: config.Log,
		lines: newLines(), metrics: newMetrics(), wheel: wheel.New[turn](time.Now()), slots: newSlots(config.Slots),
		handed: make(chan shot), pace: newPace(),
	}
	d.lanes.make = func(sh *shard) *lane { return newLane(d, sh) }
	if config.PreciseSleep {
		if err := d.wheel.SleepPrecisely(); err != nil {
			d.log.Debug("callbacks are up to a millisecond later than they might be", "err", err)
		}
	}
	return d
}

// turn runs the wheel until ctx ends, and then gives back what is in it.
func (d *dispatcher) turn(ctx context.Context) {
	d.wheel.Run(ctx, d.expire)
	for _, t := range d.wheel.Drain(nil) {
		d.giveBack(t)
	}
}

// giveBack releases what was in the wheel when it stopped. What was there only
// to end a wait may have got its slot.
func (d *dispatcher) giveBack(t turn) {
	if t.endsWait > 0 {
		if waited, _ := d.slots.abandon(t); !waited {
			return
		}
	}
	t.claim.settle(store.Settlement{Outcome: store.OutcomeRelease})
}

const (
	// loopsPerShard are a shard's loops for fences and for settlements: one batch is put
	// together while another is on its way.
	loopsPerShard = 2
	// lateLoops are those of each queue of what waits for a shard which answers late.
	lateLoops = 4
)

// waiting reports whether claims wait in the wheel until they are due.
func (d *dispatcher) waiting() bool { return d.wheel.Len() > 0 }

// wait returns when no callback is under way.
func (d *dispatcher) wait() { d.firing.Wait() }

// poll claims what is due on a shard until ctx ends.
func (d *dispatcher) poll(ctx context.Context, sh *shard) { d.lanes.of(sh).poll(ctx) }

// work begins the loops that take the claims of a shard from one station to the next. They
// end with ctx.
func (d *dispatcher) work(ctx context.Context, sh *shard, loops *sync.WaitGroup) {
	d.lanes.of(sh).work(ctx, loops)
}

// leave waits until no claim of a shard that is gone is in hand, or ctx has ended.
func (d *dispatcher) leave(ctx context.Context, sh *shard) {
	d.lanes.of(sh).credit.settled(ctx)
	d.lanes.forget(sh)
}

func (d *dispatcher) logLines() []*sample.Line { return d.lines.all() }

func (d *dispatcher) collectors() []prometheus.Collector { return d.metrics.collectors() }

func (l *lane) work(ctx context.Context, loops *sync.WaitGroup) {
	d := l.d
	for range loopsPerShard {
		loops.Go(func() { l.fences.drain(ctx, d.pace.wait, l.fence) })
		loops.Go(func() { l.settlements.drain(ctx, atMost(maxSettlements), l.settleBatch) })
	}
	drainLate(ctx, l, loops, l.held.fences, d.pace.wait, l.fenceHeld)
	drainLate(ctx, l, loops, l.held.settlements, atMost(maxSettlements), l.settleHeld)
	drainLate(ctx, l, loops, l.held.contenders, atMost(maxSettlements), l.contendHeld)
	drainLate(ctx, l, loops, l.adoptions, atMost(maxSettlements), l.adopt)
	if d.config.Renew {
		loops.Go(func() { l.renew(ctx) })
	}
	loops.Go(func() { l.contenders.drain(ctx, atMost(maxSettlements), l.contend) })
	loops.Go(func() { l.graves.drain(ctx, atMost(maxSettlements), l.bury) })
}

// drainLate begins the loops that drain a queue of what waits for a shard which answers late.
func drainLate[T any](ctx context.Context, l *lane, loops *sync.WaitGroup, q *queue[T], most func(context.Context) int, do func(context.Context, []T)) {
	t := newTurns(l.d.config.Awake)
	for range lateLoops {
		loops.Go(func() { q.drainInTurn(ctx, t, most, do) })
	}
}

// finish waits until all claims are settled, or ctx has ended.
func (d *dispatcher) finish(ctx context.Context) {
	for _, sh := range d.shards.load() {
		l := d.lanes.of(sh)
		if !l.credit.settled(ctx) {
			sh.log.Warn("stopped with unsettled callbacks; other nodes take them over when their leases end",
				"callbacks", l.credit.all-l.credit.left())
		}
	}
}

// renewing is how many callbacks are under way whose fences are renewed.
func (d *dispatcher) renewing() (n int) {
	for _, sh := range d.shards.load() {
		n += d.lanes.of(sh).renewals.count()
	}
	return n
}
