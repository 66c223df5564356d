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

// Writes on conditions. k5 is written at 500 as version 5, for a timer that waits for long; k1 is over at 1.2 s.
func TestConditionsHold(t *testing.T) {
	b := func(b *book, key, url, cond string, invoke int) {
		i := b.write(Replace, key, url, invoke, 600_000, 1)
		b.Operations[i].If, b.Operations[i].Answer.Version = cond, "0000000000000099"
		b.sample()
	}
	const five, another = "0000000000000005", "0000000000000099"
	five5 := func(book *book) { book.asked("/5").Answer.Version = five }
	beside := func(book *book, unreached int) {
		five5(book)
		plain := &book.Operations[book.write(Replace, "k5", "/5c", 1000, 600_000, 1)]
		plain.ReturnNs, plain.Answer.Version, plain.Answer.Unreached = at(1010), "0000000000000077", unreached
		b(book, "k5", "/5b", five, 1001)
		book.get("k5", 2000, "/5b", 1)
	}
	runDamages(t, []damage{
		{"of the version that is there", func(book *book) { five5(book); b(book, "k5", "/5b", five, 1000) }, nil},
		{"twice of one version", func(book *book) {
			five5(book)
			b(book, "k5", "/5b", five, 1000)
			b(book, "k5", "/5c", five, 2000)
		}, only(Linearizable)},
		{"one after the other", func(book *book) {
			five5(book)
			b(book, "k5", "/5b", five, 1000)
			b(book, "k5", "/5c", another, 2000)
		}, nil},
		{"of a version that nobody knows", func(book *book) { b(book, "k5", "/5b", "0000000000000077", 1000) }, nil},
		{"of what is there", func(book *book) { b(book, "k5", "/5b", "present", 1000) }, nil},
		{"of what is not there", func(book *book) { b(book, "k77", "/77", "present", 1000) }, only(CopiesAtHome, Linearizable)}, // no copy was dumped
		{"though the timer is there", func(book *book) { b(book, "k5", "/5b", "absent", 1000) }, only(Linearizable)},
		{"after a write of the same time, by what was read", func(book *book) { beside(book, 0) }, only(Linearizable)},
		{"after such a write, which missed an owner", func(book *book) { beside(book, 1) }, nil},
		{"where no timer is", func(book *book) { b(book, "k77", "/77", "absent", 1000) }, only(CopiesAtHome)},
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
