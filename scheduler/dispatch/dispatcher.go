package dispatch

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"chronos/scheduler/flow"
	"chronos/scheduler/replica"
	"chronos/scheduler/sample"
	"chronos/scheduler/settings"
	"chronos/scheduler/shard"
	"chronos/scheduler/store"
	"chronos/scheduler/wheel"
)

// Dispatcher claims the timers that are due, calls back, and settles the outcomes. It is safe
// for concurrent use.
type Dispatcher struct {
	config    *settings.Config
	shards    *shard.Registry
	copies    *replica.Keeper
	store     store.Store
	deliverer Deliverer
	log       *slog.Logger
	lines     lines
	metrics   *metrics

	lanes shard.PerShard[lane]
	wheel *wheel.Wheel[turn]
	slots *slots

	pace   *flow.Pace
	firing sync.WaitGroup // workers that deliver
	handed chan shot      // to an idle one of them
	idle   atomic.Int32   // workers
}

// New makes a dispatcher, whose loops the caller begins with Turn, Poll and Work.
func New(config *settings.Config, shards *shard.Registry, copies *replica.Keeper, deliverer Deliverer) *Dispatcher {
	d := &Dispatcher{
		config: config, shards: shards, copies: copies, store: shards.Store, deliverer: deliverer, log: config.Log,
		lines: newLines(), metrics: newMetrics(), wheel: wheel.New[turn](time.Now()), slots: newSlots(config.Slots),
		handed: make(chan shot), pace: flow.NewPace(),
	}
	d.lanes.Make = func(sh *shard.Shard) *lane { return newLane(d, sh) }
	if config.PreciseSleep {
		if err := d.wheel.SleepPrecisely(); err != nil {
			d.log.Debug("callbacks are up to a millisecond later than they might be", "err", err)
		}
	}
	return d
}

// Turn runs the wheel until ctx ends, and then gives back what is in it.
func (d *Dispatcher) Turn(ctx context.Context) {
	d.wheel.Run(ctx, d.expire)
	for _, t := range d.wheel.Drain(nil) {
		d.giveBack(t)
	}
}

// giveBack releases what was in the wheel when it stopped. What was there only
// to end a wait may have got its slot.
func (d *Dispatcher) giveBack(t turn) {
	if t.endsWait > 0 {
		if waited, _ := d.slots.abandon(t); !waited {
			return
		}
	}
	t.claim.settle(store.Settlement{Outcome: store.OutcomeRelease})
}

// loopsPerShard are a shard's loops for fences and for settlements: one batch is put
// together while another is on its way.
const loopsPerShard = 2

// Waiting reports whether claims wait in the wheel until they are due.
func (d *Dispatcher) Waiting() bool { return d.wheel.Len() > 0 }

// Wait returns when no callback is under way.
func (d *Dispatcher) Wait() { d.firing.Wait() }

// Poll claims what is due on a shard until ctx ends.
func (d *Dispatcher) Poll(ctx context.Context, sh *shard.Shard) { d.lanes.Of(sh).poll(ctx) }

// Work begins the loops that take the claims of a shard from one station to the next. They
// end with ctx.
func (d *Dispatcher) Work(ctx context.Context, sh *shard.Shard, loops *sync.WaitGroup) {
	d.lanes.Of(sh).work(ctx, loops)
}

// Leave waits until no claim of a shard that is gone is in hand, or ctx has ended.
func (d *Dispatcher) Leave(ctx context.Context, sh *shard.Shard) {
	d.lanes.Of(sh).credit.Settled(ctx)
	d.lanes.Forget(sh)
}

// LogLines are the kinds of lines that are sampled.
func (d *Dispatcher) LogLines() []*sample.Line { return d.lines.all() }

// Collectors are the metrics.
func (d *Dispatcher) Collectors() []prometheus.Collector { return d.metrics.collectors() }

func (l *lane) work(ctx context.Context, loops *sync.WaitGroup) {
	d := l.d
	for range loopsPerShard {
		loops.Go(func() { l.fences.Drain(ctx, d.pace.Wait, l.fence) })
		loops.Go(func() { l.settlements.Drain(ctx, flow.AtMost(maxSettlements), l.settleBatch) })
	}
	l.held.fences.DrainLate(ctx, d.config.Awake, loops, d.pace.Wait, l.fenceHeld)
	l.held.settlements.DrainLate(ctx, d.config.Awake, loops, flow.AtMost(maxSettlements), l.settleHeld)
	l.adoptions.DrainLate(ctx, d.config.Awake, loops, flow.AtMost(maxSettlements), l.adopt)
	if d.config.Renew {
		loops.Go(func() { l.renew(ctx) })
	}
	loops.Go(func() { l.graves.Drain(ctx, flow.AtMost(maxSettlements), l.bury) })
}

// Finish waits until all claims are settled, or ctx has ended.
func (d *Dispatcher) Finish(ctx context.Context) {
	for _, sh := range d.shards.All() {
		l := d.lanes.Of(sh)
		if !l.credit.Settled(ctx) {
			sh.Log.Warn("stopped with unsettled callbacks; other nodes take them over when their leases end",
				"callbacks", l.credit.InHand())
		}
	}
}

// Renewing is how many callbacks are under way whose fences are renewed.
func (d *Dispatcher) Renewing() (n int) {
	for _, sh := range d.shards.All() {
		n += d.lanes.Of(sh).renewals.count()
	}
	return n
}
