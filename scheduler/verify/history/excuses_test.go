package history

import "testing"

// excuse is a case for an excuse of the judge. Every excuse has cases within its reach and just beyond.
type excuse struct {
	name string
	tell func(*book)
	want []Invariant
}

func runExcuses(t *testing.T, excuses []excuse) {
	t.Helper()
	for _, e := range excuses {
		t.Run(e.name, func(t *testing.T) {
			b := clean()
			e.tell(b)
			b.sample()
			wantOnly(t, b.History, small(), e.want...)
		})
	}
}

// A DELETE of k7 at 50 s says that a copy was not reached. The old version is called 10 s later.
func TestAnOldVersionWhileAllThatWereToldAreAway(t *testing.T) {
	after := func(unreached, faulty int) func(*book) {
		return func(b *book) {
			b.write(Create, "k7", "/7", 40_000, 20_000, 1)
			b.Operations[b.delete("k7", 50_000)].Answer = &Answer{InFlight: true, Unreached: unreached}
			b.call("k7", "/7", 7, 1, 1, 60_006, 200)
			if faulty > 0 {
				b.fault(ShardAway, "a", faulty, faulty+1000)
			}
		}
	}
	frozen := func(unreached, until int) func(*book) {
		return func(b *book) {
			after(unreached, 0)(b)
			b.fault(NodeFreeze, "n1", until-1000, until)
		}
	}
	// bare is a DELETE that told shards without a copy, too.
	bare := func(unreached int) func(*book) {
		return func(b *book) {
			after(unreached, 59_500)(b)
			b.deletion("k7").Answer.Copies = 3
		}
	}
	late := only(NoneAfterAnswer)
	behind := func(faulty int) func(*book) {
		return func(b *book) {
			after(1, faulty)(b)
			b.called("/7", 0).move(at(80_000))
		}
	}
	runExcuses(t, []excuse{
		{"the one that was told is away", after(1, 59_500), nil},
		{"it is away when the callback comes, late as well", behind(79_500), nil},
		{"it was away when the callback was due", behind(60_500), late},
		{"it was when the callback was sent, at the earliest", after(1, 60_006-2000-1000-afterMs), nil},
		{"it was before", after(1, 60_006-2000-1000-afterMs-1), late},
		{"it is away, and shards without a copy were told", bare(1), nil},
		{"the same, and both owners were told", bare(0), late},
		{"it is later", after(1, 60_007), late},
		{"none is", after(1, 0), late},
		{"both were told, and one of them is away", after(0, 59_500), late},
		{"a node had stood still until now", frozen(1, 60_006-3000), nil},
		{"it had until before", frozen(1, 60_006-3001), late},
		{"it had, and both were told", frozen(0, 60_000), late},
		{"another node had stood still", func(b *book) {
			frozen(1, 60_006-3000)(b)
			b.called("/7", 0).Node = "n2"
		}, late},
	})
}

// k7 is over at 41 s, and a PUT at 60 s has a lower version.
func TestVersionsGoDownOnlyWhereNothingIsStored(t *testing.T) {
	again := func(jump int, change func(*book)) func(*book) {
		return func(b *book) {
			b.write(Create, "k7", "/7", 40_000, 1000, 1)
			b.call("k7", "/7", 70, 1, 1, 41_006, 200)
			b.write(Replace, "k7", "/7b", 60_000, 1000, 1)
			b.call("k7", "/7b", 69, 1, 1, 61_006, 200)
			if jump > 0 {
				b.Faults = append(b.Faults, Fault{Kind: "clock", Class: NodeClock, Node: "n1", StartNs: at(jump), EndNs: at(jump), StepMs: -9000})
			}
			if change != nil {
				change(b)
			}
		}
	}
	down := only(OnlyWhatWasTold)
	runExcuses(t, []excuse{
		{"a clock jumped", again(50_000, nil), nil},
		{"a clock jumped before that", again(10, nil), nil},
		{"a clock jumped later", again(60_005, nil), down},
		{"no clock jumped", again(0, nil), down},
		{"it was not over", again(50_000, func(b *book) {
			b.asked("/7").Timer.Pops = 100
		}), only(NothingLost, OnlyWhatWasTold)},
		{"what replaced it is over", again(50_000, func(b *book) {
			b.asked("/7").Timer.Pops = 100
			b.write(Replace, "k7", "/7a", 42_000, 1000, 1)
			b.call("k7", "/7a", 71, 1, 1, 43_006, 200)
		}), nil},
		{"it is remembered by its key", again(50_000, func(b *book) { b.asked("/7").IdempotencyKey = "once" }), down},
		{"it was deleted a minute ago", again(50_000, func(b *book) {
			b.asked("/7").Timer.IntervalMs, b.asked("/7").Timer.Pops = 1000, 60
			b.delete("k7", 41_500)
		}), down},
	})
}

