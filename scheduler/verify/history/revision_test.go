package history

import "testing"

// patch notes an acknowledged PATCH from one URL to another.
func (b *book) patch(key, from, to string, invoke int) *Operation {
	i := b.write(Replace, key, to, invoke, 1000, 5)
	op := &b.Operations[i]
	op.Kind, op.Base = Patch, &Asked{URL: from, BodyHash: "body of " + from}
	return op
}

// rename has a callback come to another URL.
func (b *book) rename(c *Callback, to string) { c.URL, c.BodyHash = to, "body of "+to }

// k2 is called from 1206 on, each second, five times. A PATCH at 2500 gives pops 3 to 5 another URL.
func TestPatches(t *testing.T) {
	patched := func(b *book) *Operation {
		op := b.patch("k2", "/2", "/2b", 2600)
		for range 3 {
			b.rename(b.called("/2", 2), "/2b")
		}
		return op
	}
	runDamages(t, []damage{
		{"the pops go on at the new URL", func(b *book) { patched(b) }, nil},
		{"read after the answer", func(b *book) { patched(b); b.get("k2", 2700, "/2b", 3) }, nil},
		{"the former URL is read after the answer", func(b *book) { patched(b); b.get("k2", 2700, "/2", 3) }, only(Linearizable)},
		{"the former URL is called after the answer", func(b *book) {
			patched(b)
			b.rename(b.called("/2b", 1), "/2")
		}, only(NoneAfterAnswer)},
		{"the former URL is called while in flight", func(b *book) {
			op := patched(b)
			b.rename(b.called("/2b", 0), "/2")
			op.Answer.InFlight = true
		}, nil},
		{"a pop is called at both URLs", func(b *book) {
			patched(b)
			b.call("k2", "/2b", 2, 2, 2, 2700, 200)
			b.sample()
		}, only(NoDuplicates)},
		{"a pop is called at neither URL", func(b *book) {
			patched(b)
			b.drop("/2b", 2)
			b.sample()
		}, only(NothingLost)},
		{"a pop comes late at the new URL", func(b *book) { patched(b); b.called("/2b", 0).move(at(3700)) }, only(OnTime)},
		{"the second PATCH replaces the first", func(b *book) {
			patched(b)
			b.patch("k2", "/2b", "/2c", 3600)
			b.rename(b.called("/2b", 1), "/2c")
		}, only(NoneAfterAnswer)},
		{"a PATCH that was refused is called", func(b *book) {
			op := patched(b)
			op.Outcome, op.Status, op.Answer = Failed, 412, nil
		}, only(OnlyWhatWasTold)},
		{"a PATCH of unknown outcome may be in force, or not", func(b *book) {
			op := patched(b)
			op.Outcome, op.Status, op.Answer = Unknown, 503, nil
			b.rename(b.called("/2b", 1), "/2")
		}, nil},
		{"two PATCHes of what was there before succeed", func(b *book) {
			patched(b)
			b.patch("k2", "/2", "/2c", 2800)
			b.get("k2", 2900, "/2c", 3)
		}, only(NoneAfterAnswer, Linearizable)},
		{"three PATCHes, the first while too few shards answer", func(b *book) {
			b.patch("k5", "/5", "/5b", 2600)
			b.patch("k5", "/5b", "/5c", 20_000)
			b.patch("k5", "/5c", "/5d", 50_000)
			b.get("k5", 60_000, "/5d", 1)
			b.owned("k5", "a", "b")
			for _, shard := range []string{"a", "b"} {
				b.fault(ShardAway, shard, 2500, 2700)
				b.fault(ShardAway, shard, 30_000, 30_200)
			}
			for i := range b.Copies {
				b.Copies[i].URL, b.Copies[i].BodyHash = "/5d", "body of /5d"
			}
		}, nil},
		{"a PATCH that has read nothing", func(b *book) {
			op := b.patch("k2", "/2", "/2b", 2600)
			op.Base, op.Outcome, op.Status, op.Answer = nil, Unknown, 503, nil
		}, nil},
	})
}
