//go:build linux

package main

import (
	"context"

	"chronos/loadtest/bench/figure"
)

func copiesSection() section {
	s := section{
		name: "copies",
		table: figure.Table{
			Title: "Copies",
			Notes: []string{
				"Create by 128 connections, and a burst of 100,000, with one copy of each timer and with two, on redis-servers on this one machine; appendfsync everysec.",
			},
			Columns: []figure.Column{
				{Metric: "rate", Title: "creates/s"}, {Metric: "p99_ms", Title: "p99 ms"},
				{Metric: nodeCost, Title: "node, CPU µs each"}, {Metric: redisCost, Title: "Redis, CPU µs each"},
				{Metric: "burst", Title: "callbacks/s"}, {Metric: "burst_" + nodeCost, Title: "node, CPU µs each"},
				{Metric: "burst_" + redisCost, Title: "Redis, CPU µs each"}, {Metric: "burst_" + receiverCost, Title: "receiver, CPU µs each"},
			},
			Ours: oursTwo,
		},
	}
	for _, k := range []struct {
		name string
		on   setup
	}{{oursTwo, twoCopies()}, {oursSpread, oneOfTwo()}, {oursOne, oneCopy()}} {
		s.subjects = append(s.subjects, subject{name: k.name, measure: withCopies(k.on)})
	}
	return s
}

// withCopies measures creates and a burst, each on a fresh stack.
func withCopies(on setup) func(context.Context, *bench, func(string, float64)) error {
	return func(ctx context.Context, b *bench, add func(string, float64)) error {
		if err := ours(on, createClosed)(ctx, b, add); err != nil {
			return err
		}
		return ours(on, burst(burstSize, false))(ctx, b, func(metric string, value float64) {
			switch metric {
			case "rate":
				add("burst", value)
			case nodeCost, redisCost, receiverCost:
				add("burst_"+metric, value)
			}
		})
	}
}
