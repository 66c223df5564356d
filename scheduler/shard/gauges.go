package shard

import "github.com/prometheus/client_golang/prometheus"

// shardGauges are the metrics of each shard.
type shardGauges struct {
	pending, tombstones, letters, overdue, up *prometheus.GaugeVec
	nodes                                     prometheus.GaugeFunc
}

func newShardGauges(live func() int) *shardGauges {
	return &shardGauges{
		nodes: prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "chronos_nodes", Help: "Live nodes that this node knows of, this node included.",
		}, func() float64 { return float64(live()) }),
		pending:    gaugeByShard("chronos_pending", "Timers that wait on a shard, whichever copy they are."),
		tombstones: gaugeByShard("chronos_tombstones", "Timers on a shard that are over, and remembered for a while."),
		letters:    gaugeByShard("chronos_dead_letters", "Dead letters on a shard."),
		overdue: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "chronos_oldest_due_seconds", Help: "How long the timer that is due longest has been due; 0 if none is.",
		}, []string{"shard"}),
		up: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "chronos_shard_up", Help: "1 if the last conversation with the shard succeeded.",
		}, []string{"shard"}),
	}
}

func (g *shardGauges) all() []*prometheus.GaugeVec {
	return []*prometheus.GaugeVec{g.pending, g.tombstones, g.letters, g.overdue, g.up}
}

func (g *shardGauges) collectors() (all []prometheus.Collector) {
	for _, gauge := range g.all() {
		all = append(all, gauge)
	}
	return append(all, g.nodes)
}

func gaugeByShard(name, help string) *prometheus.GaugeVec {
	return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, []string{"shard"})
}

// ForgetGauges removes the metrics of a removed shard. If a new shard has the same name, the
// metrics stay, for the new shard.
func (sh *Shard) ForgetGauges() {
	if sh.r.All()[sh.Name] != nil {
		return
	}
	for _, gauge := range sh.r.gauges.all() {
		gauge.DeleteLabelValues(sh.Name)
	}
}
