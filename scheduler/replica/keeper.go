package replica

import (
	"context"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"

	"chronos/scheduler/measure"
	"chronos/scheduler/sample"
	"chronos/scheduler/settings"
	"chronos/scheduler/shard"
	"chronos/scheduler/store"
	"chronos/scheduler/timer"
)

// Keeper keeps the copies of timers in agreement: Keeper writes and reads copies, repairs owners
// that a write missed, and sweeps copies to their owners. A Keeper is safe for concurrent use.
type Keeper struct {
	config *settings.Config
	shards *shard.Registry
	store  store.Store
	log    *slog.Logger

	repairs *repairs
	writes  *writeQueues

	recount    func(ctx context.Context, sh *shard.Shard, partition int) // is called for every partition that was swept
	sweepPace  *rate.Limiter
	sweeps     shard.PerShard[sweep]
	swept      *prometheus.CounterVec // by shard, and what: seen, brought, settled, unexpected
	unswept    *prometheus.GaugeVec   // by shard
	repaired   prometheus.Counter     // copies that a write had missed
	brought    prometheus.Counter     // copies that the sweep has written
	unexpected *sample.Line
}

// New makes a keeper, which calls recount for every partition that was swept.
func New(config *settings.Config, shards *shard.Registry, recount func(context.Context, *shard.Shard, int)) *Keeper {
	k := &Keeper{
		config: config, shards: shards, store: shards.Store, log: config.Log, recount: recount,
		repairs: newRepairs(), writes: newWriteQueues(), unexpected: sample.New(slog.LevelError, unexpectedLine, sample.First, sample.PerSecond),
		sweepPace: rate.NewLimiter(rate.Limit(config.SweepRate), sweepPage),
		swept: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "chronos_sweep_copies_total", Help: "Copies that the sweep looked at on a shard (seen), wrote there since they were missing or behind (brought), removed there or gave another place (settled), and of those what nothing explains (unexpected).",
		}, []string{"shard", "what"}),
		unswept: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "chronos_sweep_partitions_left", Help: "Partitions of a shard, of 16, that are still to be swept, by whichever node.",
		}, []string{"shard"}),
	}
	k.repaired, k.brought = measure.MissingCopies("repair"), measure.MissingCopies("sweep")
	k.sweeps.Make = func(sh *shard.Shard) *sweep { return &sweep{k: k, shard: sh, doubts: map[string]timer.State{}} }
	return k
}

// LogLines are the kinds of sampled lines.
func (k *Keeper) LogLines() []*sample.Line { return []*sample.Line{k.unexpected} }

// Collectors are the metrics.
func (k *Keeper) Collectors() []prometheus.Collector {
	return []prometheus.Collector{k.swept, k.unswept, k.repaired, k.brought}
}

// Forget drops the state of a shard that is gone.
func (k *Keeper) Forget(sh *shard.Shard) {
	k.sweeps.Forget(sh)
	if k.shards.All()[sh.Name] == nil {
		k.unswept.DeleteLabelValues(sh.Name)
	}
}
