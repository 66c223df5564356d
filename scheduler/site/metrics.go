package site

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"chronos/scheduler/shard"
	"chronos/scheduler/timer"
)

// metrics count what happens with the other sites. Without sites no metric has a series.
type metrics struct {
	s *Sites
	// The gauges are read with a scrape.
	reached, inTouch, oldest, hollow *prometheus.Desc
	// By the name of the other site.
	unconfirmed, told, dropped, filled, lost *prometheus.CounterVec
}

func newMetrics(s *Sites) *metrics {
	counter := func(name, help string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{"site"})
	}
	gauge := func(name, help string) *prometheus.Desc { return prometheus.NewDesc(name, help, []string{"site"}, nil) }
	return &metrics{
		s: s,

		reached: gauge("chronos_site_reached", "1 if this node reaches the other site."),
		inTouch: gauge("chronos_site_in_touch", "1 if this node has read within 1.2 s that nothing older than 0.5 s waits at the other site for its own site."),
		oldest:  gauge("chronos_site_oldest_mark_seconds", "How long the oldest write or outcome has waited for the other site to be told; 0 if none waits."),
		hollow:  gauge("chronos_site_hollow", "1 if the node's own site has lost all timers and waits until another site has filled it."),

		unconfirmed: counter("chronos_site_unconfirmed_writes_total", "Writes that the site had not confirmed in time, and is told of later."),
		told:        counter("chronos_site_marks_told_total", "Writes and outcomes that had been noted for the other site, and that the site was told of."),
		dropped:     counter("chronos_site_outcomes_dropped_total", "Outcomes of callbacks that the other site was not told of, since the site was not reached or too many waited. A copy there compares before its callback."),
		filled:      counter("chronos_site_timers_filled_total", "Timers that this node has brought to the other site since shards there had lost their timers; a timer counts once for each copy in the node's own site."),
		lost:        counter("chronos_site_writes_lost_total", "Acknowledged writes, at either site, of which one site was not told in time, and in whose place a later write is in force."),
	}
}

// Collectors are the metrics.
func (s *Sites) Collectors() []prometheus.Collector {
	m := s.metrics
	return []prometheus.Collector{m, m.unconfirmed, m.told, m.dropped, m.filled, m.lost}
}

// Describe is prometheus.Collector's.
func (m *metrics) Describe(to chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{m.reached, m.inTouch, m.oldest, m.hollow} {
		to <- desc
	}
}

// Collect is prometheus.Collector's.
func (m *metrics) Collect(to chan<- prometheus.Metric) {
	if m.s.None() {
		return
	}
	now := m.s.config.SinceBoot()
	gauge := func(desc *prometheus.Desc, site string, value float64) {
		to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, site)
	}
	gauge(m.hollow, m.s.ownName(), oneIf(m.s.Hollow()))
	for name, o := range m.s.all() {
		_, _, inTouch := o.inTouch(now)
		gauge(m.reached, name, oneIf(o.reached()))
		gauge(m.inTouch, name, oneIf(inTouch))
		gauge(m.oldest, name, o.waiting.age(now).Seconds())
	}
}

func oneIf(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// add counts n, unless there is nothing to count: a site for which nothing has happened has no series.
func add(counter *prometheus.CounterVec, site string, n int) {
	if n > 0 {
		counter.WithLabelValues(site).Add(float64(n))
	}
}

// replaces reports whether a state takes the place of another version.
func replaces(after, before timer.State) bool {
	return before.Version != 0 && before.Version != after.Version && before.Lacks(after)
}

// countLost counts the writes at a site that were replaced though the other side of the replacement had not been told of
// them: the site still has a mark for the other side.
func (o *Other) countLost(ctx context.Context, at *Site, side string, replaced []timer.ID) {
	keys := map[string][]string{}
	for _, id := range replaced {
		for _, p := range at.Shards.Homes(id.WithoutHint()) {
			if !p.Shard.Away() {
				keys[p.Shard.Name] = append(keys[p.Shard.Name], id.Key)
			}
		}
	}
	lost := map[string]bool{}
	for name, asked := range keys {
		marked, err := at.Shards.Store.Marked(ctx, name, side, asked)
		for i, is := range marked {
			if err == nil && is {
				lost[asked[i]] = true
			}
		}
	}
	add(o.s.metrics.lost, o.Name, len(lost))
}

// forget removes the series of a site that is gone.
func (m *metrics) forget(site string) {
	for _, counter := range []*prometheus.CounterVec{m.unconfirmed, m.told, m.dropped, m.filled, m.lost} {
		counter.DeleteLabelValues(site)
	}
}

// waiting is since when the oldest mark for a site waits on each shard of the own site.
type waiting struct {
	mu     sync.Mutex
	shards map[*shard.Shard]time.Duration // since boot
}

// note notes the age of the oldest mark on a shard; a negative age if there is none.
func (w *waiting) note(sh *shard.Shard, now, age time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if age < 0 {
		delete(w.shards, sh)
		return
	}
	if w.shards == nil {
		w.shards = map[*shard.Shard]time.Duration{}
	}
	w.shards[sh] = now - age
}

// some reports whether marks wait.
func (w *waiting) some() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.shards) > 0
}

// age is the age of the oldest mark; 0 if none waits.
func (w *waiting) age(now time.Duration) (oldest time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, since := range w.shards {
		oldest = max(oldest, now-since)
	}
	return oldest
}
