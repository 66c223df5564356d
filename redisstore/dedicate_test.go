package redisstore

import (
	"errors"
	"testing"
	"time"

	"chronos/scheduler/store"
	"chronos/scheduler/timing"
	"chronos/scheduler/verify/heldup"
)

// A deliverer kind's timers keep their purpose as long as a node with the purpose lives, whichever shard knows of
// the node.
func TestDedicate(t *testing.T) {
	t.Parallel()
	l := storesOn(t, "a", "b")
	first := l.node("a", "b")
	if err := first.Dedicate(t.Context(), "tea"); err != nil {
		t.Fatal(err)
	}
	beat := func() {
		if _, err := first.Beat(t.Context(), "b", store.Announcement{Clock: time.Now()}); err != nil {
			t.Error(err)
		}
	}
	beat()
	same, other := l.node("a", "b"), l.node("a", "b")
	if err := same.Dedicate(t.Context(), "tea"); err != nil {
		t.Error(err)
	}
	if err := other.Dedicate(t.Context(), "coffee"); !errors.Is(err, ErrDedicated) {
		t.Errorf("%v, want that it is for tea", err)
	}
	// A node that has started, and announces itself only now.
	if err := first.Leave(t.Context(), "b"); err != nil {
		t.Fatal(err)
	}
	late := time.AfterFunc(timing.NodeLife/2, beat)
	defer late.Stop()
	if err := other.Dedicate(t.Context(), "coffee"); !errors.Is(err, ErrDedicated) {
		t.Errorf("%v, want that it is for tea", err)
	}
	if err := first.Leave(t.Context(), "b"); err != nil {
		t.Fatal(err)
	}
	if err := other.Dedicate(t.Context(), "coffee"); err != nil {
		t.Errorf("%v, though nobody is for tea any more", err)
	}
	watch, begun := heldup.Begin(t), time.Now()
	if err := other.Dedicate(t.Context(), "coffee"); err != nil {
		t.Errorf("%v, want nothing", err)
	}
	watch.AtMost(t, begun, "the answer", time.Since(begun), timing.NodeLife/2)
}
