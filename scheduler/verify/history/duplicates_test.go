package history

import (
	"fmt"
	"testing"
)

// owned notes the owners of a timer for the whole run.
func (b *book) owned(key string, shards ...string) {
	b.Homes = append(b.Homes, Home{Key: key, Shards: shards, UntilNs: at(200_000)})
}

// doubled is a history in which k1 is called by n1 from 1106 to 1107, and again by n2 from 1300 to 1301. The owners
// of k1 are a and b.
func doubled(tell func(*book)) func(*book) {
	return func(b *book) {
		b.owned("k1", "a", "b")
		b.Callbacks[b.call("k1", "/1", 1, 1, 1, 1300, 200)].Node = "n2"
		tell(b)
	}
}

// Faults of every class explain duplicates of the timers that the fault hurts, from the start of the fault until 3 s
// after the end.
func TestAFaultExplainsDuplicatesOfWhatItHurts(t *testing.T) {
	one := func(class Class, target string, start, end int) func(*book) {
		return doubled(func(b *book) { b.fault(class, target, start, end) })
	}
	link := func(node, shard string) func(*book) {
		return doubled(func(b *book) { b.Faults[b.fault(LinkCut, shard, 1000, 2000)].Node = node })
	}
	forgot := func(away string, at, back int) func(*book) {
		return func(b *book) {
			b.owned("k1", "a", "b")
			b.call("k1", "/1", 1, 1, 1, 30_000, 200)
			b.fault(ShardAway, away, 1000, 2000)
			b.Faults[b.fault(ShardLost, "a", at, at)].BackMs = int64(back)
		}
	}
	announced := func(active, back int) func(*book) {
		return func(b *book) {
			b.owned("k1", "a", "b")
			b.call("k1", "/1", 1, 1, 1, 30_000, 200)
			b.change(1000, 2000, active)
			b.Faults[b.fault(ShardLost, "a", 1250, 1250)].BackMs = int64(back)
		}
	}
	// frozen has k1 called again 5.5 s after n1 has woken.
	frozen := func(wakes int, changing bool) func(*book) {
		return func(b *book) {
			b.owned("k1", "a", "b")
			b.Callbacks[b.call("k1", "/1", 1, 1, 1, wakes+5_500, 200)].Node = "n2"
			b.fault(NodeFreeze, "n1", 1000, wakes)
			if changing {
				b.change(1000, 20_000, 2)
			}
		}
	}
	twice := only(NoDuplicates)
	runExcuses(t, []excuse{
		{"the node of the first callback died", one(NodeDeath, "n1", 1000, 2000), nil},
		{"it stood still for so long that its lease was over, and the shards were changing", frozen(8_000, true), nil},
		{"it stood still for so long, and the shards did not change", frozen(8_000, false), twice},
		{"that of the second stood still", one(NodeFreeze, "n2", 1000, 2000), nil},
		{"another one died", one(NodeDeath, "n3", 1000, 2000), twice},
		{"that which took the write died", doubled(func(b *book) {
			b.asked("/1").Node = "n3"
			b.fault(NodeDeath, "n3", 1000, 2000)
		}), nil},
		{"nobody knows who called", doubled(func(b *book) {
			b.called("/1", 0).Node = ""
			b.fault(NodeDeath, "n3", 1000, 2000)
		}), nil},
		{"an owner was away", one(ShardAway, "b", 1000, 2000), nil},
		{"another shard was", one(ShardAway, "c", 1000, 2000), twice},
		{"another shard lost data", one(ShardLost, "c", 1000, 2000), twice},
		{"answers of an owner were lost", one(AnswersLost, "a", 1000, 2000), nil},
		{"those of another shard were", one(AnswersLost, "c", 1000, 2000), twice},
		{"a link to an owner was cut, of a node that did not call", link("n3", "a"), nil},
		{"a link of who called was cut, to another shard", link("n1", "c"), twice},
		{"the recorder stood still", one(HeldUp, "", 1000, 2000), nil},
		{"an owner lost it", doubled(func(b *book) {
			b.Faults[b.fault(ShardLost, "a", 1400, 1400)].BackMs = 1400 - 1351
		}), nil},
		{"an owner lost what came later", doubled(func(b *book) {
			b.Faults[b.fault(ShardLost, "a", 1400, 1400)].BackMs = 1400 - 1352
		}), twice},
		{"an owner lost all, and the other was away", forgot("b", 1250, 0), nil},
		{"it lost the last second", forgot("b", 1250, 1), twice},
		{"it lost all before the first callback", forgot("b", 1050, 0), twice},
		{"another shard was away", forgot("c", 1250, 0), twice},
		{"an owner lost the last moments, and the other was only announced", announced(1, 200), nil},
		{"the other had a copy", announced(2, 200), twice},
		{"it lost what came later, and the other was only announced", announced(1, 1), twice},
		{"slow", one(Slow, "a", 1000, 2000), twice},
		{"a clock jumped", one(ClockStep, "a", 1000, 2000), twice},
		{"harmless", one(Harmless, "a", 1000, 2000), twice},
		{"3 s after the first", one(ShardAway, "a", -2000, -1894), nil},
		{"3 s after the second", one(ShardAway, "a", -2000, -1700), nil},
		{"later", doubled(func(b *book) {
			b.fault(ShardAway, "a", -3000, -1894)
			b.Faults[0].EndNs--
		}), twice},
		{"as soon as an outcome may be told", one(ShardAway, "a", 1301+50, 2000), nil},
		{"after that", one(ShardAway, "a", 1301+51, 2000), twice},
		{"it is repaired later", doubled(func(b *book) {
			b.Faults[b.fault(ShardAway, "a", -4000, -2000)].RepairedNs = at(10_000)
		}), twice},
	})
}

