package history

import (
	"testing"
	"time"
)

// k7 is due from 41,000 to 41,004; the skew is 500 ms. A Redis that restarted or lost data may fire nothing for 3 s,
// and is polled within 150 ms.
func TestAShardIsQuietAfterARestart(t *testing.T) {
	late := func(lateMs int, faults ...Fault) func(*book) {
		return func(b *book) {
			b.write(Create, "k7", "/7", 40_000, 1000, 1)
			b.call("k7", "/7", 7, 1, 1, 41_004+lateMs, 200)
			b.Homes = append(b.Homes, Home{Key: "k7", Shards: []string{"a", "b"}})
			b.Faults = append(b.Faults, faults...)
		}
	}
	fault := func(class Class, shard string, end int, restarted bool) Fault {
		return Fault{Kind: "fault", Class: class, Shard: shard, StartNs: at(20_000), EndNs: at(end), RepairedNs: at(end), Restarted: restarted}
	}
	step := func(shard string, by int64) Fault {
		return Fault{Kind: "fault", Class: ClockStep, Shard: shard, StartNs: at(40_500), EndNs: at(40_500), StepMs: by}
	}
	away := func(end int) Fault { return fault(ShardAway, "a", end, true) }
	unrepaired := func(f Fault) Fault { f.RepairedNs = 0; return f }
	tooLate := only(OnTime)
	runExcuses(t, []excuse{
		{"its clock was put back", late(3150-504, step("a", -300)), nil},
		{"its clock was put back, and later", late(3151-504, step("a", -300)), tooLate},
		{"its clock was put ahead", late(251+300, step("a", 300)), tooLate},
		{"another clock was put back", late(251, step("c", -300)), tooLate},
		{"one of two restarted", late(2000, away(41_000-3150)), nil},
		{"one of two restarted, and later", late(2001, away(41_000-3150)), tooLate},
		{"it was polled since", late(251, away(41_000-3151)), tooLate},
		{"it was only away", late(251, fault(ShardAway, "a", 41_000-1, false)), tooLate},
		{"nobody knows when it was repaired", late(2000, unrepaired(away(41_000-3150))), nil},
		{"nobody knows, and it was polled since", late(251, unrepaired(away(41_000-3151))), tooLate},
		{"it was only away, and nobody knows", late(251, unrepaired(fault(ShardAway, "a", 41_000-3151, false))), tooLate},
		{"it lost data", late(2000+4500, fault(ShardLost, "a", 41_000-3150, false)), nil},
		{"it lost data, and later", late(2001+4500, fault(ShardLost, "a", 41_000-3150, false)), tooLate},
		{"both restarted", late(15_000-4-2900, away(41_000-2900), fault(ShardAway, "b", 41_000-2900, true)), nil},
		{"both restarted, and later", late(15_001-4-2900, away(41_000-2900), fault(ShardAway, "b", 41_000-2900, true)), tooLate},
		{"both were only away", late(251, fault(ShardAway, "a", 41_000-2900, false), fault(ShardAway, "b", 41_000-2900, false)), tooLate},
	})
}

// The only copy of k7 is on a, and the next shard is b. A skew is 500 ms.
func TestTheNextShardIsAskedAboutATimerOfOneCopy(t *testing.T) {
	late := func(rf, lateMs int, faults ...Fault) func(*book) {
		return func(b *book) {
			o := &b.Operations[b.write(Create, "k7", "/7", 40_000, 1000, 1)]
			o.Timer.RF, o.Answer.Copies = rf, rf
			b.call("k7", "/7", 7, 1, 1, 41_004+lateMs, 200)
			b.Homes = append(b.Homes, Home{Key: "k7", Shards: []string{"a"}, Next: "b"})
			b.Faults = append(b.Faults, faults...)
		}
	}
	fault := func(class Class, shard string, start, end int) Fault {
		return Fault{Kind: "fault", Class: class, Shard: shard, StartNs: at(start), EndNs: at(end), RepairedNs: at(end)}
	}
	joined := Fault{Kind: "add", Class: TopologyChange, StartNs: at(30_000), EndNs: at(31_000)}
	cut := fault(LinkCut, "b", 40_500, 41_500)
	tooLate := only(OnTime)
	runExcuses(t, []excuse{
		{"the owner has joined lately", late(1, 1500, joined, cut), nil},
		{"it has joined lately, and later", late(1, 1501, joined, cut), tooLate},
		{"it was away lately", late(1, 1500, fault(ShardAway, "a", 30_000, 31_000), cut), nil},
		{"another shard was away lately", late(1, 251, fault(ShardAway, "c", 30_000, 31_000), cut), tooLate},
		{"nothing was", late(1, 251, cut), tooLate},
		{"the fault is one of a shard that nobody asks", late(1, 251, joined, fault(LinkCut, "c", 40_500, 41_500)), tooLate},
		{"the timer has two copies", late(2, 251, joined, cut), tooLate},
	})
}

// A harness may allow for a timer that a fault shifted by up to 1 s.
func TestATimerThatAFaultShifted(t *testing.T) {
	late := func(lateMs, start int) *book {
		b := clean()
		b.write(Create, "k7", "/7", 40_000, 60_000, 1)
		b.call("k7", "/7", 7, 1, 1, 100_004+lateMs, 200)
		b.fault(Slow, "a", start, start+1000)
		b.sample()
		return b
	}
	shifting := small()
	shifting.Shift = time.Second
	wantOnly(t, late(1250, 50_000).History, shifting)
	wantOnly(t, late(1251, 50_000).History, shifting, OnTime)
	wantOnly(t, late(251, 30_000).History, shifting, OnTime)
	wantOnly(t, late(251, 100_300).History, shifting, OnTime)
	wantOnly(t, late(251, 50_000).History, small(), OnTime)
}

// k7 is due from 41,000 to 41,004; the skew is 2 s. The loss of a copy itself delays callbacks for 4.5 s. Afterwards
// the copy may still be missing, since the sweep leaves timers alone that are due soon. The second copy fires a skew
// later.
func TestALostCopyIsMissingUntilItIsSaidToBeThere(t *testing.T) {
	late := func(lateMs, lost int, repaired bool) func(*book) {
		return func(b *book) {
			b.write(Create, "k7", "/7", 30_000, 11_000, 1)
			b.call("k7", "/7", 7, 1, 1, 41_004+lateMs, 200)
			f := Fault{Kind: "fault", Class: ShardLost, Shard: "a", StartNs: at(lost), EndNs: at(lost)}
			if repaired {
				f.RepairedNs = f.EndNs
			}
			b.Faults = append(b.Faults, f)
		}
	}
	runExcuses(t, []excuse{
		{"just after its own delays", late(2250, 41_000-4501, false), nil},
		{"and later", late(2251, 41_000-4501, false), only(OnTime)},
		{"long after", late(2250, 30_010, false), nil},
		{"the copy was repaired", late(251, 31_000, true), only(OnTime)},
		{"the loss was before the write", late(251, 29_999, false), only(OnTime)},
	})
}
