package history

import "testing"

// fire notes an acknowledged fire.
func (b *book) fire(key string, invoke int) *Operation {
	i := b.delete(key, invoke)
	op := &b.Operations[i]
	op.Kind, op.Status, op.Answer.Copies = Fire, 200, 2
	return op
}

// delay notes an acknowledged delay, which makes a version.
func (b *book) delay(key string, invoke, by int, version string) *Operation {
	op := b.fire(key, invoke)
	op.Kind, op.ByMs, op.Answer.Version = Delay, int64(by), version
	return op
}

// k2 is called from 1206 on, each second, five times. A fire at 1500 has pop 2 come at once.
func TestFires(t *testing.T) {
	fired := func(b *book) *Operation {
		b.called("/2", 1).move(at(1510))
		return b.fire("k2", 1500)
	}
	runDamages(t, []damage{
		{"a pop comes at once", func(b *book) { fired(b) }, nil},
		{"a pop comes early without a fire", func(b *book) { b.called("/2", 1).move(at(1510)) }, only(NeverEarly)},
		{"two pops come early after one fire", func(b *book) { fired(b); b.called("/2", 2).move(at(1520)) }, only(NeverEarly)},
		{"two pops come early after two fires", func(b *book) {
			fired(b)
			b.called("/2", 2).move(at(1610))
			b.fire("k2", 1600)
		}, nil},
		{"the grid has made up for an earlier fire", func(b *book) {
			fired(b)
			b.fire("k2", 2600)
			b.called("/2", 2).move(at(2610))
			b.called("/2", 3).move(at(2620))
		}, only(NeverEarly)},
		{"each of two fires has a pop come", func(b *book) {
			fired(b)
			b.fire("k2", 2600)
			b.called("/2", 2).move(at(2610))
		}, nil},
		{"a pop comes before its fire", func(b *book) {
			op := fired(b)
			op.InvokeNs, op.ReturnNs, op.Outcome, op.Status, op.Answer = at(1512), at(1516), Unknown, 503, nil
		}, only(NeverEarly)},
		{"a fire that was refused", func(b *book) {
			op := fired(b)
			op.Outcome, op.Status, op.Answer = Failed, 409, nil
		}, only(NeverEarly)},
		{"a fire of unknown outcome may be in force", func(b *book) {
			op := fired(b)
			op.Outcome, op.Status, op.Answer = Unknown, 503, nil
		}, nil},
		{"a fire of unknown outcome may be in force, or not", func(b *book) {
			op := b.fire("k2", 1500)
			op.Outcome, op.Status, op.Answer = Unknown, 503, nil
		}, nil},
		{"a clock was put ahead before the fire", func(b *book) {
			b.called("/2", 1).move(at(1310))
			b.called("/2", 2).move(at(1510))
			b.Faults[b.fault(ClockStep, "a", 1300, 1301)].StepMs = 1000
			b.fire("k2", 1500)
		}, nil},
		{"a fired retry fails and is not repeated", func(b *book) { b.firedTwice(); b.sample() }, only(NothingLost)},
		{"a fired retry fails and is repeated", func(b *book) {
			b.firedTwice()
			b.call("k9", "/9", 9, 1, 3, 3000, 200)
			b.sample()
		}, nil},
		{"no callback follows", func(b *book) { b.fire("k5", 1500) }, only(OnTime)},
		{"no callback follows on a fire of a timer that is replaced soon", func(b *book) { b.fire("k3", 990) }, nil},
		{"the last pop comes early, and a GET finds nothing", func(b *book) {
			b.called("/2", 4).move(at(4310))
			b.fire("k2", 4300)
			b.get("k2", 4400, "", 0)
		}, nil},
		{"a GET finds nothing although no pop came early", func(b *book) { b.get("k2", 4400, "", 0) }, only(Linearizable)},
	})
}

// firedTwice notes a timer of two pops, whose first pop is fired at 2000, fails, and is fired again at 2100.
func (b *book) firedTwice() {
	b.write(Create, "k9", "/9", 1000, 20_000, 2)
	b.fire("k9", 2000)
	b.fire("k9", 2100)
	b.call("k9", "/9", 9, 1, 1, 2010, 500)
	b.call("k9", "/9", 9, 1, 2, 2110, 500)
	b.call("k9", "/9", 9, 2, 1, 41_010, 200)
}

// A delay at 2600 puts off the pops of k2 from the third on, by 500 ms.
func TestDelays(t *testing.T) {
	delayed := func(b *book) *Operation {
		for i := 2; i < 5; i++ {
			c := b.called("/2", i)
			c.move(c.ArriveNs + at(500))
			c.Version, c.WebhookID = "0000000000000009", "k2.0000000000000009."+string(rune('1'+i))
		}
		return b.delay("k2", 2600, 500, "0000000000000009")
	}
	runDamages(t, []damage{
		{"the pops come later", func(b *book) { delayed(b) }, nil},
		{"a pop comes at its former time", func(b *book) { delayed(b); b.called("/2", 2).move(at(3210)) }, only(NeverEarly)},
		{"a delay is answered at the instant of the pop before", func(b *book) {
			op := delayed(b)
			op.InvokeNs, op.ReturnNs = b.called("/2", 1).ArriveNs, b.called("/2", 1).ArriveNs
			b.Operations = dropGets(b.Operations, "k2")
		}, nil},
		{"a delay was answered before the pop before", func(b *book) {
			op := delayed(b)
			op.ReturnNs = b.called("/2", 1).ArriveNs - 1
			op.InvokeNs = op.ReturnNs
			b.Operations = dropGets(b.Operations, "k2")
		}, only(NeverEarly)},
		{"a pop comes too late", func(b *book) { delayed(b); b.called("/2", 4).move(at(8600)) }, only(OnTime)},
		{"a pop is lost", func(b *book) { delayed(b); b.drop("/2", 4); b.sample() }, only(NothingLost)},
		{"a pop is lost, and an earlier pop was tried twice", func(b *book) {
			delayed(b)
			b.called("/2", 3).Attempt = 2
			b.drop("/2", 4)
			b.sample()
		}, only(NothingLost)},
		{"a version that no delay made", func(b *book) { delayed(b).Answer.Version = "0000000000000008" }, only(OnlyWhatWasTold)},
		{"a delay that was refused", func(b *book) {
			op := delayed(b)
			op.Outcome, op.Status, op.Answer = Failed, 409, nil
		}, only(OnlyWhatWasTold, OnTime)},
		{"a delay of unknown outcome may be in force", func(b *book) {
			op := delayed(b)
			op.Outcome, op.Status, op.Answer = Unknown, 503, nil
		}, nil},
		{"a delay of unknown outcome may be in force, or not", func(b *book) {
			op := b.delay("k2", 2600, 500, "")
			op.Outcome, op.Status, op.Answer = Unknown, 503, nil
		}, nil},
	})
}
