package history

import (
	"testing"
	"time"
)

func TestLinearizable(t *testing.T) {
	runDamages(t, []damage{
		{"404 after an acknowledged create", func(b *book) { b.get("k5", 800, "", 0) }, only(Linearizable)},
		{"404 before the create was answered", func(b *book) { b.get("k5", 504-opTook, "", 0) }, nil},
		{"deleted and read", func(b *book) { b.get("k4", 2600, "/4", 1) }, only(Linearizable)},
		{"old after new", func(b *book) { b.get("k3", 1600, "/3", 1) }, only(Linearizable)},
		{"what nobody wrote", func(b *book) { b.get("k5", 800, "/55", 1) }, only(Linearizable)},
		{"pop before the one before was due", func(b *book) { b.get("k2", 1100, "/2", 2) }, only(Linearizable)},
		{"pop after the one before was due", func(b *book) { b.get("k2", 1196, "/2", 2) }, nil},
		{"404 before the last pop", func(b *book) { b.get("k2", 5190, "", 0) }, only(Linearizable)},
		{"404 when the last pop may be done", func(b *book) { b.get("k2", 5196, "", 0) }, nil},
		{"back after it was over", func(b *book) { b.get("k1", 3100, "/1", 1) }, only(Linearizable)},
		{"unknown delete that never was", func(b *book) { b.unknownDelete("k5", 1000); b.get("k5", 90_000, "/5", 1) }, nil},
		{"unknown delete that was later", func(b *book) {
			b.unknownDelete("k5", 1000)
			b.get("k5", 3900, "/5", 1)
			b.get("k5", 3996, "", 0) // until 4000
		}, nil},
		{"unknown delete that was later than 3 s", func(b *book) {
			b.unknownDelete("k5", 1000)
			b.get("k5", 4001, "/5", 1)
			b.get("k5", 4100, "", 0)
		}, only(Linearizable)},
		{"unknown delete that was and was not", func(b *book) {
			b.unknownDelete("k5", 1000)
			b.get("k5", 80_000, "", 0)
			b.get("k5", 90_000, "/5", 1)
		}, only(Linearizable)},
	})
}

func (b *book) unknownDelete(key string, invoke int) {
	i := b.delete(key, invoke)
	b.Operations[i].Outcome, b.Operations[i].Answer = Unknown, nil
}

func TestALinearSearchWithoutTimeIsUnknown(t *testing.T) {
	b := clean()
	for i := range 40 {
		b.write(Replace, "k7", "/7"+string(rune('a'+i)), 10_000, 600_000, 1)
		b.Operations[len(b.Operations)-1].ReturnNs = at(10_900)
	}
	b.get("k7", 30_000, "/nobody's", 1)
	l := small()
	l.Linearize = time.Nanosecond
	if r := l.Check(b.History); r.Verdict != VerdictUnknown {
		t.Errorf("verdict %s\n%s", r.Verdict, text(t, &r))
	}
}
