package history

import "testing"

// The fourth callback of /2 arrives at 4206 ms, and its answer takes until 5900 ms. The fifth pop, due by 5204 ms,
// may come until 5900 ms + 50 ms + 250 ms, and never comes.
func TestAFaultWhileACallbackHoldsUpTheLastPop(t *testing.T) {
	missing := func(then func(b *book)) func(*book) {
		return func(b *book) {
			b.called("/2", 3).AnsweredNs = at(5900)
			b.drop("/2", 4)
			then(b)
		}
	}
	lose := func(start int) func(*book) {
		return missing(func(b *book) {
			b.fault(ShardLost, "a", start, start+1)
			b.fault(ShardAway, "b", start, start+1)
		})
	}
	remove := func(invoke int) func(*book) { return missing(func(b *book) { b.delete("k2", invoke) }) }
	runExcuses(t, []excuse{
		{"all copies are lost before its bound", lose(6200), nil},
		{"they are lost later", lose(6201), only(NothingLost)},
		{"a delete comes before its bound", remove(6199), nil},
		{"it comes later", remove(6200), only(NothingLost)},
		{"an earlier callback was over before the pop was due", func(b *book) {
			lose(6200)(b)
			b.called("/2", 3).AnsweredNs = at(5150)
		}, only(NothingLost)},
	})
}

// The second callback of /2 arrives at 2206 ms, and its answer takes until 3600 ms. The third pop, due by 3204 ms,
// may come until 3600 ms + 50 ms + 250 ms, and never comes. The fourth pop comes, from 4200 ms on.
func TestAFaultWhileACallbackHoldsUpAPop(t *testing.T) {
	missing := func(start int) func(*book) {
		return func(b *book) {
			b.called("/2", 1).AnsweredNs = at(3600)
			b.drop("/2", 2)
			b.fault(NodeDeath, "n1", start, start+10)
		}
	}
	runExcuses(t, []excuse{
		{"a node dies before the pop's bound", missing(3900), nil},
		{"it dies later", missing(3901), only(NothingLost, SequenceRises)},
		{"an earlier callback was over before the pop was due", func(b *book) {
			missing(3900)(b)
			b.called("/2", 1).AnsweredNs = at(3150)
		}, only(NothingLost, SequenceRises)},
	})
}

// The only attempt at k7 fails, and is over at 41,007 ms. The next attempt may come until 2250 ms later, and never
// comes.
func TestALossBeforeTheNextAttempt(t *testing.T) {
	failed := func(class Class, start int) func(*book) {
		return func(b *book) {
			b.write(Create, "k7", "/7", 40_000, 1000, 1)
			b.call("k7", "/7", 7, 1, 1, 41_006, 500)
			b.fault(class, "a", start, start+1)
			b.fault(ShardAway, "b", start, start+1)
			for i := range b.Faults {
				b.Faults[i].RepairedNs = b.Faults[i].EndNs
			}
		}
	}
	runExcuses(t, []excuse{
		{"all copies are lost before it", failed(ShardLost, 41_007+2250), nil},
		{"they are lost later", failed(ShardLost, 41_007+2251), only(NothingLost)},
		{"they were lost before, and one attempt came nevertheless", failed(ShardLost, 35_000), only(NothingLost)},
		{"they are away, and not lost", failed(ShardAway, 41_007+2250), only(NothingLost)},
	})
}

// The second callback of /2 arrives at 2206 ms, and its lease lasts for 3500 ms. The fifth pop, due by 5204 ms, comes
// within a second after the lease. The third pop and the fourth pop are left out for the fifth.
func TestThePopAfterOneWhoseNodeDied(t *testing.T) {
	late := func(arrive, death int, node string) func(*book) {
		return func(b *book) {
			b.called("/2", 1).AnsweredNs = at(2906)
			b.drop("/2", 3)
			b.drop("/2", 2)
			b.called("/2", 2).move(at(arrive))
			b.Faults[b.fault(NodeDeath, "n1", death, death+100)].Node = node
		}
	}
	runExcuses(t, []excuse{
		{"the node dies before the outcome is settled", late(2206+4500, 2956, "n1"), nil},
		{"and the pop comes later", late(2206+4501, 2956, "n1"), only(OnTime)},
		{"the node dies later", late(2206+4500, 2957, "n1"), only(OnTime)},
		{"another node dies", late(2206+4500, 2956, "n2"), only(OnTime)},
	})
}

// The first attempt at k7 arrives at 41,006 ms, and its lease lasts until 44,506 ms. The next attempt may come a
// second later.
func TestTheRetryOfOneWhoseNodeDied(t *testing.T) {
	late := func(arrive, death int) func(*book) {
		return func(b *book) {
			b.write(Create, "k7", "/7", 40_000, 1000, 1)
			b.call("k7", "/7", 7, 1, 1, 41_006, 500)
			b.call("k7", "/7", 7, 1, 2, arrive, 200)
			b.fault(NodeDeath, "n1", death, death+5000)
		}
	}
	runExcuses(t, []excuse{
		{"the node dies before the outcome is settled", late(45_506, 41_006), nil},
		{"and the retry comes later", late(45_507, 41_006), only(OnTime)},
	})
}

// The first callback of k7 may take 10 s. The callback arrives at 44,006 ms, and is answered at 47,406 ms, just after its
// node froze. The lease was renewed until then, and lasts for 3500 ms more.
func TestThePopAfterALongOneWhoseNodeFroze(t *testing.T) {
	for _, d := range []struct {
		name   string
		arrive int
		want   []Invariant
	}{
		{"within a second after the lease", 47_300 + 3500 + 1000, nil},
		{"later", 47_300 + 3500 + 1001, only(OnTime)},
	} {
		t.Run(d.name, func(t *testing.T) {
			b := clean()
			b.write(Create, "k7", "/7", 40_000, 4000, 2)
			b.asked("/7").Timer.TimeoutMs = 10_000
			b.call("k7", "/7", 7, 1, 1, 44_006, 200)
			b.called("/7", 0).AnsweredNs = at(47_406)
			b.call("k7", "/7", 7, 2, 1, d.arrive, 200)
			b.fault(NodeFreeze, "n1", 47_300, 53_000)
			b.sample()
			wantOnly(t, b.History, small(), d.want...)
		})
	}
}
