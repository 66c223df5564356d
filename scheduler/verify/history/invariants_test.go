package history

import "testing"

// damage is a change of the clean history, and the invariants that the change violates; none if the history is still
// fine.
type damage struct {
	name string
	do   func(*book)
	want []Invariant
}

func runDamages(t *testing.T, damages []damage) {
	t.Helper()
	for _, d := range damages {
		t.Run(d.name, func(t *testing.T) {
			b := clean()
			d.do(b)
			wantOnly(t, b.History, small(), d.want...)
		})
	}
}

func only(i ...Invariant) []Invariant { return i }

func TestNothingLost(t *testing.T) {
	runDamages(t, []damage{
		{"never called", func(b *book) { b.drop("/1", 0); b.sample() }, only(NothingLost)},
		{"last pop missing", func(b *book) { b.drop("/2", 4); b.sample() }, only(NothingLost)},
		{"pop in the middle missing", func(b *book) { b.drop("/2", 2); b.sample() }, only(NothingLost, SequenceRises)},
		{"not tried again", func(b *book) { b.drop("/6", 1); b.sample() }, only(NothingLost)},
		{"answered too late and not tried again", func(b *book) { b.called("/1", 0).AnsweredNs = at(1106 + 2001); b.sample() }, only(NothingLost)},
		{"answered just in time", func(b *book) { b.called("/1", 0).AnsweredNs = at(1106 + 2000) }, nil},
		{"attempts used up", func(b *book) {
			b.drop("/6", 1)
			for i, ms := range []int{2600, 4600, 8600, 16600} {
				b.call("k6", "/6", 6, 1, i+2, ms, 500)
			}
			b.sample()
		}, nil},
		{"attempts used up but for one", func(b *book) {
			b.drop("/6", 1)
			for i, ms := range []int{2600, 4600, 8600} {
				b.call("k6", "/6", 6, 1, i+2, ms, 500)
			}
			b.sample()
		}, only(NothingLost)},
		{"retry that the next pop ended", func(b *book) { b.called("/2", 1).Status = 500; b.sample() }, nil},
		{"last pop refused once", func(b *book) { b.called("/2", 4).Status = 500; b.sample() }, only(NothingLost)},
		{"410 ends the timer", func(b *book) {
			b.called("/2", 1).Status = 410
			b.drop("/2", 4)
			b.drop("/2", 3)
			b.drop("/2", 2)
			b.sample()
		}, nil},
		{"create not acknowledged", func(b *book) {
			b.drop("/1", 0)
			o := b.asked("/1")
			o.Outcome, o.Answer, o.Status, o.ReturnNs = Unknown, nil, 0, -1
			b.Operations = dropGets(b.Operations, "k1")
			b.manyGets()
			b.sample()
		}, nil},
		{"delete overlaps the time", func(b *book) { b.drop("/1", 0); b.delete("k1", 1300); b.sample() }, nil},
		{"delete after the bound", func(b *book) { b.drop("/1", 0); b.delete("k1", 1360); b.sample() }, only(NothingLost)},
		{"delete of which nobody knows", func(b *book) {
			b.drop("/1", 0)
			i := b.delete("k1", 700)
			b.Operations[i].Outcome = Unknown
			b.sample()
		}, nil},
		{"bound after the end", func(b *book) {
			b.write(Create, "k7", "/7", 199_000, 800, 1)
			b.copies("k7", "/7", 7, 1, 0, "a", "b")
		}, nil},
		{"bound before the end", func(b *book) {
			b.write(Create, "k7", "/7", 198_700, 1000, 1)
			b.copies("k7", "/7", 7, 1, 0, "a", "b")
		}, only(NothingLost)},
	})
}

// manyGets makes so many requests that one request without an answer does not matter.
func (b *book) manyGets() {
	for range 2000 {
		b.get("k5", 4000, "/5", 1)
	}
}

func dropGets(ops []Operation, key string) (kept []Operation) {
	for _, op := range ops {
		if op.Kind != Get || op.Key != key {
			kept = append(kept, op)
		}
	}
	return kept
}

