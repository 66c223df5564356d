//go:build linux

package pending_test

import (
	"testing"
	"time"

	"chronos/loadtest/bench/machine"
	"chronos/loadtest/bench/pending"
	"chronos/scheduler/verify/testkit"
)

// Package pending must agree with the scripts about arguments and records.
func TestClaimFindsWhatIsDueAndNothingElse(t *testing.T) {
	testkit.Program(t, "redis-server")
	store, err := machine.StartRedis(t.Context(), t.TempDir(), false)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := store.Stop(); err != nil {
			t.Error(err)
		}
	}()
	shard, err := pending.New(t.Context(), store.Client, `{"uri":"http://127.0.0.1:9000/x"}`)
	if err != nil {
		t.Fatal(err)
	}
	if err := shard.Fill(t.Context(), 5000, time.Hour, time.Hour); err != nil {
		t.Fatal(err)
	}
	for range 2 { // removed timers must not come again
		const n = 10_000 // more than a single call takes in each partition
		made, err := shard.MakeDue(t.Context(), n)
		if err != nil {
			t.Fatal(err)
		}
		if err := shard.Claim(t.Context(), n); err != nil {
			t.Error(err)
		}
		if err := shard.Remove(t.Context(), made); err != nil {
			t.Fatal(err)
		}
	}
	left, err := store.Client.ZCard(t.Context(), "chronos:{http.00}:due").Result()
	if err != nil || left < 200 || left > 450 { // a sixteenth of 5000
		t.Errorf("%d are left in a partition, %v", left, err)
	}
	if took, err := store.ScriptTime(t.Context()); err != nil || took <= 0 {
		t.Errorf("scripts took %s, %v", took, err)
	}
}
