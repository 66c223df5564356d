package history

import "testing"

// lostAndRepeated is the clean history and a create of k7 at 40 s, with a pop due 8 s later. The create is sent again
// with the same Idempotency-Key at 43 s. All copies are lost at 42 s, and repaired at once.
func lostAndRepeated(tell func(b *book, first, again *Operation)) func(*book) {
	return func(b *book) {
		first := b.write(Create, "k7", "/7", 40_000, 8000, 2)
		again := b.write(Create, "k7", "/7", 43_000, 8000, 2)
		b.Operations[first].IdempotencyKey, b.Operations[again].IdempotencyKey = "x", "x"
		b.fault(ShardAway, "a", 42_000, 42_100)
		b.fault(ShardLost, "b", 42_000, 42_100)
		for i := range b.Faults {
			b.Faults[i].RepairedNs = b.Faults[i].EndNs
		}
		tell(b, &b.Operations[first], &b.Operations[again])
	}
}

func TestARepeatAfterAllCopiesWereLost(t *testing.T) {
	called := func(b *book) {
		b.call("k7", "/7", 8, 1, 1, 51_006, 200)
		b.call("k7", "/7", 8, 2, 1, 59_006, 200)
	}
	both := func(b *book) {
		b.asked("/7").Timer.IntervalMs, b.Operations[len(b.Operations)-1].Timer.IntervalMs = 1000, 1000
		b.call("k7", "/7", 7, 1, 1, 41_006, 200)
		b.call("k7", "/7", 8, 1, 1, 44_006, 200)
		b.call("k7", "/7", 8, 2, 1, 45_006, 200)
	}
	unheard := func(o *Operation) { o.Outcome, o.Status, o.ReturnNs, o.Answer = Unknown, 0, -1, nil }
	runExcuses(t, []excuse{
		{"it creates the timer once more", lostAndRepeated(func(b *book, _, _ *Operation) { called(b) }), nil},
		{"and that is called", lostAndRepeated(func(*book, *Operation, *Operation) {}), only(NothingLost)},
		{"and that is called on time", lostAndRepeated(func(b *book, _, _ *Operation) {
			called(b)
			b.called("/7", 0).move(at(51_004+250) + 1)
		}), only(OnTime)},
		{"and that is not called too early", lostAndRepeated(func(b *book, _, _ *Operation) {
			called(b)
			b.called("/7", 1).move(at(58_998))
		}), only(OnTime)}, // by either create
		{"and that is called to the end", lostAndRepeated(func(b *book, _, _ *Operation) {
			called(b)
			b.drop("/7", 1)
		}), only(NothingLost)},
		{"and that is called once", lostAndRepeated(func(b *book, _, _ *Operation) {
			called(b)
			b.call("k7", "/7", 8, 2, 1, 59_106, 200)
		}), only(NoDuplicates)},
		{"the first was called, too", lostAndRepeated(func(b *book, _, _ *Operation) { both(b) }), nil},
		{"the first was called, and the second a third time", lostAndRepeated(func(b *book, _, _ *Operation) {
			both(b)
			b.call("k7", "/7", 9, 2, 1, 46_006, 200)
		}), only(OnlyWhatWasTold)},
		{"the first was not lost", lostAndRepeated(func(b *book, _, _ *Operation) {
			b.call("k7", "/7", 7, 1, 1, 48_006, 200)
			b.call("k7", "/7", 7, 2, 1, 56_006, 200)
		}), nil},
		{"nobody heard of the first", lostAndRepeated(func(b *book, first, _ *Operation) { called(b); unheard(first) }), nil},
		{"nobody heard of the second", lostAndRepeated(func(b *book, _, again *Operation) { called(b); unheard(again) }), nil},
		{"nobody heard of the second, and it is not called", lostAndRepeated(func(_ *book, _, again *Operation) { unheard(again) }), nil},
		{"a GET finds it", lostAndRepeated(func(b *book, _, _ *Operation) { called(b); b.get("k7", 52_000, "/7", 2) }), nil},
		{"a GET finds it too early", lostAndRepeated(func(b *book, _, _ *Operation) { called(b); b.get("k7", 43_500, "/7", 2) }), only(Linearizable)},
		{"it was deleted after that", lostAndRepeated(func(b *book, _, _ *Operation) { called(b); b.delete("k7", 46_000) }), only(NoneAfterAnswer)},
	})
}

func TestARepeatOfWhatWasNotLost(t *testing.T) {
	two := func(change func(*book)) func(*book) {
		return lostAndRepeated(func(b *book, _, _ *Operation) {
			b.asked("/7").Timer.IntervalMs, b.Operations[len(b.Operations)-1].Timer.IntervalMs = 1000, 1000
			b.call("k7", "/7", 7, 1, 1, 41_006, 200)
			b.call("k7", "/7", 7, 2, 1, 42_006, 200)
			b.call("k7", "/7", 8, 1, 1, 44_006, 200)
			b.call("k7", "/7", 8, 2, 1, 45_006, 200)
			change(b)
		})
	}
	lose := func(start, end int) func(*book) {
		return func(b *book) {
			for i := range b.Faults {
				b.Faults[i].StartNs, b.Faults[i].EndNs, b.Faults[i].RepairedNs = at(start), at(end), at(end)
			}
		}
	}
	told := only(OnlyWhatWasTold, NoDuplicates)
	runExcuses(t, []excuse{
		{"all copies were lost", two(func(*book) {}), nil},
		{"one of two was", two(func(b *book) { b.Faults = b.Faults[1:] }), told},
		{"all were away, and none was lost", two(func(b *book) { b.Faults[1].Class = ShardAway }), told},
		{"they were before the first", two(lose(39_000, 39_999)), told},
		{"they were until the first", two(lose(39_000, 40_000)), nil},
		{"they were from the second on", two(lose(43_004, 43_500)), nil},
		{"they were after the second", two(lose(43_005, 43_500)), told},
		{"another timer's were", two(func(b *book) { b.owned("k7", "b", "c") }), told},
	})
}