func TestNeverEarly(t *testing.T) {
	runDamages(t, []damage{
		{"1 ms", func(b *book) { b.called("/1", 0).move(at(1099)) }, nil},
		{"more than 1 ms", func(b *book) { b.called("/1", 0).move(at(1099) - 1) }, only(NeverEarly)},
		{"third pop", func(b *book) { b.called("/2", 2).move(at(3198)) }, only(NeverEarly)},
		{"at", func(b *book) { b.asked("/1").Timer.AtNs = new(at(1108)) }, only(NeverEarly)},
		{"at, within 1 ms", func(b *book) { b.asked("/1").Timer.AtNs = new(at(1107)) }, nil},
		{"at, third pop", func(b *book) { b.asked("/2").Timer.AtNs = new(b.called("/2", 0).ArriveNs + 2_000_000) }, only(NeverEarly)},
		{"at in the past", func(b *book) {
			b.asked("/1").Timer.AtNs = new(at(-5000))
			b.called("/1", 0).move(at(106))
			b.Operations = dropGets(b.Operations, "k1")
		}, nil},
	})
}

func TestNoneAfterAnswer(t *testing.T) {
	late := func(b *book, arrive, status int) {
		b.call("k4", "/4", 3, 1, 1, arrive, status)
		b.sample()
	}
	runDamages(t, []damage{
		{"delete, in time", func(b *book) { b.asked("/4").Timer.IntervalMs = 1600; late(b, 2004, 200) }, nil},
		{"after the answer to a delete", func(b *book) { b.asked("/4").Timer.IntervalMs = 1600; late(b, 2005, 200) }, only(NoneAfterAnswer)},
		{"in flight, 2 s", func(b *book) {
			b.asked("/4").Timer.IntervalMs = 3600
			b.deletion("k4").Answer.InFlight = true
			late(b, 4004, 200)
		}, nil},
		{"in flight, more than 2 s", func(b *book) {
			b.asked("/4").Timer.IntervalMs = 3600
			b.deletion("k4").Answer.InFlight = true
			late(b, 4005, 200)
		}, only(NoneAfterAnswer)},
		{"in flight, and held up on its way", func(b *book) { b.lateOfMute(late, 10_000, 9000) }, nil},
		{"in flight, and held up for longer than its time", func(b *book) { b.lateOfMute(late, 4000, 9000) }, only(NoneAfterAnswer)},
		{"in flight, after the way was free again", func(b *book) { b.lateOfMute(late, 10_000, 8500) }, only(NoneAfterAnswer)},
		{"after the answer to a put", func(b *book) {
			b.asked("/3").Timer.IntervalMs = 800
			b.call("k3", "/3", 3, 1, 1, 1106, 200)
			b.sample()
		}, only(NoneAfterAnswer)},
		{"a put in between keeps the new one", func(b *book) { b.called("/3b", 0).move(at(2100)) }, nil},
		{"versions tell which of two overlapping puts is older", func(b *book) {
			b.write(Create, "k7", "/7", 5000, 60_000, 1)
			b.write(Replace, "k7", "/7b", 6000, 1000, 1)
			b.write(Replace, "k7", "/7c", 6001, 1000, 1)
			b.call("k7", "/7c", 10, 1, 1, 7005, 200)
			b.call("k7", "/7b", 9, 1, 1, 7006, 200)
			b.sample()
		}, only(NoneAfterAnswer)},
	})
}

// lateOfMute has a callback of a deleted timer arrive at 9 s from a node that is mute until then.
func (b *book) lateOfMute(late func(b *book, arrive, status int), limitMs int64, muteUntil int) {
	b.asked("/4").Timer.IntervalMs, b.asked("/4").Timer.TimeoutMs = 8590, limitMs
	b.deletion("k4").Answer.InFlight = true
	late(b, 9000, 200)
	b.fault(NodeFreeze, "", 3000, muteUntil)
	f := &b.Faults[len(b.Faults)-1]
	f.Node, f.Mute = b.Callbacks[len(b.Callbacks)-1].Node, true
}

func (b *book) deletion(key string) *Operation {
	for i := range b.Operations {
		if o := &b.Operations[i]; o.Kind == Delete && o.Key == key {
			return o
		}
	}
	panic("no delete of " + key)
}

