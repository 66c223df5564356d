//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"chronos/loadtest/bench/figure"
	"chronos/loadtest/bench/machine"
	"chronos/loadtest/child"
)

const (
	refillShard = "a shard that was wiped, of two"
	refillSite  = "a site of two shards that was wiped, 80 ms away"

	refilledCopies = 200_000
	refillLook     = 100 * time.Millisecond
	refillOutlasts = 5 * time.Minute
	keyPartitions  = 16
)

func refillSection() section {
	return section{
		name: "refill",
		table: figure.Table{
			Title: "Refill",
			Notes: []string{
				"200,000 copies of timers are lost: those of one of two shards, or those of both shards of a site, whose other site has the timers. Time from the loss until all copies are there again, " +
					"and all nodes are ready; two nodes in each site, nothing else to do, at the default CHRONOS_SWEEP_RATE.",
			},
			Columns: []figure.Column{{Metric: "seconds", Title: "s"}},
			Ours:    refillSite,
		},
		subjects: []subject{
			{name: refillShard, measure: ours(setup{nodes: 2, shards: 2, copies: 2}, refillOfShard)},
			{name: refillSite, measure: refillOfSite},
		},
	}
}

// refillOfShard measures how long one site needs for a shard that has lost its data.
func refillOfShard(ctx context.Context, b *bench, s *stack, add func(string, float64)) error {
	n := b.size(refilledCopies)
	if err := fill(ctx, s, n, true, func(i int) string { return s.timer(interval(time.Hour), callbackURI(nowhere, i)) }); err != nil {
		return err
	}
	lost := s.shards[1:]
	began, err := wipe(ctx, lost)
	if err != nil {
		return err
	}
	return awaitRefill(ctx, s, lost, n, began, add)
}

// refillOfSite measures how long a site needs for another site that has lost its data.
func refillOfSite(ctx context.Context, b *bench, add func(string, float64)) (err error) {
	s, err := b.startSites(ctx, 2)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	n := b.size(refilledCopies)
	// Small batches: all must be at the other site within the patience of a write.
	if err := fillInBatches(ctx, &s.stack, n/2, 100, batchConnections, func(i int) string { return s.timer(interval(time.Hour), callbackURI(nowhere, i)) }); err != nil {
		return err
	}
	lost := s.shards[len(s.shards)/2:]
	if err := await(ctx, lost, n); err != nil {
		return fmt.Errorf("before the loss: %w", err)
	}
	began, err := wipe(ctx, lost)
	if err != nil {
		return err
	}
	return awaitRefill(ctx, &s.stack, lost, n, began, add)
}

func wipe(ctx context.Context, shards []*machine.Redis) (began time.Time, err error) {
	began = time.Now()
	for _, r := range shards {
		err = errors.Join(err, r.Client.FlushAll(ctx).Err())
	}
	return began, err
}

// awaitRefill adds the time until the shards have n copies and all nodes are ready.
func awaitRefill(ctx context.Context, s *stack, shards []*machine.Redis, n int, began time.Time, add func(string, float64)) error {
	if err := await(ctx, shards, n); err != nil {
		return err
	}
	for _, node := range s.nodes {
		ready := child.Answers("http://" + node.Admin + "/readyz")
		for err := ready(ctx); err != nil; err = ready(ctx) {
			if time.Since(began) > refillOutlasts {
				return fmt.Errorf("after the refill: %w", err)
			}
			if err := pause(ctx, refillLook); err != nil {
				return err
			}
		}
	}
	add("seconds", time.Since(began).Seconds())
	return nil
}

// await waits until the shards have n copies together.
func await(ctx context.Context, shards []*machine.Redis, n int) error {
	has := 0
	for end := time.Now().Add(refillOutlasts); time.Now().Before(end); {
		has = 0
		for _, r := range shards {
			for p := range keyPartitions {
				copies, err := r.Client.HLen(ctx, fmt.Sprintf("chronos:{http.%02d}:timers", p)).Result()
				if err != nil {
					return fmt.Errorf("count copies: %w", err)
				}
				has += int(copies)
			}
		}
		if has >= n {
			return nil
		}
		if err := pause(ctx, refillLook); err != nil {
			return err
		}
	}
	return fmt.Errorf("%d copies of %d after %s", has, n, refillOutlasts)
}
