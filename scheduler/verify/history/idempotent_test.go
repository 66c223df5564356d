package history

import (
	"slices"
	"testing"
)

// repeated is a history in which /1 is created twice with the same Idempotency-Key, the second time from 300 to 304.
func repeated(first Outcome) *book {
	b := clean()
	o := b.asked("/1")
	o.IdempotencyKey = "x"
	again := *o
	again.InvokeNs, again.ReturnNs = at(300), at(304)
	if first == Unknown {
		o.Outcome, o.Answer = Unknown, nil
	}
	b.Operations = append(b.Operations, again)
	return b
}

func TestARepeatedCreateIsOneWrite(t *testing.T) {
	wantOnly(t, repeated(OK).History, small())
	wantOnly(t, repeated(Unknown).History, small())
	for name, d := range map[string]struct {
		first  Outcome
		arrive int
		want   []Invariant
	}{
		"the first was answered, and the time counts from it":   {OK, 1104 + 251, only(OnTime)},
		"the first was not, and so the second may have done it": {Unknown, 1304 + 250, nil},
		"but not later":                     {Unknown, 1304 + 251, only(OnTime)},
		"and the first may have done it":    {Unknown, 1099, nil},
		"but not earlier":                   {Unknown, 1098, only(NeverEarly)},
		"called twice, for each of the two": {OK, 1106, only(NoDuplicates)},
	} {
		t.Run(name, func(t *testing.T) {
			b := repeated(d.first)
			b.called("/1", 0).move(at(d.arrive))
			if slices.Contains(d.want, NoDuplicates) {
				b.call("k1", "/1", 1, 1, 1, 1306, 200)
				b.sample()
			}
			wantOnly(t, b.History, small(), d.want...)
		})
	}
}

func TestARefusedRepeatChangesNothing(t *testing.T) {
	b := repeated(OK)
	o := &b.Operations[len(b.Operations)-1]
	o.Outcome, o.Status, o.Answer = Failed, 422, nil
	wantOnly(t, b.History, small())
}

func TestATombstoneOfAnIdempotentTimerLivesLonger(t *testing.T) {
	for score, want := range map[int64][]Invariant{3_610_000: nil, 3_610_001: only(NoLeaks)} {
		b := repeated(OK)
		b.Copies = append(b.Copies, Copy{Shard: "a", Key: "k1", Version: "1", Ended: true, ScoreMs: score})
		wantOnly(t, b.History, small(), want...)
	}
}

// /1 is called at 1.106 s, and again, by the version that the repeat stored, at 1.306 s.
func TestASecondVersionOfAnIdempotentTimer(t *testing.T) {
	for name, d := range map[string]struct {
		tell func(*book)
		want []Invariant
	}{
		"no fault":         {func(*book) {}, only(OnlyWhatWasTold, NoDuplicates)},
		"a shard was away": {func(b *book) { b.fault(ShardAway, "a", 200, 1000) }, only(OnlyWhatWasTold)},
		"without an Idempotency-Key": {func(b *book) {
			b.fault(ShardAway, "a", 200, 1000)
			b.asked("/1").IdempotencyKey = ""
			b.Operations = b.Operations[:len(b.Operations)-1]
		}, only(OnlyWhatWasTold)},
		"another body": {func(b *book) {
			b.fault(ShardAway, "a", 200, 1000)
			b.called("/1", 1).BodyHash = "other"
		}, only(OnlyWhatWasTold)},
	} {
		t.Run(name, func(t *testing.T) {
			b := repeated(OK)
			b.call("k1", "/1", 9, 1, 1, 1306, 200)
			d.tell(b)
			b.sample()
			wantOnly(t, b.History, small(), d.want...)
		})
	}
}

// /1, which has one copy, is created again from 300 to 304. The repeat does not reach some copies.
func TestARepeatThatReachesNoneOfTheCopies(t *testing.T) {
	for name, d := range map[string]struct {
		unreached, arrive int
		want              []Invariant
	}{
		"the first counts":           {1, 1104 + 250, nil},
		"and it does not begin anew": {1, 1104 + 251, only(OnTime)},
		"all of them were reached":   {0, 1104 + 251, only(OnTime)},
	} {
		t.Run(name, func(t *testing.T) {
			b := repeated(OK)
			b.asked("/1").Answer.Copies = 1
			b.Operations[len(b.Operations)-1].Answer = &Answer{Key: "k1", Copies: 1, Unreached: d.unreached}
			b.called("/1", 0).move(at(d.arrive))
			wantOnly(t, b.History, small(), d.want...)
		})
	}
}
