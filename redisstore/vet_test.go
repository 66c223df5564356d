package redisstore

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

// hold puts a topology on a Redis as nodes would have, of shards that are all active.
func (l *laidOut) hold(on string, epoch int64, names ...string) {
	l.Helper()
	top := Topology{Epoch: epoch, Change: "change", Active: names}
	for _, name := range names {
		top.Shards = append(top.Shards, Member{Name: name, URL: l.redis[name].shard(name).URL})
	}
	text, err := top.encode()
	if err != nil {
		l.Fatal(err)
	}
	l.redis[on].do("HSET", topologyKey, "current", text)
}

func (l *laidOut) held(on, field string) string {
	text, _ := l.redis[on].do("HGET", topologyKey, field).(string)
	return text
}

// A Redis of other nodes is not added, whoever has seen more changes: one of the two
// would not find its timers any more.
func TestAShardOfOtherNodesIsNotAdded(t *testing.T) {
	ours, theirs := layOut(t, "a"), layOut(t, "b", "c")
	ours.redis["b"], theirs.redis["a"] = theirs.redis["b"], ours.redis["a"]
	s, other := ours.node("a"), theirs.node("b")
	if err := theirs.add(other, "c"); err != nil {
		t.Fatal(err)
	}
	theirs.wantActive(8*time.Second, "b", "c")
	before := []string{ours.held("a", "current"), ours.held("b", "current")}
	for name, err := range map[string]error{"a later one": ours.add(s, "b"), "an earlier one": theirs.add(other, "a")} {
		var refused *RefusedError
		if !errors.As(err, &refused) || !strings.Contains(refused.Reason, "belongs to another chronos") || !strings.Contains(refused.Reason, "empty it first") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if after := []string{ours.held("a", "current"), ours.held("b", "current")}; !slices.Equal(before, after) {
		t.Errorf("the shards hold %v, before it was %v", after, before)
	}
	if ours.held("a", "holder") != "" || ours.held("b", "holder") != "" {
		t.Error("a lock is left")
	}
}

// What a Redis holds that is added, from a time when it was another's or this one's.
func TestWhatAShardHoldsThatIsAdded(t *testing.T) {
	l := layOut(t, "a", "d", "z")
	s := l.node("a")
	refused := func(want string) {
		t.Helper()
		var reason *RefusedError
		if err := l.add(s, "d"); !errors.As(err, &reason) || !strings.Contains(reason.Reason, want) {
			t.Errorf("%v, want it refused: %s", err, want)
		}
		if now := l.held("a", "current"); !strings.HasPrefix(now, "1 ") {
			t.Fatalf("something was begun: %s", now)
		}
	}
	l.hold("d", 50, "z")
	refused("(its topology is epoch 50 with z): empty it first, or give it another database")
	l.hold("d", 1, "z")
	refused("belongs to another chronos")
	l.hold("d", 1, "d")
	refused("belongs to another chronos")
	l.hold("d", 3, "a")
	refused("empty it first")
	l.redis["d"].kill()
	refused("can't be read")
	l.redis["d"].start()
	l.hold("d", 1, "a", "d")
	await(t, soon, "the addition of one that was ours", func() bool { return l.add(s, "d") == nil })
	l.wantActive(8*time.Second, "a", "d")
}
