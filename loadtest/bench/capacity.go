//go:build linux

package main

import (
	"fmt"
	"math"
	"strings"

	"chronos/loadtest/bench/figure"
	"chronos/loadtest/page"
)

// What docs/capacity.md supposes of a deployment.
const (
	capacityHour   = 3600 // seconds in which every timer is created once and called back once
	capacityCopies = 2
	capacityBusy   = 0.5      // of a core: the rest is for bursts, and for the work of a lost machine
	capacityData   = 16 << 30 // bytes in one Redis
	capacityCores  = 4        // of a node
	capacityLinks  = 80       // connections of a node to a Redis
	capacitySweep  = 5000     // copies a second that a node looks at (CHRONOS_SWEEP_RATE)
	capacityLeast  = 2        // Redis, and nodes: one may be lost
)

// unitCosts are the measured figures for a timer with two copies.
type unitCosts struct {
	bytes       float64 // of a copy
	redis, node float64 // µs for a create and a callback
}

// unitCostsOf takes the costs from the figures; ok is false if one was not measured.
func unitCostsOf(f *figure.Figures) (c unitCosts, ok bool) {
	ok = true
	median := func(section, subject, metric string) float64 {
		value, measured := f.Median(section, subject, metric)
		ok = ok && measured
		return value
	}
	c.bytes = median("memory", "chronos", "bytes")
	c.redis = median("create", oursTwo, redisCost) + median("burst", oursTwo, redisCost)
	c.node = median("create", oursTwo, nodeCost) + median("burst", oursTwo, nodeCost)
	return c, ok
}

// need is what a number of pending timers needs.
type need struct {
	rate                  float64 // creates a second, and as many callbacks
	copies, bytes         float64
	redisCores, nodeCores float64 // busy
	byMemory, byProcessor float64 // Redis
	redis, nodes          float64
	links                 float64 // connections of each Redis
	sweepHours            float64
}

func (c unitCosts) need(timers float64) (n need) {
	n.rate, n.copies = timers/capacityHour, timers*capacityCopies
	n.bytes = n.copies * c.bytes
	n.redisCores, n.nodeCores = n.rate*c.redis/1e6, n.rate*c.node/1e6
	n.byMemory, n.byProcessor = math.Ceil(n.bytes/capacityData), math.Ceil(n.redisCores/capacityBusy)
	n.redis = max(n.byMemory, n.byProcessor, capacityLeast)
	n.nodes = max(math.Ceil(n.nodeCores/capacityBusy/capacityCores), capacityLeast)
	n.links = n.nodes * capacityLinks
	n.sweepHours = n.copies / (n.nodes * capacitySweep) / 3600
	return n
}

// capacityTable works out step by step what a million, a hundred million and a billion timers need; "" without figures.
func capacityTable(f *figure.Figures) string {
	costs, ok := unitCostsOf(f)
	if !ok {
		return ""
	}
	number := func(v float64) string { return figure.Number(threeDigits(v)) }
	steps := []struct {
		what string
		of   func(n need) float64
	}{
		{"creates a second, and as many callbacks: timers ÷ 3,600 s", func(n need) float64 { return n.rate }},
		{"copies: 2 of each timer", func(n need) float64 { return n.copies }},
		{fmt.Sprintf("memory of all Redis, GiB: copies × %s B", number(costs.bytes)), func(n need) float64 { return n.bytes / (1 << 30) }},
		{"Redis by memory: 16 GiB each", func(n need) float64 { return n.byMemory }},
		{fmt.Sprintf("busy cores of all Redis: rate × %s µs", number(costs.redis)), func(n need) float64 { return n.redisCores }},
		{"Redis by processor time: half a core each", func(n need) float64 { return n.byProcessor }},
		{"**Redis: the greater number, at least 2**", func(n need) float64 { return n.redis }},
		{fmt.Sprintf("busy cores of all nodes: rate × %s µs", number(costs.node)), func(n need) float64 { return n.nodeCores }},
		{"**nodes: half of 4 cores each, at least 2**", func(n need) float64 { return n.nodes }},
		{"connections to each Redis: nodes × 80", func(n need) float64 { return n.links }},
		{"hours of a sweep over all copies: copies ÷ (nodes × 5,000/s)", func(n need) float64 { return n.sweepHours }},
	}
	all := []float64{1e6, 1e8, 1e9}
	var out strings.Builder
	out.WriteString("| step |")
	for _, timers := range all {
		fmt.Fprintf(&out, " %s timers |", figure.Number(timers))
	}
	out.WriteString("\n|---|---:|---:|---:|\n")
	for _, s := range steps {
		fmt.Fprintf(&out, "| %s |", page.Cell(s.what))
		for _, timers := range all {
			fmt.Fprintf(&out, " %s |", number(s.of(costs.need(timers))))
		}
		out.WriteByte('\n')
	}
	return out.String()
}
