package scheduler

import (
	"github.com/prometheus/client_golang/prometheus"

	"chronos/scheduler/store"
)

// metrics are the engine's. They count the same whether or not they are
// registered.
type metrics struct {
	lateness   prometheus.Histogram
	fired      *prometheus.CounterVec // by result: delivered, failed, gone
	settled    *prometheus.CounterVec // by outcome
	delivered  prometheus.Counter     // of fired; most are
	done       prometheus.Counter     // of settled; most are
	leftOut    prometheus.Counter
	inFlight   prometheus.Gauge
	takenOver  prometheus.Counter
	lost       prometheus.Counter
	pending    *prometheus.GaugeVec   // by shard
	tombstones *prometheus.GaugeVec   // by shard
	letters    *prometheus.GaugeVec   // by shard
	overdue    *prometheus.GaugeVec   // by shard
	up         *prometheus.GaugeVec   // by shard
	swept      *prometheus.CounterVec // by shard, and what: seen, brought, settled
	unswept    *prometheus.GaugeVec   // by shard
	counting   *counting
}

func newMetrics(r prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		counting: newCounting(),
		lateness: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "chronos_lateness_seconds",
			Help: "From the due time by the shard's clock to the sending of a pop's first callback.",
			Buckets: []float64{
				.0005, .001, .0015, .002, .003, .004, .005, .0075, .01, .015, .02, .03, .05, .1, .25, .5, 1, 1.5, 2.5, 5, 10, 60,
			},
		}),
		fired: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "chronos_fired_total", Help: "Callbacks by result.",
		}, []string{"result"}),
		settled: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "chronos_settled_total", Help: "Outcomes written to the shards: done, next, again, dead, release.",
		}, []string{"outcome"}),
		leftOut: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "chronos_pops_left_out_total", Help: "Pops of recurring timers that were overdue when a later one was due, and were never called.",
		}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "chronos_callbacks_in_flight", Help: "Callbacks under way.",
		}),
		takenOver: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "chronos_takeovers_total", Help: "Leases of other nodes that had ended and were taken over.",
		}),
		lost: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "chronos_leases_lost_total", Help: "Callbacks whose lease another node had taken over by the time they were settled.",
		}),
		pending:    gaugeByShard("chronos_pending", "Timers that wait on a shard, whichever copy they are."),
		tombstones: gaugeByShard("chronos_tombstones", "Timers on a shard that are over, and remembered for a while."),
		letters:    gaugeByShard("chronos_dead_letters", "Dead letters on a shard."),
		overdue: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "chronos_oldest_due_seconds", Help: "How long the timer that is due longest has been due; 0 if none is.",
		}, []string{"shard"}),
		up: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "chronos_shard_up", Help: "1 if the last conversation with the shard succeeded.",
		}, []string{"shard"}),
		swept: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "chronos_sweep_copies_total", Help: "Copies that the sweep looked at on a shard (seen), wrote there since they were missing or behind (brought), and removed there or gave another place (settled).",
		}, []string{"shard", "what"}),
		unswept: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "chronos_sweep_partitions_left", Help: "Partitions of a shard, of 16, that are still to be swept, by whichever node.",
		}, []string{"shard"}),
	}
	for _, result := range []string{resultDelivered, resultFailed, resultGone} {
		m.fired.WithLabelValues(result)
	}
	m.delivered, m.done = m.fired.WithLabelValues(resultDelivered), m.settled.WithLabelValues(store.OutcomeDone.String())
	if r == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{
		m.lateness, m.fired, m.settled, m.leftOut, m.inFlight, m.takenOver, m.lost, m.pending, m.tombstones, m.letters, m.overdue, m.up, m.swept, m.unswept, m.counting,
	} {
		if err := r.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func gaugeByShard(name, help string) *prometheus.GaugeVec {
	return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, []string{"shard"})
}

// forgetGauges has nothing said any more of a shard that is gone, unless one of its
// name is there again: that one says how it is.
func (sh *shard) forgetGauges() {
	if sh.s.shards.load()[sh.name] != nil {
		return
	}
	m := sh.s.metrics
	for _, gauge := range []*prometheus.GaugeVec{m.pending, m.tombstones, m.letters, m.overdue, m.up, m.unswept} {
		gauge.DeleteLabelValues(sh.name)
	}
}

func (m *metrics) countFired(v Verdict) {
	if v == VerdictDelivered {
		m.delivered.Inc()
		return
	}
	m.fired.WithLabelValues(v.String()).Inc()
}

func (m *metrics) countSettled(o store.Outcome) {
	if o == store.OutcomeDone {
		m.done.Inc()
		return
	}
	m.settled.WithLabelValues(o.String()).Inc()
}

const (
	resultDelivered = "delivered"
	resultFailed    = "failed"
	resultGone      = "gone"
)
