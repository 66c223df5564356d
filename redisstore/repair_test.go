package redisstore

import (
	"testing"
	"time"

	"chronos/scheduler/store"
	"chronos/scheduler/verify/testkit"
)

// A shard that has restarted, or lost all, says so until somebody wants a sweep of the shard. The shard also says
// how long the shard was left alone.
func TestARestartIsRecognised(t *testing.T) {
	t.Parallel()
	l := storesOn(t, "a")
	s := l.node("a")
	state := func() (state store.SweepState) {
		t.Helper()
		testkit.Eventually(t, testkit.Soon, "the state of the sweep", func() (ok bool) {
			var err error
			state, err = s.Swept(t.Context(), "a")
			return err == nil
		})
		return state
	}
	restarted := func(what string) (now store.SweepState) {
		t.Helper()
		testkit.Eventually(t, testkit.Soon, what+" to be recognised", func() bool { // the call that connects anew is not told
			now = state()
			return now.Restarted
		})
		return now
	}
	want := func() {
		t.Helper()
		if err := s.WantSweep(t.Context(), "a", 3*time.Second); err != nil {
			t.Fatal(err)
		}
		if now := state(); now.Restarted || now.WantedMs == 0 || now.Missed < 3*time.Second || now.Done(0, 0) {
			t.Errorf("wanted, it is %+v", now)
		}
	}
	if !state().Restarted {
		t.Error("one that nobody has seen before is not said to have restarted")
	}
	if _, err := s.Beat(t.Context(), "a", store.Announcement{Clock: time.Now()}); err != nil {
		t.Fatal(err)
	}
	want()
	for what, lose := range map[string]func(){
		"killed": func() { l.redis["a"].Kill(); l.redis["a"].Start() },
		"wiped":  func() { l.redis["a"].Do("FLUSHALL") },
	} {
		lose()
		restarted(what)
		want()
	}
	// The shard was left alone for longer than the noted time of missed writes: the longer time counts.
	l.redis["a"].Do("ZADD", nodesKey("http"), time.Now().Add(-time.Hour).UnixMilli(), "another")
	l.redis["a"].Do("ZREM", nodesKey("http"), s.node)
	if _, err := s.Beat(t.Context(), "a", store.Announcement{Clock: time.Now()}); err != nil {
		t.Fatal(err)
	}
	l.redis["a"].Kill()
	l.redis["a"].Start()
	if now := restarted("killed"); now.Missed < 50*time.Minute {
		t.Errorf("it missed %v, want an hour", now.Missed)
	}
	want()
	mark := store.SweepMark{Epoch: 7, AtMs: state().NowMs}
	for p := range Partitions {
		if now := state(); now.Missed == 0 || now.Done(p, 0) {
			t.Errorf("before partition %d is marked: %+v", p, now)
		}
		if err := s.MarkSwept(t.Context(), "a", p, mark); err != nil {
			t.Fatal(err)
		}
	}
	if now := state(); now.Missed != 0 || now.Restarted || !now.Done(3, 7) || now.Done(3, 8) {
		t.Errorf("all marked, it is %+v", now)
	}
}

// A shard that was given up is given up for all nodes until the nodes take the shard back. The whole shard must have
// been swept before.
func TestALostShardIsTakenBackOnceItIsSwept(t *testing.T) {
	t.Parallel()
	l := storesOn(t, "a", "b", "c")
	s, other := l.node("a", "b", "c"), l.node("a", "b", "c")
	for _, node := range []*Store{s, other} { // the second changes nothing
		if err := node.Lose(t.Context(), "b"); err != nil {
			t.Fatal(err)
		}
	}
	testkit.Eventually(t, 5*time.Second, "all to know", func() bool { return s.Lost("b") && other.Lost("b") })
	l.wantActive(10*time.Second, "a", "c")
	if _, steady := other.Epoch("b"); !steady {
		t.Error("the epoch isn't steady")
	}
	epoch, _ := other.Epoch("b")
	w := creation("k", time.Hour)
	w.Shard = "b"
	if got := s.Merge(t.Context(), []store.Write{w})[0]; got.Err != nil {
		t.Fatal(got.Err)
	}
	if err := s.Regain(t.Context(), "b"); err == nil {
		t.Error("taken back unswept")
	}
	for p := range Partitions {
		if err := s.MarkSwept(t.Context(), "b", p, store.SweepMark{Epoch: epoch, AtMs: time.Now().UnixMilli()}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Regain(t.Context(), "b"); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, 5*time.Second, "all to know", func() bool { return !s.Lost("b") && !other.Lost("b") })
	l.wantActive(10*time.Second, "a", "b", "c")
	if again, _ := s.Epoch("a"); again <= epoch {
		t.Errorf("epoch %d: nothing is swept to refill it", again)
	}
}

// TestAnEmptyRedisHasMissedEverything: copies of the Redis' timers are on another shard, and the sweep copies them
// back.
func TestAnEmptyRedisHasMissedEverything(t *testing.T) {
	t.Parallel()
	shard := startSwift(t)
	s := openStore(t, "node", "http", shard)
	for _, what := range []string{"new", "emptied"} {
		if state, err := s.Swept(t.Context(), "a"); err != nil || !state.Restarted {
			t.Errorf("a Redis that is %s: %+v, %v; want one that has restarted", what, state, err)
		}
		if err := s.WantSweep(t.Context(), "a", time.Second); err != nil {
			t.Fatal(err)
		}
		if state, err := s.Swept(t.Context(), "a"); err != nil || state.Restarted {
			t.Errorf("somebody wants the Redis swept: %+v, %v", state, err)
		}
		shard.mini.FlushAll()
	}
}
