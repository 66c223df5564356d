package redisstore

import (
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"chronos/redisstore/shard"
	"chronos/scheduler/measure"
)

// metrics are the metrics of a store, and count the same with and without a registry.
type metrics struct {
	duration *prometheus.HistogramVec // by shard and script

	mu    sync.Mutex
	known []string // shards
}

func newMetrics(r prometheus.Registerer) (*metrics, error) {
	m := &metrics{duration: prometheus.NewHistogramVec(measure.Native(prometheus.HistogramOpts{
		Name:    "chronos_redis_duration_seconds",
		Help:    "How long a shard took to answer a script, the way there and back included: claim, fire, settle, merge, or other. Scripts that are sent together are answered together.",
		Buckets: []float64{.0005, .001, .0025, .01, .05, .25},
	}), []string{"shard", "script"})}
	if r == nil {
		return m, nil
	}
	return m, r.Register(m.duration) //nolint:wrapcheck // Open wraps the error
}

// keep forgets the shards of before that are gone.
func (m *metrics) keep(shards []*shard.Shard) {
	names := make([]string, len(shards))
	for i, sh := range shards {
		names[i] = sh.Name()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, name := range m.known {
		if !slices.Contains(names, name) {
			m.duration.DeletePartialMatch(prometheus.Labels{"shard": name})
		}
	}
	m.known = names
}
