//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"chronos/loadtest/bench/figure"
	"chronos/loadtest/bench/machine"
	"chronos/loadtest/bench/pending"
)

const (
	claimed     = 20_000 // timers a round
	claimRounds = 5      // the median of the rounds counts
	fewPending  = 10_000
	manyPending = 1_000_000
	mostPending = 10_000_000
	idleSpan    = 5 * time.Second // how long a node runs before its memory is read
	claimColumn = "claim_us"
)

func pendingName(n int) string { return figure.Number(float64(n)) + " pending" }

func claimSection() section {
	s := section{
		name: "claim",
		once: true,
		table: figure.Table{
			Title: "Cost of a claim, and the node's memory, against the number of pending timers",
			Notes: []string{
				"Redis' own time (commandstats) in the claim script, 500 timers a call, for each of 20,000 due timers among those that are due in days; the median of five rounds. " +
					"The node's resident memory after 5 s on that Redis.",
			},
			Columns: []figure.Column{{Metric: claimColumn, Title: "µs a claimed timer"}, {Metric: "node_mb", Title: "node MB"}, {Metric: "pending", Title: "pending"}},
			Ours:    pendingName(fewPending),
		},
	}
	for _, n := range []int{fewPending, manyPending, mostPending} {
		s.subjects = append(s.subjects, subject{name: pendingName(n), measure: claimAmong(n)})
	}
	return s
}

// claimAmong measures the cost of a claim among n pending timers. -quick divides a large n by ten,
// and leaves out the largest.
func claimAmong(n int) func(context.Context, *bench, func(string, float64)) error {
	return func(ctx context.Context, b *bench, add func(string, float64)) (err error) {
		if b.quick && n > fewPending {
			if n /= 10; n > manyPending/10 {
				return fmt.Errorf("%w with -quick", errAbsent)
			}
		}
		store, err := machine.StartRedis(ctx, b.dir, false)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, store.Stop()) }()
		body := `{"uri":"` + callbackURI(nowhere, 0) + `","opaque":"` + strings.Repeat("x", 100) + `"}`
		shard, err := pending.New(ctx, store.Client, body)
		if err != nil {
			return err
		}
		if err := shard.Fill(ctx, n, 48*time.Hour, 24*time.Hour); err != nil {
			return err
		}
		if err := shard.Grow(ctx, n); err != nil {
			return err
		}
		cost, err := claimCost(ctx, store, shard)
		if err != nil {
			return err
		}
		add(claimColumn, cost)
		mb, err := b.idleMemory(ctx, store)
		if err != nil {
			return err
		}
		add("node_mb", mb)
		add("pending", float64(n))
		return nil
	}
}

// claimCost is the time of Redis for a claimed timer, in µs: the median of the rounds.
func claimCost(ctx context.Context, store *machine.Redis, shard *pending.Shard) (float64, error) {
	var costs []float64
	for range claimRounds {
		keys, err := shard.MakeDue(ctx, claimed)
		if err != nil {
			return 0, err
		}
		if err := store.Client.ConfigResetStat(ctx).Err(); err != nil {
			return 0, fmt.Errorf("measure claims: %w", err)
		}
		if err := shard.Claim(ctx, claimed); err != nil {
			return 0, err
		}
		took, err := store.ScriptTime(ctx)
		if err != nil {
			return 0, err
		}
		costs = append(costs, float64(took.Microseconds())/claimed)
		if err := shard.Remove(ctx, keys); err != nil {
			return 0, err
		}
	}
	return figure.Median(costs), nil
}

// idleMemory is the memory of an idle node, in MB, some time after the start.
func (b *bench) idleMemory(ctx context.Context, store *machine.Redis) (mb float64, err error) {
	node, err := machine.StartNode(ctx, b.dir, b.node, []*machine.Redis{store})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, node.Stop()) }()
	if err := pause(ctx, idleSpan); err != nil {
		return 0, err
	}
	now, _, err := machine.Memory(node.PID())
	return float64(now) / 1e6, err
}
