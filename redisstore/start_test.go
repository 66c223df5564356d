package redisstore

import (
	"errors"
	"slices"
	"testing"
	"time"

	"chronos/scheduler"
)

// A shard that was removed says so: a node that is started with it, and can reach no
// other, writes nothing there.
func TestARemovedShardIsNotWrittenTo(t *testing.T) {
	l := layOut(t, "a", "b", "c")
	for _, name := range []string{"a", "b"} { // they are to lose nothing when they are killed
		l.redis[name].do("CONFIG", "SET", "appendfsync", "always")
	}
	first := l.node("a", "b", "c")
	if err := l.drain(first, "c"); err != nil {
		t.Fatal(err)
	}
	l.wantActive(8*time.Second, "a", "b")
	first.adopted.Add(-int64(drainedFor))
	if _, err := first.RemoveShard(t.Context(), "c", false); err != nil {
		t.Fatal(err)
	}
	if on := func(name string) any { return l.redis[name].do("HGET", topologyKey, "current") }; on("c") != on("a") {
		t.Errorf("c holds %v, a %v", on("c"), on("a"))
	}
	l.redis["a"].kill()
	l.redis["b"].kill()
	late := l.node("a", "b", "c")
	if err := late.Writable(); !errors.Is(err, scheduler.ErrUnavailable) {
		t.Errorf("writable though it reaches nobody but who was removed: %v", err)
	}
	if got := late.Topology(); !slices.Equal(got.Active, []string{"a", "b"}) {
		t.Errorf("it works by %+v", got)
	}
	l.redis["a"].start()
	await(t, 10*time.Second, "half of the shards", func() bool { return late.Writable() == nil })
}

// A node that has just been started writes once half of the shards say that the
// topology is theirs: of those, others may have gone on without the few that it reaches.
func TestAStartedNodeNeedsHalfOfTheShards(t *testing.T) {
	l := layOut(t, "a", "b", "c")
	l.redis["b"].do("CONFIG", "SET", "appendfsync", "always")
	running := l.node("a", "b", "c")
	l.redis["b"].kill()
	l.redis["c"].kill()
	late := l.node("a", "b", "c")
	if err := late.Writable(); late.Topology().Epoch != 1 || !errors.Is(err, scheduler.ErrUnavailable) {
		t.Errorf("writable with one of three shards, by %+v: %v", late.Topology(), err)
	}
	if err := running.Writable(); err != nil {
		t.Errorf("who has seen that they agree: %v", err)
	}
	l.redis["b"].start()
	await(t, 10*time.Second, "half of the shards", func() bool { return late.Writable() == nil })
}

// A node that has just started gives nobody the topology that it found on a shard that
// was removed: of its members one was removed and emptied since.
func TestAStartedNodeRestoresNothing(t *testing.T) {
	l := layOut(t, "a", "b", "c")
	first := l.node("a", "c")
	remove := func(name string) {
		t.Helper()
		if err := l.drain(first, name); err != nil {
			t.Fatal(err)
		}
		await(t, 10*time.Second, "the drain of "+name, func() bool { return !slices.Contains(first.Topology().Active, name) })
		first.adopted.Add(-int64(drainedFor))
		await(t, 10*time.Second, "the removal of "+name, func() bool {
			_, err := first.RemoveShard(t.Context(), name, false)
			return err == nil
		})
	}
	remove("a")
	if err := l.add(first, "b"); err != nil {
		t.Fatal(err)
	}
	l.wantActive(10*time.Second, "c", "b")
	remove("c")
	l.redis["c"].do("FLUSHALL")
	l.redis["b"].kill()
	late := l.node("a", "c") // a holds that c alone is left, c holds nothing
	time.Sleep(3 * followInterval)
	if held := l.redis["c"].do("HGET", topologyKey, "current"); held != nil {
		t.Errorf("c was given %v", held)
	}
	var refused *RefusedError
	if _, err := late.AddShard(t.Context(), Member{Name: "a"}); !errors.As(err, &refused) {
		t.Errorf("it changed the shards: %v", err)
	}
	if late.Writable() == nil {
		t.Error("it writes")
	}
}

// A change that was begun and left is finished by a node that has just started, though a
// shard is away: it is known that most of the others hold what came before.
func TestAStartedNodeFinishesWhatWasBegun(t *testing.T) {
	l := layOut(t, "a", "b", "c")
	before := firstTopology([]ShardConfig{l.redis["a"].shard("a"), l.redis["b"].shard("b"), l.redis["c"].shard("c")})
	before.Epoch, before.Change = 1, "first"
	begun, err := before.drain("c", false)
	if err != nil {
		t.Fatal(err)
	}
	begun.Epoch, begun.Change = 2, "begun"
	for name, held := range map[string]Topology{"a": begun, "b": before} {
		text, err := held.encode()
		if err != nil {
			t.Fatal(err)
		}
		l.redis[name].do("HSET", topologyKey, "current", text)
	}
	l.redis["c"].kill()
	s := l.node("a", "b", "c")
	await(t, 10*time.Second, "the end of the change", func() bool { return s.Writable() == nil && s.Topology().Epoch >= 2 })
}
