package wheel

import (
	"encoding/binary"
	"slices"
	"testing"
	"time"
)

// The fuzzed bytes are a list of operations of three bytes: an operation and a number v.
const (
	addNear  = iota // v × 10 µs ahead: on both sides of the ring's end
	addFar          // v × 50 ms ahead: up to 55 min
	addYears        // v mod 290 years after the start
	addLate         // v × 10 µs ago
	goNear          // now moves by v × 10 µs
	goFar           // now moves by v × 50 ms
	goBack          // Advance with a now that lies v × 10 µs back
	goNext          // now moves to the instant of Next
	goAlmost        // now moves to 1 ns before the instant of Next
	drain           // take everything
	opCount
)

const (
	opSize   = 3
	maxOps   = 500 // keeps now within the range of a Duration
	maxYears = 290 // likewise
	nearUnit = 10 * time.Microsecond
	farUnit  = 50 * time.Millisecond
)

func op(what byte, v uint16) []byte {
	return binary.BigEndian.AppendUint16([]byte{what}, v)
}

func FuzzWheelAgainstSortedList(f *testing.F) {
	f.Add([]byte{})
	f.Add(slices.Concat(op(addNear, 100), op(addNear, 100), op(addNear, 101), op(goNear, 100), op(goNear, 1)))
	f.Add(slices.Concat(op(addNear, 51199), op(addNear, 51200), op(addNear, 51201), op(goAlmost, 0), op(goNext, 0), op(goNext, 0)))
	f.Add(slices.Concat(op(addFar, 20), op(goNear, 60000), op(addNear, 41000), op(goAlmost, 0), op(goNext, 0), op(goNext, 0)))
	f.Add(slices.Concat(op(goFar, 9000), op(addLate, 5), op(addLate, 60000), op(goBack, 700), op(addNear, 0), op(goNear, 0)))
	f.Add(slices.Concat(op(addYears, 289), op(addYears, 1), op(addFar, 65535), op(goFar, 65535), op(goNext, 0), op(drain, 0), op(addLate, 1), op(goNext, 0)))
	f.Add(slices.Concat(op(addNear, 30000), op(addFar, 30), op(drain, 0), op(addFar, 31), op(addNear, 65535), op(goFar, 65535)))

	f.Fuzz(func(t *testing.T, ops []byte) {
		p := &pair{t: t, wheel: New[entry](instant(0)), now: instant(0), last: instant(0)}
		for i := 0; len(ops) >= opSize && i < maxOps; i++ {
			p.apply(ops[0]%opCount, binary.BigEndian.Uint16(ops[1:]))
			ops = ops[opSize:]
		}
		p.drain()
	})
}

// entry is an item of the sorted list.
type entry struct {
	id  int
	at  time.Time // as asked for
	due time.Time // when the item must come out: rounded up, not before the last Advance
}

// pair drives a wheel and a sorted list alike and compares the two.
type pair struct {
	t     *testing.T
	wheel *Wheel[entry]
	list  []entry // sorted by due
	ids   int
	now   time.Time
	last  time.Time // latest now that an Advance has seen, rounded down
}

func (p *pair) apply(what byte, v uint16) {
	near, far := time.Duration(v)*nearUnit, time.Duration(v)*farUnit
	switch what {
	case addNear:
		p.add(p.now.Add(near))
	case addFar:
		p.add(p.now.Add(far))
	case addYears:
		p.add(instant(0).AddDate(int(v%maxYears), 0, 0))
	case addLate:
		p.add(p.now.Add(-near))
	case goNear:
		p.advance(p.now.Add(near))
	case goFar:
		p.advance(p.now.Add(far))
	case goBack:
		p.advance(p.now.Add(-near))
	case goNext, goAlmost:
		next, ok := p.wheel.Next()
		if !ok {
			return
		}
		if what == goAlmost {
			next = next.Add(-1)
		}
		p.advance(next)
	case drain:
		p.drain()
	}
	p.compareNext()
}

func (p *pair) add(at time.Time) {
	e := entry{id: p.ids, at: at, due: at.Add(slotWidth - 1).Truncate(slotWidth)}
	if e.due.Before(p.last) {
		e.due = p.last
	}
	p.ids++
	if !p.wheel.Add(at, e) {
		p.t.Fatalf("add %v refused", at)
	}
	i, _ := slices.BinarySearchFunc(p.list, e, func(x, e entry) int {
		if x.due.After(e.due) {
			return 1
		}
		return -1
	})
	p.list = slices.Insert(p.list, i, e)
}

func (p *pair) advance(now time.Time) {
	if now.After(p.now) {
		p.now = now
	}
	p.last = later(p.last, p.now.Truncate(slotWidth))
	got := p.wheel.Advance(now, nil)
	due := 0
	for due < len(p.list) && !p.list[due].due.After(p.now) {
		due++
	}
	for i, e := range got {
		if e.at.After(p.now) {
			p.t.Errorf("item %d came %v early", e.id, e.at.Sub(p.now))
		}
		if i > 0 && e.due.Before(got[i-1].due) {
			p.t.Errorf("item %d of %v came after one of %v", e.id, e.due, got[i-1].due)
		}
	}
	p.compare("advance", got, p.list[:due])
	p.list = slices.Delete(p.list, 0, due)
}

func (p *pair) drain() {
	p.compare("drain", p.wheel.Drain(nil), p.list)
	p.list = nil
	p.compareNext()
}

// compare wants the same items, in any order within a slot.
func (p *pair) compare(what string, got, want []entry) {
	p.t.Helper()
	byID := func(a, b entry) int { return a.id - b.id }
	got, want = slices.SortedFunc(slices.Values(got), byID), slices.SortedFunc(slices.Values(want), byID)
	if !slices.Equal(got, want) {
		p.t.Fatalf("%s at %v: got %v, want %v", what, p.now.Sub(instant(0)), got, want)
	}
}

func (p *pair) compareNext() {
	p.t.Helper()
	if got := p.wheel.Len(); got != len(p.list) {
		p.t.Fatalf("Len = %d, want %d", got, len(p.list))
	}
	next, ok := p.wheel.Next()
	if ok != (len(p.list) > 0) || ok && !next.Equal(p.list[0].due) {
		p.t.Fatalf("Next = %v, %v, want the first of %v", next, ok, p.list)
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