// A node dies while k1 is called, from 1106 to 1107. The lease of 3.5 s is over, and found, by 5607.
func TestAFaultExplainsNoDuplicateAfterALease(t *testing.T) {
	again := func(arrive int) func(*book) {
		return func(b *book) {
			b.call("k1", "/1", 1, 1, 1, arrive, 200)
			b.fault(NodeDeath, "n1", 1000, 1200)
			b.Operations = dropGets(b.Operations, "k1")
		}
	}
	runExcuses(t, []excuse{
		{"found in time", again(1107 + 4500), nil},
		{"later", again(1107 + 4501), only(NoDuplicates)},
	})
}

// The Redis of an owner is down from 2000 to 4000, and comes back without the writes since 1000. The Redis fires
// nothing for 3 s, and is polled 150 ms later at the latest.
func TestARedisThatLostAnOutcomeCallsAfterItsQuiet(t *testing.T) {
	again := func(class Class, arrive int) func(*book) {
		return func(b *book) {
			b.owned("k1", "a", "b")
			b.call("k1", "/1", 1, 1, 1, arrive, 200)
			b.Faults[b.fault(class, "a", 2000, 4000)].BackMs = 1000
			b.Operations = dropGets(b.Operations, "k1")
		}
	}
	runExcuses(t, []excuse{
		{"at the first poll", again(ShardLost, 4000+3000+150), nil},
		{"later", again(ShardLost, 4000+3000+151), only(NoDuplicates)},
		{"another process answered, with all data", again(ShardAway, 4000+3000+1), only(NoDuplicates)},
	})
}

// A repetition that a fault explains fails, and its retry comes when the fault explains nothing any more.
func TestTheRetryOfARepetitionFollowsTheRepetition(t *testing.T) {
	again := func(arrive int) func(*book) {
		return func(b *book) {
			b.owned("k1", "a", "b")
			b.call("k1", "/1", 1, 1, 1, arrive, 500)
			b.call("k1", "/1", 1, 1, 2, arrive+2000, 200)
			b.Faults[b.fault(ShardLost, "a", 1500, 1500)].BackMs = 500
			b.Operations = dropGets(b.Operations, "k1")
		}
	}
	runExcuses(t, []excuse{
		{"the repetition comes before the lease is found to be over", again(1107 + 4500), nil},
		{"later", again(1107 + 4501), only(NoDuplicates)},
	})
}

// The only owner of k1 goes back to before the outcome of the callback that is over at 1107. The outcome is written by
// 1157 (Limits.Settle). Nothing else knows of the callback, so the second one comes, however late.
func TestTheOnlyOwnerLosesAnOutcome(t *testing.T) {
	again := func(owner string, back int) func(*book) {
		return func(b *book) {
			b.owned("k1", owner)
			b.call("k1", "/1", 1, 1, 1, 30_000, 200)
			b.Faults[b.fault(ShardLost, "a", 1500, 1500)].BackMs = int64(back)
		}
	}
	twice := only(NoDuplicates)
	runExcuses(t, []excuse{
		{"the outcome is undone", again("a", 1500-1157), nil},
		{"later writes are undone", again("a", 1500-1158), twice},
		{"another shard lost writes", again("b", 1500-1157), twice},
	})
}

// If a timer's owners change, former and later owners count, but only while the shards own the timer.
func TestOwnersOfAnotherTime(t *testing.T) {
	owned := func(from, until int) func(*book) {
		return doubled(func(b *book) {
			b.Homes = append(b.Homes, Home{Key: "k1", Shards: []string{"c"}, FromNs: at(from), UntilNs: at(until)})
			b.fault(ShardAway, "c", 1000, 1200)
		})
	}
	runExcuses(t, []excuse{
		{"it was one until then", owned(0, 1000), nil},
		{"it had been one before", owned(0, 999), only(NoDuplicates)},
		{"it is one when it comes again", owned(1300, 9000), nil},
		{"it became one later", owned(1301, 9000), only(NoDuplicates)},
		{"nobody knows the owners", doubled(func(b *book) {
			b.Homes = b.Homes[:len(b.Homes)-1]
			b.fault(ShardAway, "c", 1000, 1200)
		}), nil},
	})
}

