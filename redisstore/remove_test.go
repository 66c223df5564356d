package redisstore

import (
	"slices"
	"strings"
	"testing"
	"time"

	"chronos/scheduler/store"
	"chronos/scheduler/verify/testkit"
)

// A shard is removed once it is empty.
func TestAShardWithCopiesIsNotRemoved(t *testing.T) {
	t.Parallel()
	l := storesOn(t, "a", "b", "c")
	s := l.node("a", "b", "c")
	w := creation("k", time.Hour)
	w.Shard = "c"
	if got := s.Merge(t.Context(), []store.Write{w})[0]; got.Err != nil {
		t.Fatal(got.Err)
	}
	l.drain(s, "c")
	l.wantActive(8*time.Second, "a", "b")
	testkit.Eventually(t, 5*time.Second, "a refusal that says what is left", func() bool {
		_, err := s.RemoveShard(t.Context(), "c", false)
		if err == nil {
			t.Fatal("removed")
		}
		return strings.Contains(err.Error(), "still has 1 copies")
	})
	gone := w
	gone.Kind, gone.Timer = store.WriteDrop, nil
	if got := s.Merge(t.Context(), []store.Write{gone})[0]; got.Status != store.WriteStored {
		t.Fatalf("%+v", got)
	}
	if _, err := s.RemoveShard(t.Context(), "c", false); err != nil {
		t.Fatal(err)
	}
	if now := s.Topology(); len(now.Shards) != 2 || slices.Contains(s.Shards(), "c") {
		t.Errorf("left: %+v", now)
	}
}
