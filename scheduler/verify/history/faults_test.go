package history

import (
	"fmt"
	"testing"
)

// afterMs is how long after a fault its window ends: 3.5 s + 2 × 2 s + 3 s = 10.5 s.
const afterMs = 10_500

func TestAShardsClockMayMakeItEarly(t *testing.T) {
	for extra, want := range [][]Invariant{nil, only(NeverEarly)} {
		b := clean()
		b.Faults[b.fault(ClockStep, "a", 500, 500)].StepMs = 300
		b.called("/1", 0).move(at(1100-1-300) - int64(extra))
		wantOnly(t, b.History, small(), want...)
	}
}

// A lease that was taken for 3.5 s ends sooner if the shard's clock is put ahead meanwhile.
func TestAShardsClockMayEndALease(t *testing.T) {
	jump := func(at, ms int) func(*book) {
		return func(b *book) {
			b.call("k1", "/1", 1, 1, 1, 1300, 200) // the first callback, from 1106 to 1107, had its lease until 4606
			b.Faults[b.fault(ClockStep, "a", at, at)].StepMs = int64(ms)
		}
	}
	runExcuses(t, []excuse{
		{"over before the second", jump(1107, 3306-50), nil},
		{"not so far", jump(1107, 3306-51), only(NoDuplicates)},
		{"back", jump(1107, -3306), only(NoDuplicates)},
		{"as late as an outcome may be told", jump(1107+50, 3306), nil},
		{"after that", jump(1107+51, 3306), only(NoDuplicates)},
		{"before it was sent", jump(1106-51, 3306), only(NoDuplicates)},
	})
}

// outage has a recurring timer with a pop every second. An outage holds up the pops from 3 to 7.
func outage(resume ...int) *book {
	b := clean()
	b.write(Create, "k7", "/7", 20_000, 1000, 10)
	for _, n := range []int{1, 2} {
		b.call("k7", "/7", 70, n, 1, 20_006+1000*n, 200)
	}
	for i, n := range resume {
		b.call("k7", "/7", 70, n, 1, max(20_006+1000*n, 27_500+i), 200)
	}
	b.fault(ShardAway, "a", 22_500, 27_400)
	b.fault(ShardAway, "b", 22_500, 27_400)
	b.sample()
	return b
}

func TestAnOutageOfARecurringTimer(t *testing.T) {
	wantOnly(t, outage(7, 8, 9, 10).History, small())
	b := outage(7, 8, 9, 10)
	if r := small().Check(b.History); r.Counts.Skipped != 4 {
		t.Errorf("%d skipped, want 4", r.Counts.Skipped)
	}
	t.Run("no pop after it", func(t *testing.T) {
		wantOnly(t, outage().History, small(), NothingLost)
	})
	t.Run("the last pop is missing", func(t *testing.T) {
		wantOnly(t, outage(7, 8, 9).History, small(), NothingLost)
	})
	t.Run("without the fault", func(t *testing.T) {
		b := outage(7, 8, 9, 10)
		b.Faults = nil
		b.called("/7", 2).move(at(27_200))
		wantOnly(t, b.History, small(), NothingLost, SequenceRises)
	})
}

func TestATimerWhoseCopiesWereLost(t *testing.T) {
	for _, d := range []struct {
		name   string
		copies int
		faults map[string]Class
		want   []Invariant
	}{
		{"one of two lost", 2, map[string]Class{"a": ShardLost}, only(NothingLost)},
		{"the only one lost", 1, map[string]Class{"a": ShardLost}, nil},
		{"one lost, the other away", 2, map[string]Class{"a": ShardLost, "b": ShardAway}, nil},
		{"both away", 2, map[string]Class{"a": ShardAway, "b": ShardAway}, only(NothingLost)},
		{"two of three lost", 3, map[string]Class{"a": ShardLost, "b": ShardLost}, only(NothingLost)},
	} {
		t.Run(d.name, func(t *testing.T) {
			b := clean()
			b.drop("/1", 0)
			b.sample()
			b.asked("/1").Answer.Copies = d.copies
			for shard, class := range d.faults {
				b.fault(class, shard, 700, 800)
			}
			for i := range b.Operations { // more timers might be lost
				if a := b.Operations[i].Answer; a != nil && a.Key != "k1" {
					a.Copies = 3
				}
			}
			wantOnly(t, b.History, small(), d.want...)
		})
	}
}

func TestAShardCountsAsLostUntilItIsRepaired(t *testing.T) {
	for repaired, want := range map[int][]Invariant{2000: only(NothingLost), 40_000: nil} {
		b := clean()
		b.write(Create, "k7", "/7", 30_000, 1000, 1)
		b.Operations[len(b.Operations)-1].Answer.Copies = 1
		b.Faults[b.fault(ShardLost, "c", 700, 800)].RepairedNs = at(repaired)
		b.Header.Exempt = only(CopiesAtHome)
		wantOnly(t, b.History, small(), want...)
	}
}

