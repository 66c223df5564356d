// Package measure has what the metrics of several packages share.
package measure

import "github.com/prometheus/client_golang/prometheus"

// Native makes a histogram native, too: for a Prometheus that asks for native histograms, buckets grow by a tenth,
// and there are at most 160.
func Native(o prometheus.HistogramOpts) prometheus.HistogramOpts {
	o.NativeHistogramBucketFactor, o.NativeHistogramMaxBucketNumber = 1.1, 160
	return o
}

// MissingCopies counts copies that were missing or too old where the copies belong, and were written again by a
// part of the engine.
func MissingCopies(by string) prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{
		Name: "chronos_copies_missing_total", ConstLabels: prometheus.Labels{"by": by},
		Help: "Copies that were missing or too old where they belong, and were written again: after a callback, as repair of a write, or by the sweep.",
	})
}