// refusedWrite is a write that was refused with a status, and called back nevertheless.
func refusedWrite(kind Kind, key string, status int) func(*book) {
	return func(b *book) {
		i := b.write(kind, key, "/7", 5000, 100, 1)
		b.Operations[i].Outcome, b.Operations[i].Status, b.Operations[i].Answer = Failed, status, nil
		b.call("k7", "/7", 7, 1, 1, 5106, 200)
		b.sample()
	}
}

func TestOnlyWhatWasAsked(t *testing.T) {
	runDamages(t, []damage{
		{"nobody asked", func(b *book) { b.call("k9", "/9", 1, 1, 1, 1000, 200); b.sample() }, only(OnlyWhatWasTold)},
		{"body altered", func(b *book) { b.called("/1", 0).BodyHash = "other" }, only(OnlyWhatWasTold)},
		{"wrong url", func(b *book) { b.called("/1", 0).URL = "/1x" }, only(OnlyWhatWasTold)},
		{"another timer's id", func(b *book) { b.called("/1", 0).ID = "k12" }, only(OnlyWhatWasTold)},
		{"bare key as id", func(b *book) { b.called("/1", 0).ID = "k1" }, nil},
		{"another version", func(b *book) { c := b.called("/2", 3); c.Version = "9"; c.WebhookID = "k2.9.4" }, only(OnlyWhatWasTold)},
		{"no version", func(b *book) { c := b.called("/1", 0); c.Version = ""; c.WebhookID = "k1..1" }, only(OnlyWhatWasTold)},
		{"attempt 0", func(b *book) { b.called("/1", 0).Attempt = 0 }, only(OnlyWhatWasTold)},
		{"one pop too many", func(b *book) { b.call("k2", "/2", 2, 6, 1, 6206, 200); b.sample() }, only(OnlyWhatWasTold)},
		{"refused create", refusedWrite(Create, "", 400), only(OnlyWhatWasTold)},
		{"refused put", refusedWrite(Replace, "k7", 400), only(OnlyWhatWasTold)},
		{"overtaken put, in force for a moment", refusedWrite(Replace, "k7", 409), nil},
		{"version falls with a later put", func(b *book) {
			b.asked("/3").Timer.IntervalMs = 500
			b.call("k3", "/3", 9, 1, 1, 806, 200)
			b.sample()
		}, only(OnlyWhatWasTold)},
		{"pop after a 410", func(b *book) { b.called("/2", 3).Status = 410; b.sample() }, only(OnlyWhatWasTold)},
	})
}

func TestSequenceRises(t *testing.T) {
	runDamages(t, []damage{
		{"lower attempt", func(b *book) { b.called("/6", 0).Attempt = 2; b.called("/6", 1).Attempt = 1 }, only(SequenceRises)},
		{"lower attempt, which took too long to arrive", func(b *book) {
			b.called("/6", 0).Attempt, b.called("/6", 1).Attempt = 2, 1
			f := &b.Faults[b.fault(Slow, "", 1500, 2200)]
			f.Node, f.CallMs = "n1", 500
		}, nil},
		{"lower attempt, which began later", func(b *book) {
			b.called("/6", 0).Attempt, b.called("/6", 1).Attempt = 2, 1
			f := &b.Faults[b.fault(Slow, "", 1500, 2200)]
			f.Node, f.CallMs = "n1", 499
		}, only(SequenceRises)},
		{"same attempt", func(b *book) { b.called("/6", 1).Attempt = 1 }, nil},
		{"another webhook-id", func(b *book) { b.called("/6", 1).WebhookID += "0" }, only(SequenceRises)},
		{"gap in a timer of which nobody knows", func(b *book) {
			o := b.asked("/2")
			o.Outcome, o.Status, o.ReturnNs = Unknown, 0, -1
			b.drop("/2", 2)
			b.manyGets()
			b.sample()
		}, only(SequenceRises)},
		{"an older pop again", func(b *book) {
			b.called("/2", 1).Status = 500
			b.call("k2", "/2", 2, 2, 2, 3300, 200)
			b.sample()
		}, only(SequenceRises)},
		{"a callback that ran into the pop after the next", func(b *book) {
			b.called("/2", 0).AnsweredNs = at(3150)
			b.drop("/2", 1)
			b.sample()
		}, nil},
		{"a callback that ran almost so long", func(b *book) {
			b.called("/2", 0).AnsweredNs = at(3149)
			b.drop("/2", 1)
			b.sample()
		}, only(NothingLost, SequenceRises)},
	})
}

