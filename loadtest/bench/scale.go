//go:build linux

package main

import (
	"context"
	"fmt"
	"slices"

	"chronos/loadtest/bench/figure"
)

const (
	scaleShardRate = 200  // timers a second for each shard
	scaleNodeRate  = 1000 // timers a second for all nodes together
)

func scaleSection() section {
	s := section{
		name: "scale",
		table: figure.Table{
			Title: "Nodes and shards",
			Notes: []string{
				fmt.Sprintf("Two copies of each timer, on redis-servers on this one machine; appendfsync everysec. Timers are created at %d/s for each Redis, "+
					"or at %s/s for all nodes together, and called 1 to 3 s later; the processor time is for a create and a callback together. "+
					"Most of the time is that of polls as long as the load is low, so look at how the time grows.",
					scaleShardRate, figure.Number(scaleNodeRate)),
			},
			Columns: slices.Concat(costColumns(nodeCost, redisCost, receiverCost), []figure.Column{
				{Metric: "p50_ms", Title: "lateness p50 ms"}, {Metric: "p999_ms", Title: "p99.9 ms"}, {Metric: "early", Title: "early"},
			}),
			Ours: scaleShards(2),
		},
	}
	s.subjects = append(s.subjects, subject{name: scaleOne, measure: scale(oneCopy(), scaleShardRate)})
	for _, n := range []int{2, 4, 8, 16} {
		s.subjects = append(s.subjects, subject{name: scaleShards(n), measure: scale(with(n, 2), scaleShardRate*n)})
	}
	for _, n := range []int{1, 2, 4, 8} {
		s.subjects = append(s.subjects, subject{name: scaleNodes(n), measure: scale(setup{nodes: n, shards: 2, copies: 2}, scaleNodeRate)})
	}
	return s
}

const scaleOne = "1 Redis, one copy, 200/s"

func scaleShards(n int) string {
	return fmt.Sprintf("%d Redis, %s/s", n, figure.Number(float64(n*scaleShardRate)))
}

func scaleNodes(n int) string { return fmt.Sprintf("nodes: %d, %s/s", n, figure.Number(scaleNodeRate)) }

// scale measures a steady load.
func scale(on setup, rate int) func(context.Context, *bench, func(string, float64)) error {
	return ours(on, late(rate, 0))
}