// The attempts at k7 are the first at 41 s, the second at 42 s, and again the first. A shard is away meanwhile.
func TestALowerAttemptOfACopyThatHasNotHeard(t *testing.T) {
	again := func(fault int) func(*book) {
		return func(b *book) {
			b.write(Create, "k7", "/7", 40_000, 1000, 1)
			b.call("k7", "/7", 7, 1, 1, 41_006, 500)
			b.call("k7", "/7", 7, 1, 2, 42_006, 500)
			b.call("k7", "/7", 7, 1, 1, 43_006, 200)
			b.fault(ShardAway, "a", fault, fault+1000)
		}
	}
	runExcuses(t, []excuse{
		{"in the fault's window", again(40_900), nil},
		{"before it", again(45_007), only(SequenceRises)},
		{"after it", again(43_006 - 1000 - afterMs - 1), only(SequenceRises)},
	})
}

// A one-shot timer fails four times, and isn't tried again.
func TestAFaultMayTakeAnAttemptWithIt(t *testing.T) {
	four := func(class Class, fault int) func(*book) {
		return func(b *book) {
			b.write(Create, "k7", "/7", 40_000, 1000, 1)
			for n, arrive := range []int{41_006, 42_006, 44_006, 48_006} {
				b.call("k7", "/7", 7, 1, n+1, arrive, 500)
			}
			b.fault(class, "a", fault, fault+1000)
		}
	}
	runExcuses(t, []excuse{
		{"the fifth fence's answer was lost", four(AnswersLost, 52_000), nil},
		{"its shard was away", four(ShardAway, 52_000), nil},
		{"a clock jumped", four(ClockStep, 52_000), only(NothingLost)},
		{"the fault was long before", four(AnswersLost, 41_006-1000-afterMs-1), only(NothingLost)},
		{"the fault was long after", four(AnswersLost, 80_000), only(NothingLost)},
	})
}

// A skew is 2 s, and is added to the 250 ms that are always allowed.
func TestTheBestCopyMayBeMissing(t *testing.T) {
	late := func(unreached, by int, change func(*book)) func(*book) {
		return func(b *book) {
			b.Operations[b.write(Create, "k7", "/7", 40_000, 60_000, 1)].Answer.Unreached = unreached
			b.call("k7", "/7", 7, 1, 1, 100_004+by, 200)
			if change != nil {
				change(b)
			}
		}
	}
	lose := func(end int, repaired int) func(*book) {
		return func(b *book) {
			f := &b.Faults[b.fault(ShardLost, "a", end-1000, end)]
			f.RepairedNs = at(repaired)
		}
	}
	runExcuses(t, []excuse{
		{"one was not reached", late(1, 2250, nil), nil},
		{"one was not reached, and later", late(1, 2251, nil), only(OnTime)},
		{"two were not reached", late(2, 4250, nil), nil},
		{"all were reached", late(0, 251, nil), only(OnTime)},
		{"one was lost", late(0, 2250, lose(50_000, 0)), nil},
		{"one was lost, and later", late(0, 2251, lose(50_000, 0)), only(OnTime)},
		{"it was lost before", late(0, 251, lose(39_999, 0)), only(OnTime)},
		{"it was repaired", late(0, 251, lose(50_000, 51_000)), only(OnTime)},
	})
}

// The shards change at 60 s, and shard a becomes an owner of k7.
func TestANewOwnerMayHaveMissedOutcomes(t *testing.T) {
	late := func(by int, before string, awayUntil, changeEnds int) func(*book) {
		return func(b *book) {
			b.write(Create, "k7", "/7", 40_000, 60_000, 1)
			b.call("k7", "/7", 7, 1, 1, 100_004+by, 200)
			b.Homes = append(b.Homes, Home{Key: "k7", Shards: []string{before, "c"}, UntilNs: at(120_000)}, Home{Key: "k7", Shards: []string{"a", "c"}, FromNs: at(59_000), UntilNs: at(200_000)})
			b.fault(ShardAway, "a", awayUntil-1000, awayUntil)
			b.change(60_000, changeEnds, 3)
		}
	}
	runExcuses(t, []excuse{
		{"away during the change", late(2250, "b", 70_000, 110_000), nil},
		{"and later", late(2251, "b", 70_000, 110_000), only(OnTime)},
		{"the change is over", late(251, "b", 70_000, 99_000), only(OnTime)},
		{"away before the change", late(251, "b", 59_000, 110_000), only(OnTime)},
		{"an owner before", late(251, "a", 70_000, 110_000), only(OnTime)},
	})
}

