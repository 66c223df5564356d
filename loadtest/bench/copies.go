//go:build linux

package main

import (
	"context"

	"chronos/loadtest/bench/figure"
)

const (
	oneCopyOneShard   = "one copy, one shard"
	oneCopyTwoShards  = "one copy, two shards"
	twoCopiesTwoShard = "two copies, two shards"
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
				{Metric: "node_us", Title: "node, CPU µs each"}, {Metric: "redis_us", Title: "redis-servers, CPU µs each"},
				{Metric: "burst", Title: "callbacks/s"}, {Metric: "burst_node_us", Title: "node, CPU µs each"},
				{Metric: "burst_redis_us", Title: "redis-servers, CPU µs each"},
			},
			Ours: twoCopiesTwoShard,
		},
	}
	for _, k := range []struct {
		name           string
		shards, copies int
	}{{oneCopyOneShard, 1, 1}, {oneCopyTwoShards, 2, 1}, {twoCopiesTwoShard, 2, 2}} {
		s.subjects = append(s.subjects, subject{name: k.name, measure: withCopies(k.shards, k.copies)})
	}
	return s
}

// withCopies measures creates and a burst, each on a fresh stack.
func withCopies(shards, copies int) func(context.Context, *bench, func(string, float64)) error {
	return func(ctx context.Context, b *bench, add func(string, float64)) error {
		err := ours(1, shards, true, func(ctx context.Context, b *bench, s *stack, add func(string, float64)) error {
			s.copies = copies
			return createClosed(ctx, b, s, add)
		})(ctx, b, add)
		if err != nil {
			return err
		}
		return ours(1, shards, true, func(ctx context.Context, b *bench, s *stack, add func(string, float64)) error {
			s.copies = copies
			return burst(burstSize, false)(ctx, b, s, func(metric string, value float64) {
				switch metric {
				case "rate":
					add("burst", value)
				case "node_us", "redis_us":
					add("burst_"+metric, value)
				}
			})
		})(ctx, b, add)
	}
}