func TestNoDuplicates(t *testing.T) {
	twice := func(took int) func(*book) {
		return func(b *book) {
			i := b.call("k1", "/1", 1, 1, 2, 1300, 200)
			b.Callbacks[i].AnsweredNs = at(1300 + took)
			b.sample()
		}
	}
	runDamages(t, []damage{
		{"both in time", twice(1750), only(NoDuplicates)},
		{"second perhaps not in time", twice(1751), nil},
		{"first refused", func(b *book) { b.called("/1", 0).Status = 503; twice(1)(b) }, nil},
		{"first never answered", func(b *book) {
			b.called("/1", 0).AnsweredNs, b.called("/1", 0).Status = -1, 0
			b.call("k1", "/1", 1, 1, 2, 3500, 200)
			b.Operations = dropGets(b.Operations, "k1")
			b.sample()
		}, nil},
	})
}

func TestOnTime(t *testing.T) {
	runDamages(t, []damage{
		{"250 ms", func(b *book) { b.called("/1", 0).move(at(1104 + 250)) }, nil},
		{"more than 250 ms", func(b *book) { b.called("/1", 0).move(at(1104+250) + 1) }, only(OnTime)},
		{"last pop", func(b *book) { b.called("/2", 4).move(at(204 + 5000 + 251)) }, only(OnTime)},
		{"a callback before ran into it", func(b *book) {
			b.called("/2", 3).AnsweredNs = at(5900)
			b.called("/2", 4).move(at(5900 + 50 + 250))
		}, nil},
		{"a callback before ran into it, and then more", func(b *book) {
			b.called("/2", 3).AnsweredNs = at(5900)
			b.called("/2", 4).move(at(5900+50+250) + 1)
		}, only(OnTime)},
		// Answered at 1607: at most 1 s backoff, 1 s left to other nodes, 250 ms.
		{"retry in time", func(b *book) { b.called("/6", 1).move(at(1607 + 2250)) }, nil},
		{"retry late", func(b *book) { b.called("/6", 1).move(at(1607+2250) + 1) }, only(OnTime)},
		{"retry as late as we asked for", func(b *book) {
			b.called("/6", 0).RetryAfterMs = 5000
			b.called("/6", 1).move(at(1607 + 6250))
		}, nil},
		{"a put that said in flight", func(b *book) {
			b.asked("/3b").Answer.InFlight = true
			b.called("/3b", 0).move(at(1004 + 2000 + 250))
		}, nil},
	})
}

func TestNoLeaks(t *testing.T) {
	leave := func(key, url string) func(*book) {
		return func(b *book) { b.copies(key, url, 1, 1, 5000, "a", "b") }
	}
	tombstone := func(score int) func(*book) {
		return func(b *book) {
			b.Copies = append(b.Copies, Copy{Shard: "a", Key: "k4", Version: "4", Ended: true, ScoreMs: int64(score)})
		}
	}
	runDamages(t, []damage{
		{"stray key", func(b *book) { b.Strays = append(b.Strays, Stray{"a", "left"}) }, only(NoLeaks)},
		{"deleted timer", leave("k4", "/4"), only(NoLeaks)},
		{"finished timer", leave("k1", "/1"), only(NoLeaks)},
		{"nobody's timer", leave("k9", "/9"), only(NoLeaks)},
		{"a timer that nobody knows was made", func(b *book) {
			i := b.write(Create, "", "/7", 5000, 600_000, 1)
			b.Operations[i].Outcome, b.Operations[i].Answer = Unknown, nil
			leave("k7", "/7")(b)
		}, nil},
		{"overdue for a minute", func(b *book) { b.Copies[0].ScoreMs = -60_000 }, nil},
		{"overdue for longer", func(b *book) { b.Copies[0].ScoreMs = -60_001 }, only(NoLeaks)},
		{"tombstone", tombstone(120_000), nil},
		{"tombstone that is just over", tombstone(-10_000), nil},
		{"tombstone that was not buried", tombstone(-10_001), only(NoLeaks)},
		{"tombstone that lives too long", tombstone(130_001), only(NoLeaks)},
		{"not drained", func(b *book) {
			leave("k4", "/4")(b)
			b.End.Drained = false
			b.Header.Exempt = only(NoLeaks)
		}, nil},
	})
}

