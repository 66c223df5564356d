package dispatch

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"chronos/scheduler/destinations"
	"chronos/scheduler/measure"
	"chronos/scheduler/store"
)

// metrics are the metrics of this package. The metrics count the same whether or not registered.
type metrics struct {
	lateness  prometheus.Histogram
	fired     *prometheus.CounterVec // by result: delivered, failed, gone
	callbacks *prometheus.CounterVec // by class
	byClass   [classes]prometheus.Counter
	duration  *prometheus.HistogramVec // by result
	byResult  [verdicts]prometheus.Observer
	restored  prometheus.Counter
	settled   *prometheus.CounterVec // by outcome
	delivered prometheus.Counter     // of fired; most are
	done      prometheus.Counter     // of settled; most are
	leftOut   prometheus.Counter
	expired   prometheus.Counter
	putOff    prometheus.Counter
	inFlight  prometheus.Gauge
	takenOver prometheus.Counter
	lost      prometheus.Counter
	held      *prometheus.CounterVec // by reason: limit, pause
	heldLimit prometheus.Counter     // of held
	heldPause prometheus.Counter     // of held
	paused    prometheus.GaugeFunc
}

func newMetrics(book *destinations.Book) *metrics {
	m := &metrics{
		lateness: prometheus.NewHistogram(measure.Native(prometheus.HistogramOpts{
			Name: "chronos_lateness_seconds",
			Help: "From the due time by the shard's clock to the sending of a pop's first callback.",
			Buckets: []float64{
				.0005, .001, .0015, .002, .003, .004, .005, .0075, .01, .015, .02, .03, .05, .1, .25, .5, 1, 1.5, 2.5, 5, 10, 60,
			},
		})),
		callbacks: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "chronos_callbacks_total", Help: "Attempts at callbacks by class: of the status of the answer (2xx, 3xx, 4xx, 5xx), or why none came (timeout, refused, dns, denied, other).",
		}, []string{"class"}),
		duration: prometheus.NewHistogramVec(measure.Native(prometheus.HistogramOpts{
			Name: "chronos_callback_duration_seconds", Help: "How long an attempt at a callback took, by result: delivered, failed, gone.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 10, 30},
		}), []string{"result"}),
		restored: measure.MissingCopies("callback"),
		fired: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "chronos_fired_total", Help: "Callbacks by result.",
		}, []string{"result"}),
		settled: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "chronos_settled_total", Help: "Outcomes written to the shards: done, next, again, dead, release.",
		}, []string{"outcome"}),
		leftOut: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "chronos_pops_left_out_total", Help: "Pops of recurring timers that were overdue when a later one was due, and were never called.",
		}),
		expired: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "chronos_pops_expired_total", Help: "Pops that were overdue by more than their timer's expires-after, and were not attempted any more.",
		}),
		putOff: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "chronos_later_format_total", Help: "Due timers that were left alone for 10 s, since a later version of chronos has written them; upgrade this node.",
		}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "chronos_callbacks_in_flight", Help: "Callbacks under way.",
		}),
		takenOver: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "chronos_takeovers_total", Help: "Leases of other nodes that had ended and were taken over.",
		}),
		held: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "chronos_put_back_total", Help: "Due timers that were put back since their destination has a limit or is paused, by reason: limit, pause.",
		}, []string{"reason"}),
		paused: prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "chronos_destinations_paused", Help: "Destinations that are paused, as far as this node knows.",
		}, func() float64 { return float64(book.Paused()) }),
		lost: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "chronos_leases_lost_total", Help: "Callbacks whose lease another node had taken over by the time they were settled.",
		}),
	}
	for v := range verdicts {
		m.fired.WithLabelValues(v.String())
		m.byResult[v] = m.duration.WithLabelValues(v.String())
	}
	for c := range classes {
		m.byClass[c] = m.callbacks.WithLabelValues(c.String())
	}
	m.delivered, m.done = m.fired.WithLabelValues(resultDelivered), m.settled.WithLabelValues(store.OutcomeDone.String())
	m.heldLimit, m.heldPause = m.held.WithLabelValues("limit"), m.held.WithLabelValues("pause")
	return m
}

func (m *metrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.lateness, m.fired, m.callbacks, m.duration, m.restored, m.settled, m.leftOut, m.expired, m.putOff, m.inFlight, m.takenOver, m.lost, m.held, m.paused}
}

func (m *metrics) countFired(d *Delivered, took time.Duration) {
	m.byClass[d.Class].Inc()
	m.byResult[d.Verdict].Observe(max(took, 0).Seconds())
	if d.Verdict == VerdictDelivered {
		m.delivered.Inc()
		return
	}
	m.fired.WithLabelValues(d.Verdict.String()).Inc()
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