// k7 is written at 40 s, amid lost answers, and called twice, 60 s later. Copies that the write did not reach explain
// nothing.
func TestAWriteThatMissedACopyExplainsNothingLater(t *testing.T) {
	twice := func(fault, status int) func(*book) {
		return func(b *book) {
			b.Operations[b.write(Create, "k7", "/7", 40_000, 60_000, 1)].Answer.Unreached = 1
			b.call("k7", "/7", 7, 1, 1, 100_006, status)
			b.call("k7", "/7", 7, 1, 1, 101_006, status)
			b.fault(AnswersLost, "a", fault, fault+1000)
		}
	}
	runExcuses(t, []excuse{
		{"lost when it was written", twice(39_500, 200), only(NoDuplicates)},
		{"and answered 410", twice(39_500, 410), only(OnlyWhatWasTold)},
		{"lost when it was called", twice(99_500, 200), nil},
		{"lost when it was called, and answered 410", twice(99_500, 410), nil},
	})
}

// Among all callbacks, some came twice, since a node died.
func TestFewDuplicatesAreAllowed(t *testing.T) {
	run := func(callbacks, twice int, class Class) func(*book) {
		return func(b *book) {
			callbacks -= len(b.Callbacks) + twice
			for i := range callbacks {
				key := fmt.Sprintf("t%d", i)
				b.write(Create, key, "/"+key, 20_000, 1000, 1)
				b.call(key, "/"+key, 100+i, 1, 1, 21_006, 200)
				if i < twice {
					b.call(key, "/"+key, 100+i, 1, 1, 21_106, 200)
				}
			}
			b.fault(NodeDeath, "n1", 20_500, 21_500)
			if class != "" {
				b.fault(class, "a", 150_000, 150_001)
				b.Header.Exempt = only(CopiesAtHome)
			}
		}
	}
	runExcuses(t, []excuse{
		{"one", run(100, 1, ""), nil},
		{"two in less than 2,000", run(1999, 2, ""), only(NoDuplicates)},
		{"two in 2,000", run(2000, 2, ""), nil},
		{"nine in less than 2,000, where links were cut", run(1999, 10, LinkCut), only(NoDuplicates)},
		{"ten in 2,000, where links were cut", run(2000, 10, LinkCut), nil},
		{"where answers were lost", run(2000, 10, AnswersLost), nil},
		{"where the recorder stood still, with the links that it plays", run(2000, 10, HeldUp), nil},
		{"where a shard was away", run(2000, 10, ShardAway), only(NoDuplicates)},
	})
}

// Two sides without a common shard call all timers twice, however many timers come due meanwhile.
func TestASplitAllowsAnyNumberOfDuplicates(t *testing.T) {
	run := func(class Class) func(*book) {
		return func(b *book) {
			for i := range 20 {
				key := fmt.Sprintf("t%d", i)
				b.owned(key, "a", "b")
				b.write(Create, key, "/"+key, 20_000, 1000, 1)
				b.call(key, "/"+key, 100+i, 1, 1, 21_006, 200)
				b.Callbacks[b.call(key, "/"+key, 100+i, 1, 1, 21_106, 200)].Node = "n2"
			}
			b.Faults[b.fault(class, "b", 20_500, 21_500)].Node = "n1"
			b.Faults[b.fault(class, "a", 20_500, 21_500)].Node = "n2"
			b.Header.Exempt = only(CopiesAtHome)
		}
	}
	runExcuses(t, []excuse{
		{"while the nodes were split", run(NetSplit), nil},
		{"while links were cut", run(LinkCut), only(NoDuplicates)},
	})
}