func TestCopiesAtHome(t *testing.T) {
	runDamages(t, []damage{
		{"none", func(b *book) { b.Copies = nil }, only(CopiesAtHome)},
		{"one missing", func(b *book) { b.Copies = b.Copies[:1] }, only(CopiesAtHome)},
		{"one elsewhere", func(b *book) { b.Copies[1].Shard = "c" }, only(CopiesAtHome)},
		{"one too many", func(b *book) { c := b.Copies[1]; c.Shard = "c"; b.Copies = append(b.Copies, c) }, only(CopiesAtHome)},
		{"wrong rank", func(b *book) { b.Copies[1].Rank = 0 }, only(CopiesAtHome)},
		{"unlike", func(b *book) { b.Copies[1].Seq = 2 }, only(CopiesAtHome)},
		{"a tombstone beside it", func(b *book) { b.Copies[1].Ended, b.Copies[1].ScoreMs = true, 60_000 }, only(CopiesAtHome)},
		{"unlike while leased", func(b *book) { b.Copies[1].Attempt, b.Copies[1].Leased = 1, true }, nil},
		{"unlike just before its time", func(b *book) { b.Copies[1].Attempt, b.Copies[1].ScoreMs = 1, 1999 }, nil},
		{"unlike, with time left", func(b *book) { b.Copies[1].Attempt, b.Copies[1].ScoreMs = 1, 2000 }, only(CopiesAtHome)},
	})
}

func TestBackToNormal(t *testing.T) {
	runDamages(t, []damage{
		{"goroutines", func(b *book) { b.Samples[1].Goroutines = 176 }, only(BackToNormal)},
		{"goroutines, just", func(b *book) { b.Samples[1].Goroutines = 175 }, nil},
		{"descriptors", func(b *book) { b.Samples[1].Descriptors = 176 }, only(BackToNormal)},
		{"memory", func(b *book) { b.Samples[1].MemoryBytes = 157<<20 + 1 }, only(BackToNormal)},
		{"memory, just", func(b *book) { b.Samples[1].MemoryBytes = 157 << 20 }, nil},
		{"another process", func(b *book) {
			b.Samples[1].Process, b.Samples[1].Goroutines = 2, 1000
			b.Header.Exempt = only(BackToNormal)
		}, nil},
	})
}

func TestMetricsAgree(t *testing.T) {
	runDamages(t, []damage{
		{"delivered too few", func(b *book) { b.Samples[1].Counters[CountDelivered]-- }, only(MetricsAgree)},
		{"delivered too many", func(b *book) { b.Samples[1].Counters[CountDelivered]++ }, only(MetricsAgree)},
		{"failed too few", func(b *book) { b.Samples[1].Counters[CountFailed]-- }, only(MetricsAgree)},
		{"failed too many", func(b *book) { b.Samples[1].Counters[CountFailed]++ }, only(MetricsAgree)},
		{"failed too many, with a fault", func(b *book) {
			b.Samples[1].Counters[CountFailed]++
			b.fault(NodeFreeze, "n1", 50_000, 51_000)
		}, nil},
		{"gone", func(b *book) { b.Samples[1].Counters[CountGone]++ }, only(MetricsAgree)},
		{"perhaps in time", func(b *book) {
			b.called("/1", 0).AnsweredNs = at(1106 + 1900)
			b.Samples[1].Counters[CountDelivered]--
			b.Samples[1].Counters[CountFailed]++
		}, nil},
		{"a process without an end", func(b *book) {
			b.Samples = append(b.Samples, Sample{Node: "n2", Process: 1, Phase: Begin})
			b.Samples[1].Counters[CountDelivered]--
		}, nil},
	})
}
