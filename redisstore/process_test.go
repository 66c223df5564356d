package redisstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"testing"
	"time"

	"chronos/redisstore/endpoint"
	"chronos/scheduler/store"
	"chronos/scheduler/timer"
	"chronos/scheduler/verify/testkit"
)

// answered is when one request of a silent shard must have been answered.
const answered = time.Second

func options(log io.Writer, shards ...endpoint.Config) Options {
	return Options{Shards: shards, Node: "node-1", Lane: "http", Log: slog.New(slog.NewTextHandler(log, nil)), Deliveries: 1000}
}

// shardOf is the first database of a Redis as a shard.
func shardOf(name string, r *testkit.Redis) endpoint.Config {
	return endpoint.Config{Name: name, URL: r.URL}
}

func openShards(t *testing.T, log io.Writer, shards ...endpoint.Config) *Store {
	t.Helper()
	s, err := Open(t.Context(), options(log, shards...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func creation(key string, interval time.Duration) store.Write {
	return store.Write{
		Kind: store.WritePut, Shard: "a", Key: key, State: timer.State{Version: timer.VersionAt(time.Now(), 1), Seq: 1},
		RF: 1, DueIn: interval,
		Timer: &timer.Timer{Interval: interval, ReplicationFactor: 1, Callback: timer.Callback{URI: "http://localhost/" + key}},
	}
}

func deletion(key string) store.Write {
	return store.Write{
		Kind: store.WriteGone, Shard: "a", Key: key, State: timer.State{Version: timer.VersionAt(time.Now().Add(time.Second), 1)},
		RF: 1, Life: 2 * time.Minute,
	}
}

func merge(t *testing.T, s *Store, writes ...store.Write) {
	t.Helper()
	for i, answer := range s.Merge(t.Context(), writes) {
		if answer.Err != nil || answer.Status != store.WriteStored {
			t.Fatalf("merge of %s: status %d, %v", writes[i].Key, answer.Status, answer.Err)
		}
	}
}

func read(t *testing.T, s *Store, key string) store.ReadResult {
	t.Helper()
	return s.Read(t.Context(), spots(key))[0]
}

// works reports whether the shard takes and gives a timer.
func works(t *testing.T, s *Store, key string) bool {
	t.Helper()
	w := creation(key, time.Hour)
	if answer := s.Merge(t.Context(), []store.Write{w})[0]; answer.Err != nil {
		return false
	}
	return read(t, s, key).Err == nil
}

// claimAll claims due timers, nothing ahead of due.
func claimAll(ctx context.Context, s *Store, shard string) (store.ClaimResult, error) {
	return s.Claim(ctx, shard, store.ClaimRequest{Limit: 500, Grace: time.Second})
}

func terms() store.FenceTerms {
	return store.FenceTerms{Limit: 2 * time.Second, Hold: 3500 * time.Millisecond}
}

// fireAll takes claims through fence and settlement.
func fireAll(ctx context.Context, s *Store, shard string, claims []store.Claimed, outcome store.Outcome) error {
	fences := make([]store.Fence, len(claims))
	settlements := make([]store.Settlement, len(claims))
	for i, c := range claims {
		fences[i] = store.Fence{Lease: c.Lease, Pops: c.Record.Timer.Pops()}
		settlements[i] = store.Settlement{Lease: c.Lease, Outcome: outcome, Reason: "no more", Attempt: anAttempt(c.Lease.Key, 1)}
	}
	var errs []error
	for i, f := range s.Fire(ctx, shard, terms(), fences) {
		if f.Status != store.FencePassed {
			errs = append(errs, fmt.Errorf("fence of %s: status %d: %w", fences[i].Lease.Key, f.Status, f.Err))
		}
	}
	for i, o := range s.Settle(ctx, shard, settlements) {
		if !o.Accepted {
			errs = append(errs, fmt.Errorf("settlement of %s: holder %q: %w", settlements[i].Lease.Key, o.Holder, o.Err))
		}
	}
	return errors.Join(errs...)
}