// A shard's clock jumps by 300 ms; k7 is called 200 ms early, and a GET finds nothing any more.
func TestAClockThatJumpsMayEndATimer(t *testing.T) {
	over := func(step int64) func(*book) {
		return func(b *book) {
			b.write(Create, "k7", "/7", 40_000, 1000, 1)
			b.call("k7", "/7", 7, 1, 1, 40_800, 200)
			b.get("k7", 40_810, "", 0)
			f := &b.Faults[b.fault(ClockStep, "a", 40_500, 40_500)]
			f.StepMs = step
		}
	}
	runExcuses(t, []excuse{
		{"far enough", over(300), nil},
		{"not so far", over(100), only(NeverEarly, Linearizable)},
	})
}

// k7 is created with an Idempotency-Key and stored once. Its shard loses the copy.
func TestARepeatTellsHowManyCopiesThereAre(t *testing.T) {
	lost := func(copies int) func(*book) {
		return func(b *book) {
			first := b.write(Create, "k7", "/7", 40_000, 100_000, 1)
			again := b.write(Create, "k7", "/7", 41_000, 100_000, 1)
			for _, i := range []int{first, again} {
				b.Operations[i].IdempotencyKey = "once"
			}
			b.Operations[again].Answer.Copies = copies
			unknown := &b.Operations[first]
			unknown.Outcome, unknown.Status, unknown.ReturnNs, unknown.Answer = Unknown, 0, -1, nil
			b.fault(ShardLost, "a", 45_000, 46_000)
			b.get("k7", 70_000, "", 0)
			b.End.AtNs, b.End.DumpNs, b.End.Drained = at(120_000), -1, false
			b.Header.Mode, b.Copies, b.Samples = Safety, nil, nil
			b.Header.Exempt = only(BackToNormal, MetricsAgree)
		}
	}
	for copies, want := range map[int][]Invariant{1: nil, 2: only(Linearizable)} {
		b := clean()
		lost(copies)(b)
		limits := small()
		limits.Availability = 0
		wantOnly(t, b.History, limits, want...)
	}
}

// A DELETE of k7 at 50 s reaches one copy, and a PUT at 60 s reaches the second copy. The PUT never comes.
func TestTheClocksOrderWritesThatNoCopyHeardBothOf(t *testing.T) {
	again := func(deleted, replaced Answer, jump int) func(*book) {
		return func(b *book) {
			b.write(Create, "k7", "/7", 40_000, 20_000, 1)
			b.Operations[b.delete("k7", 50_000)].Answer = &deleted
			replaced.Key = "k7"
			b.Operations[b.write(Replace, "k7", "/7b", 60_000, 1000, 1)].Answer = &replaced
			b.get("k7", 60_500, "", 0)
			b.Faults = append(b.Faults, Fault{Kind: "clock", Class: NodeClock, Node: "n1", StartNs: at(jump), EndNs: at(jump), StepMs: -9000})
		}
	}
	one := Answer{InFlight: true, Copies: 1, Unreached: 1}
	gone := Answer{InFlight: true, Unreached: 1}
	lost := only(NothingLost, Linearizable)
	runExcuses(t, []excuse{
		{"a clock jumped", again(gone, one, 30_000), nil},
		{"it did later", again(gone, one, 60_001), lost},
		{"a PUT came before, not a DELETE", func(b *book) {
			again(gone, one, 30_000)(b)
			b.Operations[b.write(Replace, "k7", "/7c", 70_000, 1000, 1)].Answer = &Answer{Key: "k7", InFlight: true, Copies: 1, Unreached: 1}
		}, nil},
		{"the DELETE told both", again(Answer{}, one, 30_000), lost},
		{"the PUT told both", again(gone, Answer{Copies: 2}, 30_000), lost},
		{"the PUT told a substitute, too", again(gone, Answer{Copies: 2, Unreached: 1}, 30_000), nil},
		{"the DELETE told two of three", func(b *book) {
			again(gone, one, 30_000)(b)
			b.Header.RF = 3
			for i := range b.Operations {
				if a := b.Operations[i].Answer; a != nil && a.Copies == 2 {
					a.Copies = 3
				}
			}
		}, lost},
		{"it comes although a GET did not find it", func(b *book) {
			again(gone, one, 30_000)(b)
			b.call("k7", "/7b", 8, 1, 1, 61_006, 200)
		}, nil},
	})
}

