package dispatch

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"chronos/scheduler/flow"
	"chronos/scheduler/pulse"
	"chronos/scheduler/replica"
	"chronos/scheduler/sample"
	"chronos/scheduler/settings"
	"chronos/scheduler/shard"
	"chronos/scheduler/site"
	"chronos/scheduler/store"
	"chronos/scheduler/wheel"
)

// Dispatcher claims due timers, calls back, and settles the outcomes. All methods are safe for
// concurrent use.
type Dispatcher struct {
	config    *settings.Config
	shards    *shard.Registry
	copies    *replica.Keeper
	sites     *site.Sites
	store     store.Store
	deliverer Deliverer
	log       *slog.Logger
	lines     lines
	metrics   *metrics

	lanes shard.PerShard[lane]
	wheel *wheel.Wheel[turn]
	gate  *gate
	slots *slots

	pulse  pulse.Recorder
	pace   *flow.Pace
	firing sync.WaitGroup // workers that deliver
	handed chan shot      // to an idle worker
	idle   atomic.Int32   // number of idle workers
}

// New makes a dispatcher. The caller begins the loops with Turn, Poll and Work.
func New(config *settings.Config, shards *shard.Registry, copies *replica.Keeper, sites *site.Sites, deliverer Deliverer) *Dispatcher {
	d := &Dispatcher{
		config: config, shards: shards, copies: copies, sites: sites, store: shards.Store, deliverer: deliverer, log: config.Log,
		lines: newLines(), metrics: newMetrics(config.Destinations), wheel: wheel.New[turn](time.Now()), slots: newSlots(config.Slots), gate: newGate(config.Slots),
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

// Turn runs the wheel until ctx ends, and then gives back the claims in the wheel.
func (d *Dispatcher) Turn(ctx context.Context) {
	d.wheel.Run(ctx, d.expire)
	for _, t := range d.wheel.Drain(nil) {
		d.giveBack(t)
	}
}

// giveBack releases a claim that was in the wheel at the end. A turn that only ends a wait does
// nothing if the claim has got a slot meanwhile.
func (d *Dispatcher) giveBack(t turn) {
	if t.endsWait > 0 {
		if waited, _ := d.slots.abandon(t); !waited {
			return
		}
		t.claim.lane.credit.FromReceiver(t.claim.weight)
	}
	d.endTurnWait(t.claim)
	d.gate.refund(t.claim)
	t.claim.settle(store.Settlement{Outcome: store.OutcomeRelease})
}

// loopsPerShard is how many loops a shard has for fences, and for settlements: a batch is put
// together while another batch is on the way.
const loopsPerShard = 2

// Waiting reports whether claims wait in the wheel until they are due.
func (d *Dispatcher) Waiting() bool { return d.wheel.Len() > 0 }

// Wait returns when no callback is under way.
func (d *Dispatcher) Wait() { d.firing.Wait() }

// Poll claims the due timers of a shard until ctx ends.
func (d *Dispatcher) Poll(ctx context.Context, sh *shard.Shard) { d.lanes.Of(sh).poll(ctx) }

// Work begins the loops that take a shard's claims from station to station. The loops end with
// ctx.
func (d *Dispatcher) Work(ctx context.Context, sh *shard.Shard, loops *sync.WaitGroup) {
	d.lanes.Of(sh).work(ctx, loops)
}

// Leave waits until no claim of a removed shard is in hand, as long as callbacks may last and settling
// may take.
func (d *Dispatcher) Leave(ctx context.Context, sh *shard.Shard) {
	d.settled(ctx, d.lanes.Of(sh))
	d.lanes.Forget(sh)
}

// Figures are the callbacks of the last seconds.
func (d *Dispatcher) Figures() pulse.Figures { return d.pulse.Figures() }

// InHand is what this node has in hand for each destination: callbacks under way, and claims right before
// their callbacks; and claims that wait for a slot or a turn.
func (d *Dispatcher) InHand() map[string]pulse.Load {
	all := d.slots.inHand()
	for name, waiting := range d.gate.waitingBy() {
		load := all[name]
		load.Waiting += waiting
		all[name] = load
	}
	return all
}

// LogLines are the kinds of sampled log lines.
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
	l.afar.DrainLate(ctx, d.config.Awake, loops, flow.AtMost(maxSettlements), l.compareAfar)
	l.adoptions.DrainLate(ctx, d.config.Awake, loops, flow.AtMost(maxSettlements), l.adopt)
	loops.Go(func() { l.renew(ctx) })
	loops.Go(func() { l.graves.Drain(ctx, flow.AtMost(maxSettlements), l.bury) })
}

// Finish waits until all claims are settled, as long as callbacks may last and settling may take.
func (d *Dispatcher) Finish(ctx context.Context) {
	var lanes []*lane
	for _, sh := range d.shards.All() {
		lanes = append(lanes, d.lanes.Of(sh))
	}
	if d.settled(ctx, lanes...) {
		return
	}
	for _, l := range lanes {
		if n := l.credit.InHand(); n > 0 {
			l.shard.Log.Warn("stopped with unsettled callbacks; other nodes take them over when their leases end", "callbacks", n)
		}
	}
}

// settled waits until all claims of the lanes are settled, and reports whether they are. Callbacks may
// begin for Limit yet, and those with a time limit of their own may last for longer.
func (d *Dispatcher) settled(ctx context.Context, lanes ...*lane) bool {
	longest := func() (left time.Duration) {
		for _, l := range lanes {
			left = max(left, time.Until(l.renewals.last()))
		}
		return left
	}
	wait := func(patience time.Duration) bool {
		bounded, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		for _, l := range lanes {
			if !l.credit.Settled(bounded) {
				return false
			}
		}
		return true
	}
	if wait(d.config.Limit) {
		return true
	}
	for left := longest(); ; left = longest() {
		if wait(left + d.config.Settling) {
			return true
		}
		if ctx.Err() != nil || longest() <= 0 {
			return false
		}
	}
}

// Renewing is how many callbacks with renewed fences are under way.
func (d *Dispatcher) Renewing() (n int) {
	for _, sh := range d.shards.All() {
		n += d.lanes.Of(sh).renewals.count()
	}
	return n
}