// A clock that jumps excuses only deviations of its own work: timers of the clock's shard, or versions of the clock's
// node.
func TestAClockExcusesItsOwnTimersOnly(t *testing.T) {
	step := func(shard string, ms int64, change func(*book)) func(*book) {
		return func(b *book) {
			b.owned("k1", "a", "b")
			b.Faults[b.fault(ClockStep, shard, 500, 500)].StepMs = ms
			change(b)
		}
	}
	early := func(b *book) { b.called("/1", 0).move(at(1099 - 300)) }
	late := func(b *book) { b.called("/1", 0).move(at(1104 + 550)) }
	lease := func(shard string) func(*book) {
		return doubled(func(b *book) { b.Faults[b.fault(ClockStep, shard, 1107, 1107)].StepMs = 3306 })
	}
	falls := func(node string) func(*book) {
		return func(b *book) {
			b.write(Create, "k7", "/7", 40_000, 1000, 1)
			b.call("k7", "/7", 70, 1, 1, 41_006, 200)
			b.write(Replace, "k7", "/7b", 60_000, 1000, 1)
			b.call("k7", "/7b", 69, 1, 1, 61_006, 200)
			b.Faults = append(b.Faults, Fault{Kind: "clock", Class: NodeClock, Node: node, StartNs: at(50_000), EndNs: at(50_000), StepMs: -9000})
		}
	}
	runExcuses(t, []excuse{
		{"early by an owner's", step("b", 300, early), nil},
		{"early by another", step("c", 300, early), only(NeverEarly)},
		{"early by another, which may have what an owner missed", step("c", 300, func(b *book) {
			early(b)
			b.asked("/1").Answer.Unreached = 1
		}), nil},
		{"late by an owner's", step("b", -300, late), nil},
		{"late by another", step("c", -300, late), only(OnTime)},
		{"twice by an owner's", lease("b"), nil},
		{"twice by another", lease("c"), only(NoDuplicates)},
		{"a lower version by who wrote", falls("n1"), nil},
		{"a lower version by another", falls("n2"), only(OnlyWhatWasTold)},
	})
}

// A PUT of k7 at 50 s has no answer; the timer is deleted at 53 s, and called.
func TestAnUnknownWriteIsOverAfter3s(t *testing.T) {
	deleted := func(when int) func(*book) {
		return func(b *book) {
			o := &b.Operations[b.write(Replace, "k7", "/7", 50_000, 10_000, 1)]
			o.Outcome, o.Status, o.ReturnNs, o.Answer = Unknown, 0, -1, nil
			b.manyGets()
			b.delete("k7", when)
			b.call("k7", "/7", 7, 1, 1, 60_006, 200)
		}
	}
	runExcuses(t, []excuse{
		{"perhaps after the delete", deleted(53_000), nil},
		{"certainly before", deleted(53_001), only(NoneAfterAnswer)},
	})
}

// The first pop of k7 fails, and the second pop comes in place of a retry. Then a loses all data while b is away, and b
// comes back with the first pop: the callback is a repetition and no late retry. Without the second pop, the same
// callback is a late retry.
func TestARepetitionAfterALaterPopIsNoRetry(t *testing.T) {
	for name, c := range map[string]struct {
		second int // when the second pop is called
		want   []Invariant
	}{"after the second pop": {12_006, nil}, "before": {31_000, only(OnTime)}} {
		t.Run(name, func(t *testing.T) {
			b := clean()
			b.owned("k7", "a", "b")
			b.write(Create, "k7", "/7", 10_000, 1000, 2)
			b.call("k7", "/7", 7, 1, 1, 11_006, 500)
			b.call("k7", "/7", 7, 2, 1, c.second, 200)
			b.call("k7", "/7", 7, 1, 1, 30_000, 200)
			b.fault(ShardAway, "b", 10_500, 14_500)
			b.fault(ShardLost, "a", 14_000, 14_000)
			b.sample()
			wantOnly(t, b.History, small(), c.want...)
		})
	}
}

// The owner of k7 changes from a to b. The sweep moves the copy at about 10,000, and a loses that. The window of the loss
// ends 3.5 s, two skews of 2 s and 3 s after the loss.
func TestACopyMayComeBackThatTheSweepHadMoved(t *testing.T) {
	again := func(active, back, arrive int, owner string) func(*book) {
		return func(b *book) {
			b.write(Create, "k7", "/7", 1000, 12_000, 1)
			b.Homes = append(b.Homes, Home{Key: "k7", Shards: []string{owner}, UntilNs: at(10_100)}, Home{Key: "k7", Shards: []string{"b"}, FromNs: at(9000), UntilNs: at(200_000)})
			b.call("k7", "/7", 7, 1, 1, 13_006, 200)
			b.call("k7", "/7", 7, 1, 1, arrive, 200)
			b.change(2000, active, 1)
			b.Faults[b.fault(ShardLost, "a", 10_500, 10_500)].BackMs = int64(back)
			b.Faults[len(b.Faults)-1].RepairedNs = 0
		}
	}
	twice := only(NoDuplicates)
	runExcuses(t, []excuse{
		{"the sweep had moved the copy", again(10_400, 1000, 10_500+10_500, "a"), nil},
		{"the shard is swept by then", again(10_400, 1000, 10_501+10_500, "a"), twice},
		{"the shard lost what came later", again(10_400, 99, 10_500+10_500, "a"), twice},
		{"all had been swept before", again(9499, 1000, 10_500+10_500, "a"), twice},
		{"another shard was the owner", again(10_400, 1000, 10_500+10_500, "c"), twice},
	})
}
