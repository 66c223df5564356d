package scheduler_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"chronos/scheduler/store"
	"chronos/scheduler/storetest"
	"chronos/scheduler/timer"
)

// busyStore is a store whose shards do one call after the other, each for a time that grows with
// the number of timers.
type busyStore struct {
	store.Store
	turns map[string]chan struct{} // by shard; has a token while the shard is free
}

// busyFor is how long a shard works for a timer of a call.
const busyFor = 100 * time.Microsecond

// do does a call about so many timers when the shard comes to the call, unless ctx ends before.
func (s busyStore) do(ctx context.Context, shard string, call func() (timers int)) error {
	select {
	case <-s.turns[shard]:
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", timer.ErrUnavailable, context.Cause(ctx))
	}
	time.Sleep(time.Duration(call()+1) * busyFor)
	s.turns[shard] <- struct{}{}
	return nil
}

func (s busyStore) Claim(ctx context.Context, shard string, req store.ClaimRequest) (result store.ClaimResult, err error) {
	given := s.do(ctx, shard, func() int {
		result, err = s.Store.Claim(ctx, shard, req)
		return len(result.Claims)
	})
	if given != nil {
		return store.ClaimResult{}, given
	}
	return result, err
}

func (s busyStore) Ask(ctx context.Context, shard string, states []store.KeyState) (differences []store.Difference, err error) {
	given := s.do(ctx, shard, func() int {
		differences, err = s.Store.Ask(ctx, shard, states)
		return len(states)
	})
	if given != nil {
		return nil, given
	}
	return differences, err
}

func (s busyStore) Fire(ctx context.Context, shard string, terms store.FenceTerms, fences []store.Fence) (answers []store.Fenced) {
	err := s.do(ctx, shard, func() int {
		answers = s.Store.Fire(ctx, shard, terms, fences)
		return len(fences)
	})
	if err != nil {
		return slices.Repeat([]store.Fenced{{Status: store.FenceFailed, Err: err}}, len(fences))
	}
	return answers
}

func (s busyStore) Tell(ctx context.Context, shard string, writes []store.Write) (answers []store.Written) {
	err := s.do(ctx, shard, func() int {
		answers = s.Store.Tell(ctx, shard, writes)
		return len(writes)
	})
	if err != nil {
		return slices.Repeat([]store.Written{{Err: err}}, len(writes))
	}
	return answers
}

func (s busyStore) Settle(ctx context.Context, shard string, settlements []store.Settlement) (answers []store.Settled) {
	err := s.do(ctx, shard, func() int {
		answers = s.Store.Settle(ctx, shard, settlements)
		return len(settlements)
	})
	if err != nil {
		return slices.Repeat([]store.Settled{{Err: err}}, len(settlements))
	}
	return answers
}

// TestNodesWithMoreThanTheirShardsCanDo: several nodes find far more timers due than their shards
// can carry out within a lease. No node takes so many that leases end in hand: every timer is
// called back once.
func TestNodesWithMoreThanTheirShardsCanDo(t *testing.T) {
	for _, shards := range [][]string{{"a"}, {"a", "b"}} {
		t.Run(fmt.Sprint(len(shards), " shards"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, r := storetest.NewModel(shards...), &recorder{}
				const nodes, timers = 4, 16_000
				turns := map[string]chan struct{}{}
				for _, shard := range shards {
					turns[shard] = make(chan struct{}, 1)
					turns[shard] <- struct{}{}
				}
				due := time.Now().Add(20 * time.Second)
				first := startNode(t, m.Open("node-0"), "node-0", r)
				for range timers {
					create(t, first, timer.Timer{At: due, ReplicationFactor: len(shards), Callback: timer.Callback{URI: "http://receiver/"}})
				}
				first.stop()
				for i := range nodes {
					name := fmt.Sprintf("node-%d", i+1)
					startNode(t, busyStore{m.Open(name), turns}, name, r)
				}
				pass(time.Until(due) + 20*time.Second)
				calls := map[string]int{}
				for _, a := range r.seen() {
					calls[a.ID.Key]++
				}
				if len(calls) != timers || len(r.seen()) != timers {
					t.Errorf("%d callbacks of %d timers, want one for each of %d", len(r.seen()), len(calls), timers)
				}
			})
		})
	}
}