// k7 is called for the only time at 41 s, and replaced at 60 s. The PUT never comes.
func TestTheClocksOrderAPutAndWhatIsOver(t *testing.T) {
	again := func(arrive, unreached, jump int) func(*book) {
		return func(b *book) {
			b.write(Create, "k7", "/7", 40_000, 1000, 1)
			b.call("k7", "/7", 7, 1, 1, arrive, 200)
			put := b.Operations[b.write(Replace, "k7", "/7b", 60_000, 1000, 1)].Answer
			put.InFlight, put.Unreached = true, unreached
			b.Faults = append(b.Faults, Fault{Kind: "clock", Class: NodeClock, Node: "n1", StartNs: at(jump), EndNs: at(jump), StepMs: -9000})
		}
	}
	runExcuses(t, []excuse{
		{"a clock jumped", again(41_006, 1, 30_000), nil},
		{"it did later", again(41_006, 1, 60_001), only(NothingLost)},
		{"the PUT told all", again(41_006, 0, 30_000), only(NothingLost)},
		{"the PUT told all that its node knew of", func(b *book) {
			again(41_006, 0, 30_000)(b)
			b.change(40_500, 41_500, 2)
		}, nil},
		{"the shards had changed before", func(b *book) {
			again(41_006, 0, 30_000)(b)
			b.change(38_000, 39_000, 2)
		}, only(NothingLost)},
		{"the shards changed later", func(b *book) {
			again(41_006, 0, 30_000)(b)
			b.change(42_000, 43_000, 2)
		}, only(NothingLost)},
		{"the shards changed, and no clock", func(b *book) {
			again(41_006, 0, 60_001)(b)
			b.change(40_500, 41_500, 2)
		}, only(NothingLost)},
		{"it was not over", func(b *book) {
			again(41_006, 1, 30_000)(b)
			b.asked("/7").Timer.Pops = 100
		}, only(NothingLost)},
	})
}

// k7 is stored on one copy at 40 s and deleted on the second copy at 50 s. k7 is called all the same, 10 s later.
func TestADeleteThatAnEarlierClockOverrules(t *testing.T) {
	called := func(unreached, jump int) func(*book) {
		return func(b *book) {
			b.Operations[b.write(Create, "k7", "/7", 40_000, 20_000, 1)].Answer = &Answer{Key: "k7", InFlight: true, Copies: 1, Unreached: 1}
			b.Operations[b.delete("k7", 50_000)].Answer = &Answer{InFlight: true, Unreached: unreached}
			b.call("k7", "/7", 7, 1, 1, 60_006, 200)
			b.Faults = append(b.Faults, Fault{Kind: "clock", Class: NodeClock, Node: "n1", StartNs: at(jump), EndNs: at(jump), StepMs: -9000})
		}
	}
	stored := func(copies, drained, active int) func(*book) {
		return func(b *book) {
			called(1, 30_000)(b)
			for i := range b.Operations {
				if o := &b.Operations[i]; o.Kind == Create && o.Answer != nil && o.Answer.Key == "k7" {
					o.Answer.Copies, o.Answer.Unreached = copies, 0
				}
			}
			b.change(drained, drained+1000, active)
		}
	}
	runExcuses(t, []excuse{
		{"a clock jumped", called(1, 30_000), nil},
		{"it did later", called(1, 50_001), only(NoneAfterAnswer)},
		{"the DELETE told both", called(0, 30_000), only(NoneAfterAnswer)},
		{"both were told, and then one was drained", stored(2, 45_000, 1), nil},
		{"it was drained later", stored(2, 50_001, 1), only(NoneAfterAnswer)},
		{"two of three were left", stored(2, 45_000, 2), only(NoneAfterAnswer)},
	})
}

// k7 is due at 60 s. At most one of five attempts arrives, and is refused.
func TestAttemptsThatAMuteNodeMade(t *testing.T) {
	mute := func(from, to, refused int) func(*book) {
		return func(b *book) {
			b.write(Create, "k7", "/7", 40_000, 20_000, 1)
			if refused > 0 {
				b.call("k7", "/7", 7, 1, refused, 60_006, 500)
			}
			i := b.fault(NodeFreeze, "n1", from, to)
			b.Faults[i].Mute = true
		}
	}
	slow := func(call int) func(*book) {
		return func(b *book) {
			mute(60_500, 61_600, 3)(b)
			f := &b.Faults[len(b.Faults)-1]
			f.Class, f.Mute, f.CallMs = Slow, false, int64(call)
		}
	}
	lost := only(NothingLost)
	runExcuses(t, []excuse{
		{"two calls that took too long", slow(2000), nil},
		{"two calls that were slow, but arrived", slow(1900), lost},
		{"all five", mute(59_000, 64_500, 0), nil},
		{"four at most", mute(59_000, 62_900, 0), lost},
		{"those of before", mute(50_000, 58_000, 0), lost},
		{"two after the third", mute(60_500, 61_600, 3), nil},
		{"one after the third", mute(60_500, 61_400, 3), only(NothingLost)},
	})
}
