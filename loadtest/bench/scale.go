//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"

	"chronos/loadtest/bench/figure"
)

const scaleBurst = 50_000

func scaleSection() section {
	s := section{
		name: "scale",
		table: figure.Table{
			Title: "Nodes and shards",
			Notes: []string{
				"All on this one machine, so more of them shows what they cost, not what they would bring on machines of their own. " +
					"Create as above, and a burst of 50,000; appendfsync everysec.",
			},
			Columns: []figure.Column{{Metric: "create", Title: "creates/s"}, {Metric: "burst", Title: "callbacks/s"}},
			Ours:    scaleName(1, 1),
		},
	}
	for _, k := range []struct{ nodes, shards int }{{1, 1}, {2, 1}, {4, 1}, {1, 2}, {1, 4}} {
		s.subjects = append(s.subjects, subject{name: scaleName(k.nodes, k.shards), measure: scale(k.nodes, k.shards)})
	}
	return s
}

func scaleName(nodes, shards int) string {
	return fmt.Sprintf("nodes: %d, shards: %d", nodes, shards)
}

// scale measures creates and a burst, each on a fresh stack.
func scale(nodes, shards int) func(context.Context, *bench, func(string, float64)) error {
	renamed := func(add func(string, float64), name string) func(string, float64) {
		return func(metric string, value float64) {
			if metric == "rate" {
				add(name, value)
			}
		}
	}
	return func(ctx context.Context, b *bench, add func(string, float64)) error {
		return errors.Join(
			ours(nodes, shards, true, createClosed)(ctx, b, renamed(add, "create")),
			ours(nodes, shards, true, burst(scaleBurst, false))(ctx, b, renamed(add, "burst")),
		)
	}
}
