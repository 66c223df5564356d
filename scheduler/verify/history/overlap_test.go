package history

import "testing"

// Two PUTs of k7 overlap. /7c has the later version and is called at 6505 ms; /7b is called at 7506 ms.
func TestAPutThatMayHaveComeAfterTheOtherOneWasOver(t *testing.T) {
	both := func(answered int, change func(*book)) func(*book) {
		return func(b *book) {
			b.write(Create, "k7", "/7", 5000, 60_000, 1)
			b.Operations[b.write(Replace, "k7", "/7b", 6000, 1000, 1)].ReturnNs = at(answered)
			b.write(Replace, "k7", "/7c", 6001, 500, 1)
			b.call("k7", "/7c", 10, 1, 1, 6505, 200)
			b.call("k7", "/7b", 9, 1, 1, 7506, 200)
			if change != nil {
				change(b)
			}
		}
	}
	runExcuses(t, []excuse{
		{"it was answered after that", both(6505, nil), nil},
		{"it was answered before", both(6504, nil), only(NoneAfterAnswer)},
		{"the other one went on", both(6505, func(b *book) { b.asked("/7c").Timer.Pops = 2 }), only(NoneAfterAnswer)},
		{"nobody heard an answer, 3 s after the request", both(6505, func(b *book) {
			o := b.asked("/7b")
			o.Outcome, o.Status, o.ReturnNs, o.Answer = Unknown, 0, -1, nil
			b.called("/7c", 0).move(at(9000))
			b.called("/7b", 0).move(at(9500))
			b.asked("/7c").Timer.IntervalMs = 2998
			b.manyGets()
		}), nil},
		{"the other one was over later than that", both(6505, func(b *book) {
			o := b.asked("/7b")
			o.Outcome, o.Status, o.ReturnNs, o.Answer = Unknown, 0, -1, nil
			b.called("/7c", 0).move(at(9001))
			b.called("/7b", 0).move(at(9500))
			b.asked("/7c").Timer.IntervalMs = 2998
			b.manyGets()
		}), only(NoneAfterAnswer)},
	})
}