func TestReadsWhileTooManyShardsAreFaulty(t *testing.T) {
	stale := func(b *book) { b.get("k5", 60_000, "", 0) }
	b := clean()
	stale(b)
	wantOnly(t, b.History, small(), Linearizable)
	b.fault(ShardAway, "a", 60_000, 61_000)
	wantOnly(t, b.History, small(), Linearizable)
	b.fault(ShardAway, "b", 60_000, 61_000)
	wantOnly(t, b.History, small())
	t.Run("and after it", func(t *testing.T) {
		b.get("k5", 90_000, "/5", 1)
		wantOnly(t, b.History, small())
		b.get("k5", 91_000, "", 0)
		wantOnly(t, b.History, small(), Linearizable)
	})
}

func TestADeleteThatWasLost(t *testing.T) {
	for unreached, want := range [][]Invariant{only(NoneAfterAnswer), nil} {
		b := clean()
		b.asked("/4").Timer.IntervalMs = 10_000
		b.deletion("k4").Answer.InFlight = unreached > 0
		b.deletion("k4").Answer.Unreached = unreached
		b.call("k4", "/4", 3, 1, 1, 10_406, 200)
		b.fault(ShardLost, "a", 4500, 4600)
		b.Operations = dropGets(b.Operations, "k4")
		b.sample()
		wantOnly(t, b.History, small(), want...)
	}
}

func TestAnUnsettledRunIsUnknown(t *testing.T) {
	for name, do := range map[string]func(*book){
		"no end":          func(b *book) { b.End = nil },
		"no header":       func(b *book) { b.Header = Header{} },
		"not dumped":      func(b *book) { b.End.DumpNs = -1 },
		"not drained":     func(b *book) { b.End.Drained = false },
		"dumped too soon": func(b *book) { b.fault(NodeDeath, "n1", 130_000, 140_001) },
		"no samples":      func(b *book) { b.Samples = nil },
		"homes not told":  func(b *book) { b.Homes = nil },
		"writes look the same": func(b *book) {
			b.write(Create, "k7", "/5", 600, 3_600_000, 1)
			b.Copies = append(b.Copies, b.Copies...)
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := clean()
			do(b)
			r := small().Check(b.History)
			if name == "writes look the same" {
				if len(r.Reasons) == 0 {
					t.Errorf("no reason given\n%s", text(t, &r))
				}
				return
			}
			if r.Verdict != VerdictUnknown {
				t.Errorf("verdict %s\n%s", r.Verdict, text(t, &r))
			}
		})
	}
}

func TestASafetyRunNeedsNoDump(t *testing.T) {
	b := clean()
	b.Header.Mode, b.End.DumpNs, b.End.Drained = Safety, -1, false
	wantOnly(t, b.History, small())
}

func TestARunThatIsTooSmallIsUnknown(t *testing.T) {
	big := func() *book {
		b := clean()
		for range 50 {
			b.write(Replace, "k8", fmt.Sprintf("/8.%d", len(b.Operations)), 10_000+100*len(b.Operations), 3_600_000, 1)
			b.delete("k8", 10_000+100*len(b.Operations))
			b.write(Create, fmt.Sprintf("k%d", len(b.Operations)+100), fmt.Sprintf("/c%d", len(b.Operations)), 30_000, 3_600_000, 1)
			b.delete(b.Operations[len(b.Operations)-1].Answer.Key, 40_000)
		}
		for len(b.Operations) < 1000 {
			b.get("k5", 4000, "/5", 1)
		}
		return b
	}
	wantOnly(t, big().History, DefaultLimits())
	for name, do := range map[string]func(*book){
		"operations": func(b *book) { b.Operations = b.Operations[:999] },
		"one kind": func(b *book) {
			for kept, i := 0, 0; i < len(b.Operations); i++ {
				if o := b.Operations[i]; o.Kind == Delete && o.Key == "k8" {
					if kept++; kept > 40 {
						b.Operations[i] = b.Operations[5]
					}
				}
			}
			for i := range b.Operations {
				if o := &b.Operations[i]; o.Kind == Delete && o.Key != "k8" && o.Key != "k4" {
					o.Kind, o.Outcome, o.Status = Get, OK, 200
					o.Read = nil
					o.Status = 404
				}
			}
		},
		"few requests with all up": func(b *book) {
			for range 3 {
				b.Faults[b.fault(NodeFreeze, "n1", 1000, 1001)].EndNs = at(199_000)
			}
		},
		"one fault":        func(b *book) { b.fault(NodeFreeze, "n1", 1000, 1001); b.fault(NodeFreeze, "n1", 1000, 1001) },
		"pops in windows":  func(b *book) { b.farFaults(3) },
		"fault without it": func(b *book) { b.farFaults(2) },
	} {
		t.Run(name, func(t *testing.T) {
			b := big()
			do(b)
			if r := DefaultLimits().Check(b.History); len(r.Reasons) == 0 {
				t.Errorf("no reason given\n%s", text(t, &r))
			}
		})
	}
	t.Run("harmless faults need no pops in their windows", func(t *testing.T) {
		b := big()
		for range 3 {
			b.fault(Harmless, "", 100_000, 100_001)
		}
		wantOnly(t, b.History, DefaultLimits())
	})
	t.Run("enough faults", func(t *testing.T) {
		b := big()
		for range 3 {
			b.fault(NodeFreeze, "n2", 1000, 1001)
		}
		wantOnly(t, b.History, DefaultLimits())
	})
}

