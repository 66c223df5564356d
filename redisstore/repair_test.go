package redisstore

import (
	"errors"
	"slices"
	"testing"
	"time"

	"chronos/redisstore/redistest"
	"chronos/scheduler/store"
)

// A shard that has restarted, or lost all, says so until somebody wants it swept,
// and how long it was left alone.
func TestARestartIsRecognised(t *testing.T) {
	t.Parallel()
	l := layOut(t, "a")
	s := l.node("a")
	state := func() (state store.SweepState) {
		t.Helper()
		redistest.Await(t, redistest.Soon, "the state of the sweep", func() (ok bool) {
			var err error
			state, err = s.Swept(t.Context(), "a")
			return err == nil
		})
		return state
	}
	restarted := func(what string) (now store.SweepState) {
		t.Helper()
		redistest.Await(t, redistest.Soon, what+" to be recognised", func() bool { // the call that connects anew is not told yet
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
	if _, _, err := s.Beat(t.Context(), "a", time.Now()); err != nil {
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
	// Left alone for longer than it says that it missed something: that counts.
	l.redis["a"].Do("ZADD", nodesKey("http"), time.Now().Add(-time.Hour).UnixMilli(), "another")
	l.redis["a"].Do("ZREM", nodesKey("http"), s.node)
	if _, _, err := s.Beat(t.Context(), "a", time.Now()); err != nil {
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

// Of two shards one can be given up by force, and replaced.
func TestOneOfTwoIsReplaced(t *testing.T) {
	t.Parallel()
	l := layOut(t, "a", "b", "c")
	s, other := l.node("a", "b"), l.node("a", "b")
	l.redis["b"].Kill()
	var refused *RefusedError
	if err := l.drain(s, "b"); !errors.As(err, &refused) {
		t.Errorf("one that can't be reached was drained: %v", err)
	}
	if err := l.add(s, "c"); err == nil {
		t.Error("a shard was added by one of two")
	}
	redistest.Await(t, redistest.Soon, "the drain by force", func() bool {
		_, err := s.DrainShard(t.Context(), "b", true)
		return err == nil
	})
	l.wantActive(10*time.Second, "a")
	l.wantAnnounced(other, "c")
	l.wantActive(10*time.Second, "a", "c")
	redistest.Await(t, redistest.Soon, "the removal by force", func() bool {
		_, err := other.RemoveShard(t.Context(), "b", true)
		return err == nil
	})
	redistest.Await(t, 5*time.Second, "all to know", func() bool { return slices.Equal(s.Shards(), []string{"a", "c"}) })
	if now := s.Topology(); len(now.Voiceless) > 0 {
		t.Errorf("left: %+v", now)
	}
}

// A shard that was given up is so for all nodes until it is taken back, which it is
// only when all of it has been swept since.
func TestALostShardIsTakenBackOnceItIsSwept(t *testing.T) {
	t.Parallel()
	l := layOut(t, "a", "b", "c")
	s, other := l.node("a", "b", "c"), l.node("a", "b", "c")
	for _, node := range []*Store{s, other} { // the second changes nothing
		if err := node.Lose(t.Context(), "b"); err != nil {
			t.Fatal(err)
		}
	}
	redistest.Await(t, 5*time.Second, "all to know", func() bool { return s.Lost("b") && other.Lost("b") })
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
	redistest.Await(t, 5*time.Second, "all to know", func() bool { return !s.Lost("b") && !other.Lost("b") })
	l.wantActive(10*time.Second, "a", "b", "c")
	if again, _ := s.Epoch("a"); again <= epoch {
		t.Errorf("epoch %d: nothing is swept to refill it", again)
	}
}

// What an operator asks of a shard that was given up decides whether the shard joins again.
func TestAShardThatWasGivenUpIsDrainedOrAdded(t *testing.T) {
	t.Parallel()
	l := Topology{Epoch: 4, Shards: []Member{{Name: "a"}, {Name: "b"}, {Name: "c"}}, Active: []string{"a", "b", "c"}}
	lost, err := l.lose("c")
	if err != nil || !slices.Equal(lost.Next, []string{"a", "b"}) || lost.Lost["c"] != (Loss{Epoch: 5, Rejoins: true}) {
		t.Fatalf("given up: %+v, %v", lost, err)
	}
	if _, err := lost.regain("c"); err == nil {
		t.Error("it joins again while its loss is announced")
	}
	lost = lost.enact()
	if _, err := lost.lose("c"); err == nil {
		t.Error("it is given up twice")
	}
	if _, err := lost.add(Member{Name: "c"}); err == nil {
		t.Error("it is added before it is swept")
	}
	drained, err := lost.drain("c", false)
	if err != nil || drained.Next != nil || drained.Lost["c"].Rejoins {
		t.Fatalf("drained: %+v, %v", drained, err)
	}
	if back, err := drained.regain("c"); err != nil || back.Next != nil || len(back.Lost) > 0 {
		t.Errorf("a drained shard that is swept: %+v, %v; want it drained as before", back, err)
	}
	added, err := drained.add(Member{Name: "c"})
	if err != nil || added.Next != nil || !added.Lost["c"].Rejoins {
		t.Fatalf("added: %+v, %v; want it to join once it is swept", added, err)
	}
	if back, err := added.regain("c"); err != nil || !slices.Equal(back.Next, []string{"a", "b", "c"}) || len(back.Lost) > 0 {
		t.Errorf("back: %+v, %v; want it announced", back, err)
	}
	forced, err := lost.drain("c", true)
	if err != nil || forced.Lost["c"].Rejoins || !slices.Equal(forced.Voiceless, []string{"c"}) {
		t.Errorf("drained by force: %+v, %v", forced, err)
	}
	if _, err := lost.remove("c"); err != nil {
		t.Errorf("remove: %v", err)
	}
}
