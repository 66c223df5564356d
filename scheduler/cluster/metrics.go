package cluster

import "github.com/prometheus/client_golang/prometheus"

var _ prometheus.Collector = (*Observer)(nil)

// The metrics of the last inspection of each shard.
//
//nolint:gochecknoglobals // as good as constants
var (
	problemOfShard = prometheus.NewDesc("chronos_shard_problem",
		"1 if a shard has the problem: evicts (timers when the memory is full), persists_nothing, same_redis (as another shard), clock (half a second or more off this machine's clock).",
		[]string{"shard", "problem"}, nil)
	clockOfShard = prometheus.NewDesc("chronos_clock_offset_seconds",
		"By how much a shard's clock is ahead of this machine's clock, at least; negative if the shard's clock is behind.", []string{"shard"}, nil)
)

// Describe is prometheus.Collector's.
func (o *Observer) Describe(to chan<- *prometheus.Desc) {
	to <- problemOfShard
	to <- clockOfShard
}

// Collect is prometheus.Collector's. A shard that has never answered has no metrics.
func (o *Observer) Collect(to chan<- prometheus.Metric) {
	o.mu.Lock()
	conditions := o.conditions
	o.mu.Unlock()
	for i := range conditions {
		c := &conditions[i]
		if !c.answered {
			continue
		}
		off := c.Facts.ClockAhead
		for problem, is := range map[string]bool{
			"evicts": c.Facts.Evicts, "persists_nothing": c.Facts.Persists == "none", "same_redis": c.Twin, "clock": off >= ClockAlarm || off <= -ClockAlarm,
		} {
			value := 0.
			if is {
				value = 1
			}
			to <- prometheus.MustNewConstMetric(problemOfShard, prometheus.GaugeValue, value, c.Name, problem)
		}
		to <- prometheus.MustNewConstMetric(clockOfShard, prometheus.GaugeValue, off.Seconds(), c.Name)
	}
}
