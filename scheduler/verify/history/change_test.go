package history

import "testing"

// change notes a change of the topology; active is the number of shards that take timers.
func (b *book) change(start, end, active int) {
	b.Faults = append(b.Faults, Fault{Kind: "topology-drain", Class: TopologyChange, StartNs: at(start), EndNs: at(end), Active: active})
}

// A change of the shards explains no callback that is late, lost or doubled.
func TestAChangeOfTheShardsExplainsNothing(t *testing.T) {
	changed := func(damage func(*book)) func(*book) {
		return func(b *book) {
			b.change(900, 20_000, 2)
			damage(b)
		}
	}
	runExcuses(t, []excuse{
		{"a change", changed(func(*book) {}), nil},
		{"as late as without", changed(func(b *book) { b.called("/1", 0).move(at(1104 + 250)) }), nil},
		{"late", changed(func(b *book) { b.called("/1", 0).move(at(1104+250) + 1) }), only(OnTime)},
		{"lost", changed(func(b *book) { b.drop("/1", 0) }), only(NothingLost)},
		{"doubled", changed(func(b *book) { b.call("k1", "/1", 1, 1, 1, 1300, 200) }), only(NoDuplicates)},
		{"left out", changed(func(b *book) { b.drop("/2", 2) }), only(NothingLost, SequenceRises)},
		{"after its end was answered", changed(func(b *book) { b.call("k4", "/4", 4, 1, 1, 5406, 200) }), only(NoneAfterAnswer)},
	})
}

// The pop after a callback whose node died may be late by a skew and a lease of 1 s in addition, if the shards change meanwhile.
func TestAChangeOfTheShardsAndADeadNode(t *testing.T) {
	for _, d := range []struct {
		name               string
		starts, ends, late int
		want               []Invariant
	}{
		{"a skew and a lease", 20_000, 40_000, 21_006 + 4500 + 1500, nil},
		{"later than that", 20_000, 40_000, 21_006 + 4500 + 1551, only(OnTime)},
		{"the change was over", 20_000, 20_900, 21_004 + 4500 + 51, only(OnTime)},
		{"the change was later", 26_000, 40_000, 21_004 + 4500 + 51, only(OnTime)},
	} {
		t.Run(d.name, func(t *testing.T) {
			b := clean()
			b.write(Create, "k7", "/7", 20_000, 1000, 2)
			b.call("k7", "/7", 70, 1, 1, 21_006, 200)
			b.call("k7", "/7", 70, 2, 1, d.late, 200)
			b.fault(NodeDeath, "n1", 21_010, 21_020)
			b.change(d.starts, d.ends, 2)
			b.sample()
			wantOnly(t, b.History, small(), d.want...)
		})
	}
}

// If a timer moves with its outcome, the next poll finds the timer 100 ms later. A pop that was due before may be
// left out, if the next pop is due by then.
func TestAChangeOfTheShardsAndAPop(t *testing.T) {
	ran := func(until, changeEnds int) func(*book) {
		return func(b *book) {
			b.called("/2", 0).AnsweredNs = at(until)
			b.drop("/2", 1) // the next pop is due at 3200
			b.change(900, changeEnds, 2)
		}
	}
	runExcuses(t, []excuse{
		{"until a poll before the next", ran(3050, 20_000), nil},
		{"not so long", ran(3049, 20_000), only(NothingLost, SequenceRises)},
		{"the change was over", ran(3050, 1000), only(NothingLost, SequenceRises)},
	})
}

// If a stopping node leaves a pop due at once, the next poll of another node finds the pop.
func TestANodeThatStopsAndAPop(t *testing.T) {
	ran := func(until, start, end int) func(*book) {
		return func(b *book) {
			b.called("/2", 0).AnsweredNs = at(until)
			b.drop("/2", 1) // the next pop is due at 3200
			b.fault(NodeStop, "n1", start, end)
		}
	}
	runExcuses(t, []excuse{
		{"until a poll before the next", ran(3050, 3000, 3100), nil},
		{"not so long", ran(3049, 3000, 3100), only(NothingLost, SequenceRises)},
		{"it ran again before", ran(3050, 900, 1000), only(NothingLost, SequenceRises)},
		{"it stopped after that", ran(3050, 3101, 3200), only(NothingLost, SequenceRises)},
		{"late", func(b *book) { b.fault(NodeStop, "n1", 1000, 2000); b.called("/1", 0).move(at(1104+250) + 1) }, only(OnTime)},
		{"doubled", func(b *book) { b.fault(NodeStop, "n1", 1000, 2000); b.call("k1", "/1", 1, 1, 1, 1300, 200) }, only(NoDuplicates)},
	})
}