func (b *book) farFaults(n int) {
	for range n {
		b.fault(NodeFreeze, "n1", 100_000, 100_001)
	}
}

func TestAFaultExplainsNoGapThatIsTooLong(t *testing.T) {
	b := clean()
	b.write(Create, "k7", "/7", 20_000, 5000, 3)
	b.call("k7", "/7", 70, 1, 1, 25_006, 200)
	b.call("k7", "/7", 70, 3, 1, 35_006, 200)
	b.fault(NodeDeath, "n1", 29_000, 29_500)
	b.sample()
	wantOnly(t, b.History, small(), NothingLost, SequenceRises)
}

func TestANodeMayTakeAnAttemptWithIt(t *testing.T) {
	for start, want := range map[int][]Invariant{5000: nil, 50_000: only(NothingLost)} {
		b := clean()
		b.drop("/6", 1)
		for i, ms := range []int{2600, 4600, 8600} {
			b.call("k6", "/6", 6, 1, i+2, ms, 500)
		}
		b.fault(NodeFreeze, "n1", start, start+1)
		b.sample()
		wantOnly(t, b.History, small(), want...)
	}
}

func TestARetryMayBeYetToCome(t *testing.T) {
	for arrive, want := range map[int][]Invariant{197_750: nil, 197_740: only(NothingLost)} {
		b := clean()
		b.write(Create, "k7", "/7", arrive-1005, 1000, 1)
		b.call("k7", "/7", 70, 1, 1, arrive, 500) // over 1 ms later, with a retry within 2.25 s
		b.copies("k7", "/7", 70, 1, 0, "a", "b")
		b.sample()
		wantOnly(t, b.History, small(), want...)
	}
}

func TestNothingIsCertainOfATimerThatMayBeLost(t *testing.T) {
	for name, do := range map[string]func(*book){
		"live":    func(b *book) { b.Copies = nil },
		"deleted": func(b *book) { b.copies("k4", "/4", 1, 1, 5000, "a", "b") },
	} {
		t.Run(name, func(t *testing.T) {
			b := clean()
			do(b)
			b.fault(ShardLost, "a", 100_000, 100_001)
			b.fault(ShardAway, "b", 100_000, 100_001)
			wantOnly(t, b.History, small())
		})
	}
}

func TestAnUnknownWriteMayComeAfterTooManyShardsWereFaulty(t *testing.T) {
	for invoke, want := range map[int][]Invariant{50_000: only(Linearizable), 60_500: nil} {
		b := clean()
		b.unknownDelete("k5", invoke)
		b.fault(ShardAway, "a", 60_000, 61_000)
		b.fault(ShardAway, "b", 60_000, 61_000)
		b.get("k5", 90_000, "/5", 1)
		b.get("k5", 91_000, "", 0)
		wantOnly(t, b.History, small(), want...)
	}
}

// TestAHeldUpRecorderIsStillJudged: a recorder that stood still explains duplicates and lateness, but the run must
// prove as much as before.
func TestAHeldUpRecorderIsStillJudged(t *testing.T) {
	l := small()
	l.MinPerFault, l.MinInWindows = 3, 1
	b := clean()
	before := l.Check(b.History)
	b.fault(HeldUp, "", 20_000, 21_000)
	after := l.Check(b.History)
	if after.Verdict != VerdictPassed || len(after.Reasons) > 0 {
		t.Errorf("%s: %q", after.Verdict, after.Reasons)
	}
	if before.Counts.Requests == 0 || after.Counts.Requests != before.Counts.Requests {
		t.Errorf("%d requests judged, %d without the fault", after.Counts.Requests, before.Counts.Requests)
	}
	if before.Counts.Obligatory == 0 || after.Counts.Obligatory != before.Counts.Obligatory {
		t.Errorf("%d obligatory pops, %d without the fault", after.Counts.Obligatory, before.Counts.Obligatory)
	}
}
