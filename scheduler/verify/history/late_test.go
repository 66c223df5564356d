package history

import "testing"

// A fault delays only callbacks that are due soon after its end. k7 is due from 41,000 to 41,004, and its skew is 500
// ms. A lease lasts 3.5 s, and is found within 1 s. A shard counts as healed after 3 s, and is polled within 150 ms.
func TestAFaultDelaysNothingForLong(t *testing.T) {
	for _, d := range []struct {
		name       string
		class      Class
		start, end int
		lateMs     int
	}{
		{"node has been dead for a lease", NodeDeath, 41_000 - 4500, 60_000, 1500},
		{"node has been dead for longer", NodeDeath, 40_999 - 4500, 60_000, 250},
		{"node runs again since a lease", NodeDeath, 20_000, 41_000 - 4500, 1500},
		{"node has run for longer", NodeDeath, 20_000, 40_999 - 4500, 250},
		{"shard back, and not healed", ShardAway, 20_000, 41_000 - 3150, 2000},
		{"shard back for longer", ShardAway, 20_000, 40_999 - 3150, 250},
		{"link back since a lease", LinkCut, 20_000, 41_000 - 4500, 2000 + 4500},
		{"link back for longer", LinkCut, 20_000, 40_999 - 4500, 250},
	} {
		t.Run(d.name, func(t *testing.T) {
			for extra, want := range [][]Invariant{nil, only(OnTime)} {
				b := clean()
				b.write(Create, "k7", "/7", 40_000, 1000, 1)
				b.call("k7", "/7", 7, 1, 1, 41_004+d.lateMs, 200)
				b.called("/7", 0).move(at(41_004+d.lateMs) + int64(extra))
				b.fault(d.class, map[bool]string{true: "n1", false: "a"}[d.class == NodeDeath], d.start, d.end)
				b.sample()
				wantOnly(t, b.History, small(), want...)
			}
		})
	}
}

func TestAFaultExplainsLateCallbacks(t *testing.T) {
	one := func(class Class, target string, start, end int) func(*book) {
		return func(b *book) { b.fault(class, target, start, end) }
	}
	both := func(b *book) {
		b.fault(ShardAway, "a", 1000, 1500)
		b.fault(ShardAway, "b", 1000, 1500)
	}
	owned := func(away ...string) func(*book) {
		return func(b *book) {
			b.owned("k1", "a", "b")
			for _, shard := range away {
				b.fault(ShardAway, shard, 1000, 1500)
			}
		}
	}
	// /1 is due from 1100 to 1104; the skew is 500 ms.
	for _, d := range []struct {
		name   string
		fault  func(*book)
		lateMs int
	}{
		{"node died before it was due", one(NodeDeath, "n1", 1099, 2000), 1500},
		{"node died when it may have been under way", one(NodeDeath, "n1", 1100, 2000), 4500},
		{"node froze", one(NodeFreeze, "n1", 1000, 2000), 1500},
		{"two nodes died", func(b *book) { b.fault(NodeDeath, "n1", 900, 901); b.fault(NodeDeath, "n2", 1000, 1001) }, 1500},
		{"two nodes died that may have called", func(b *book) { b.fault(NodeDeath, "n1", 1200, 1201); b.fault(NodeDeath, "n2", 2000, 2001) }, 9000},
		{"a node died before, and who took it over", func(b *book) { b.fault(NodeDeath, "n1", 1099, 2000); b.fault(NodeDeath, "n2", 2500, 2600) }, 6000},
		{"node died when it was late anyway", one(NodeDeath, "n1", 1355, 2000), 250},
		{"shard away", one(ShardAway, "a", 1000, 1500), 2000},
		{"shard lost", one(ShardLost, "a", 1000, 1500), 2000 + 4500},
		{"same shard twice", func(b *book) { b.fault(ShardAway, "a", 900, 901); b.fault(ShardLost, "a", 1000, 1001) }, 2000 + 4500},
		{"link cut", one(LinkCut, "a", 1000, 1500), 2000 + 4500},
		{"all copies' shards away", both, 1500 + 15_000 - 1104},
		{"all copies' shards away twice", func(b *book) {
			both(b)
			b.fault(ShardAway, "a", 10_000, 10_500)
			b.fault(ShardAway, "b", 10_000, 10_500)
			for i := range b.Faults {
				b.Faults[i].RepairedNs = b.Faults[i].EndNs
			}
		}, 10_500 + 15_000 - 1104},
		{"shard away and repaired before", func(b *book) { b.Faults[b.fault(ShardAway, "a", 900, 1000)].RepairedNs = at(1099) }, 250},
		{"slow", func(b *book) { b.Faults[b.fault(Slow, "", 1000, 1500)].LateMs = 700 }, 700},
		{"less slow than is allowed anyway", func(b *book) { b.Faults[b.fault(Slow, "", 1000, 1500)].LateMs = 70 }, 250},
		{"an owner away", owned("b"), 2000},
		{"another shard away", owned("c"), 250},
		{"one owner and another shard away", owned("a", "c"), 2000},
		{"harmless", one(Harmless, "n1", 1000, 2000), 250},
		{"clock put back", func(b *book) { b.Faults[b.fault(ClockStep, "a", 500, 500)].StepMs = -300 }, 500 + 3150 - 1104},
		{"clock put ahead", func(b *book) { b.Faults[b.fault(ClockStep, "a", 500, 500)].StepMs = 300 }, 550},
	} {
		t.Run(d.name, func(t *testing.T) {
			for extra, want := range [][]Invariant{nil, only(OnTime)} {
				b := clean()
				b.Operations = dropGets(b.Operations, "k1")
				d.fault(b)
				b.called("/1", 0).move(at(1104+d.lateMs) + int64(extra))
				wantOnly(t, b.History, small(), want...)
			}
		})
	}
}

func TestAPopThatWasHeldUpHoldsUpTheNext(t *testing.T) {
	for extra, want := range [][]Invariant{nil, only(OnTime)} {
		b := clean()
		b.write(Create, "k7", "/7", 20_000, 1000, 2)
		b.call("k7", "/7", 70, 1, 1, 21_006, 200)
		b.call("k7", "/7", 70, 2, 1, 21_004+4500+50, 200)
		b.called("/7", 1).move(b.called("/7", 1).ArriveNs + int64(extra))
		b.fault(NodeDeath, "n1", 21_010, 21_020)
		b.sample()
		wantOnly(t, b.History, small(), want...)
	}
}

// The answers under way when a slow shard is well again are slow, too, so nodes take the shard for slow a little longer.
func TestASlowShardDelaysALittleLonger(t *testing.T) {
	for _, d := range []struct {
		name string
		end  int
		late int
	}{
		{"well for as long as nodes look at", 41_000 - 3650, 2000 + 100},
		{"well for longer", 40_999 - 3650, 250},
	} {
		t.Run(d.name, func(t *testing.T) {
			for extra, want := range [][]Invariant{nil, only(OnTime)} {
				b := clean()
				b.write(Create, "k7", "/7", 40_000, 1000, 1)
				b.call("k7", "/7", 7, 1, 1, 41_004+d.late, 200)
				b.called("/7", 0).move(at(41_004+d.late) + int64(extra))
				b.Faults[b.fault(ShardAway, "a", 20_000, d.end)].LateMs = 100
				b.sample()
				wantOnly(t, b.History, small(), want...)
			}
		})
	}
}