// A timer has no more copies than there were shards that took timers.
func TestAChangeOfTheShardsTakesCopies(t *testing.T) {
	away := func(start, end, active int) func(*book) {
		return func(b *book) {
			b.Operations = dropGets(b.Operations, "k1")
			b.called("/1", 0).move(at(12_000))
			b.change(start, end, active)
			b.fault(ShardAway, "a", 1000, 1500)
		}
	}
	runExcuses(t, []excuse{
		{"its only shard is away", away(200, 900, 1), nil},
		{"the change is under way", away(1050, 20_000, 1), nil},
		{"two are left", away(200, 900, 2), only(OnTime)},
		{"nobody knows how many are left", away(200, 900, 0), only(OnTime)},
		{"it was over before the write", away(10, 99, 1), only(OnTime)},
		{"it is later", away(16_600, 17_000, 1), only(OnTime)},
	})
}

// A shard that takes no timers has no copies, and changes put off no judgement.
func TestAShardThatTakesNoTimersIsEmpty(t *testing.T) {
	runExcuses(t, []excuse{
		{"all take timers", func(b *book) { b.End.Active = []string{"a", "b"} }, nil},
		{"nobody says which do", func(b *book) { b.End.Active = nil }, nil},
		{"one doesn't", func(b *book) { b.End.Active = []string{"b", "c"} }, only(CopiesAtHome)},
		{"a tombstone is there", func(b *book) {
			b.End.Active = []string{"a", "b"}
			b.Copies = append(b.Copies, Copy{Shard: "c", Key: "k4", Version: "5", RF: 2, Ended: true, ScoreMs: 5000})
		}, only(CopiesAtHome)},
		{"a change until the end", func(b *book) {
			b.change(190_000, 200_000, 2)
			b.Copies[1].Shard = "c"
		}, only(CopiesAtHome)},
	})
}

// The first pop is swallowed by a node that dies. It may be late by a skew and a lease of 1 s in addition, if the shards
// change meanwhile.
func TestAChangeOfTheShardsAndASwallowedPop(t *testing.T) {
	pop := func(late int, change func(*book)) func(*book) {
		return func(b *book) {
			b.write(Create, "k7", "/7", 20_000, 1000, 1)
			b.call("k7", "/7", 70, 1, 1, 21_004+4500+late, 200)
			b.fault(NodeDeath, "n1", 21_002, 21_020)
			change(b)
		}
	}
	during := func(b *book) { b.change(20_000, 40_000, 2) }
	runExcuses(t, []excuse{
		{"no change", pop(0, func(*book) {}), nil},
		{"no change, and late", pop(1, func(*book) {}), only(OnTime)},
		{"a skew and a lease", pop(500+1000, during), nil},
		{"later than that", pop(500+1001, during), only(OnTime)},
		{"the change was over", pop(1, func(b *book) { b.change(19_000, 20_900, 2) }), only(OnTime)},
	})
}

// k7 has two copies and a skew of 2 s, and fails at 40 s. If nothing happens, the retry comes 1 s + 1 s later at the
// latest.
func TestARetryAmidAChangeOfTheShards(t *testing.T) {
	retry := func(lateMs int, change func(*book)) func(*book) {
		return func(b *book) {
			b.write(Create, "k7", "/7", 30_000, 10_000, 1)
			b.call("k7", "/7", 7, 1, 1, 40_006, 500)
			b.call("k7", "/7", 7, 1, 2, 40_007+2000+250+lateMs, 200)
			change(b)
		}
	}
	during := func(b *book) { b.change(39_000, 50_000, 2) }
	runExcuses(t, []excuse{
		{"none", retry(0, func(*book) {}), nil},
		{"none, and late", retry(1, func(*book) {}), only(OnTime)},
		{"by a skew", retry(2000, during), nil},
		{"by more", retry(2001, during), only(OnTime)},
		{"by a lease, too, as polls are rare", retry(7000+1275, func(b *book) { b.Header.PollMs = 1000; during(b) }), nil},
		{"by more than a lease", retry(7001+1275, func(b *book) { b.Header.PollMs = 1000; during(b) }), only(OnTime)},
		{"rare polls alone", retry(1, func(b *book) { b.Header.PollMs = 1000 }), only(OnTime)},
		{"it was over before", retry(1, func(b *book) { b.change(35_000, 40_005, 2) }), only(OnTime)},
		{"it came later", retry(1, func(b *book) { b.change(42_008, 50_000, 2) }), only(OnTime)},
	})
}
