//go:build linux

package main

import (
	"strings"
	"testing"

	"chronos/loadtest/bench/figure"
)

func TestCapacityIsWorkedOutFromTheFigures(t *testing.T) {
	var f figure.Figures
	if got := capacityTable(&f); got != "" {
		t.Errorf("without figures: %s", got)
	}
	f.Add("memory", "chronos", "bytes", 500)
	for metric, us := range map[string]float64{redisCost: 30, nodeCost: 45} {
		f.Add("create", oursTwo, metric, us)
		f.Add("burst", oursTwo, metric, us)
	}
	got := capacityTable(&f)
	for _, line := range []string{
		"| step | 1,000,000 timers | 100,000,000 timers | 1,000,000,000 timers |",
		"| creates a second, and as many callbacks: timers ÷ 3,600 s | 278 | 27,800 | 278,000 |",
		"| memory of all Redis, GiB: copies × 500 B | 0.93 | 93.1 | 931 |",
		"| Redis by memory: 16 GiB each | 1 | 6 | 59 |",
		"| busy cores of all Redis: rate × 60 µs | 0.017 | 1.67 | 16.7 |",
		"| Redis by processor time: half a core each | 1 | 4 | 34 |",
		"| **Redis: the greater number, at least 2** | 2 | 6 | 59 |",
		"| **nodes: half of 4 cores each, at least 2** | 2 | 2 | 13 |",
		"| connections to each Redis: nodes × 80 | 160 | 160 | 1,040 |",
		"| hours of a sweep over all copies: copies ÷ (nodes × 5,000/s) | 0.056 | 5.56 | 8.55 |",
	} {
		if !strings.Contains(got, line+"\n") {
			t.Errorf("no line %q in\n%s", line, got)
		}
	}
	wantMeasured(t, "memory", "chronos", "bytes")
}
