package kafka

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"chronos/scheduler/measure"
	"chronos/scheduler/replica"
)

// metrics are the bridge's metrics, and count the same with and without a registry.
type metrics struct {
	consumed    *prometheus.CounterVec // by outcome
	malformed   *prometheus.CounterVec // by reason
	deadRefused prometheus.Counter
	lag         *prometheus.GaugeVec // by partition
	paused      prometheus.Gauge
	advance     prometheus.GaugeFunc
	jitter      prometheus.Histogram
	late        prometheus.Histogram
}

func newMetrics(r prometheus.Registerer, advance func() time.Duration) (*metrics, error) {
	m := &metrics{
		consumed: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "chronos_bridge_messages_total",
			Help: "Messages of the input: stored to wait, late (published at once), duplicate (ignored: their id waits or fires), again (read before).",
		}, []string{"as"}),
		malformed: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "chronos_bridge_malformed_total", Help: "Messages of the input that can't be delayed, by reason.",
		}, []string{"reason"}),
		deadRefused: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "chronos_bridge_dead_letters_refused_total",
			Help: "Dead letters that their topic doesn't take, not even shortened: they stay in the input alone.",
		}),
		lag: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "chronos_bridge_lag", Help: "Offsets of a partition of the input, up to the last stable one, that this bridge has not dealt with.",
		}, []string{"partition"}),
		paused: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "chronos_bridge_paused_partitions", Help: "Partitions that are not read for now, since the store or what is in hand holds them up.",
		}),
		advance: prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "chronos_bridge_advance_seconds", Help: "How long before their deadlines messages are published now.",
		}, func() float64 { return advance().Seconds() }),
		jitter: prometheus.NewHistogram(measure.Native(prometheus.HistogramOpts{
			Name: "chronos_bridge_jitter_seconds",
			Help: "From the deadline of a message that waited to the acknowledgement of the output, by this machine's clock.",
			Buckets: []float64{
				-.1, -.05, -.025, -.01, -.005, 0, .001, .0025, .005, .01, .015, .02, .025, .035, .05, .1, .25, .5, 1, 2.5, 5, 10, 60,
			},
		})),
		late: prometheus.NewHistogram(measure.Native(prometheus.HistogramOpts{
			Name:    "chronos_bridge_late_publish_seconds",
			Help:    "From when a message that was late was looked at to the acknowledgement of the output.",
			Buckets: prometheus.ExponentialBuckets(.0005, 2, 16),
		})),
	}
	for _, as := range []string{asStored, asLate, asDuplicate, asAgain} {
		m.consumed.WithLabelValues(as)
	}
	if r == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{
		m.consumed, m.malformed, m.deadRefused, m.lag, m.paused, m.advance, m.jitter, m.late,
	} {
		if err := r.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

const (
	asStored    = "stored"
	asLate      = "late"
	asDuplicate = "duplicate"
	asAgain     = "again"
)

// admitted counts the timers' answer about a message.
func (m *metrics) admitted(s replica.Standing) {
	switch s {
	case replica.StandingNew:
		m.consumed.WithLabelValues(asStored).Inc()
	case replica.StandingDuplicate:
		m.consumed.WithLabelValues(asDuplicate).Inc()
	case replica.StandingAgain:
		m.consumed.WithLabelValues(asAgain).Inc()
	case replica.StandingUnknown:
	}
}
