package check

import (
	"fmt"
	"math/bits"
	"slices"
	"time"
)

// judge decides about a callback of a known write. The caller holds the shard's lock.
func (c *Checker) judge(s *session, w *write, a *arrival, t *tally) {
	if a.Sequence > w.pops {
		if w.implicit {
			t.unfollowed++
			return
		}
		t.violation(Unasked, func() string { return fmt.Sprintf("%s: only %d pops were asked for", a.describe(), w.pops) })
		return
	}
	if reason := w.altered(s, a); reason != "" {
		t.violation(Altered, func() string { return a.describe() + ": " + reason })
	}
	if by := w.early(a); by > earlyTolerance {
		t.violation(Early, func() string { return fmt.Sprintf("%s: %s early", a.describe(), by) })
	}
	if a.at > w.limit {
		t.violation(AfterAnswer, func() string {
			return fmt.Sprintf("%s: %s later than the answer to a following request allows", a.describe(), time.Duration(a.at-w.limit))
		})
	} else {
		w.last = max(w.last, a.at)
	}
	if w.seen.set(a.Sequence) {
		t.pops++
		t.lateness.add(a.Lateness())
	}
	if !a.Accepted {
		return
	}
	if !w.done.set(a.Sequence) {
		t.violation(Double, func() string { return a.describe() + ": this pop was answered 2xx before" })
		return
	}
	if late := a.Lateness(); late > c.cfg.Bound {
		t.violation(Late, func() string { return fmt.Sprintf("%s: %s late", a.describe(), late) })
	}
}

// altered describes how a callback differs from the request; empty if nothing differs.
func (w *write) altered(s *session, a *arrival) string {
	if w.version == "" {
		w.version = a.Version
	}
	switch {
	case a.body != w.body:
		return "body is not what was asked"
	case s.key != "" && a.Key != s.key:
		return fmt.Sprintf("key should be %s", s.key)
	case a.Version != w.version:
		return fmt.Sprintf("version %s, before it was %s", a.Version, w.version)
	case w.implicit:
		return ""
	}
	due := a.Due.UnixNano()
	if first := w.dueNotBefore(a.Sequence); due < first-int64(earlyTolerance) {
		return fmt.Sprintf("due time is %s before what was asked", time.Duration(first-due))
	}
	if last := w.dueNotAfter(a.Sequence); w.ok && due > last+int64(dueSlack) {
		return fmt.Sprintf("due time is %s after what was asked", time.Duration(due-last))
	}
	return ""
}

// early returns how long before the due time a callback arrived. The due time is the later of two times: the callback's
// own due time, and the earliest due time by the request.
func (w *write) early(a *arrival) time.Duration {
	due := a.Due.UnixNano()
	if !w.implicit {
		due = max(due, w.dueNotBefore(a.Sequence))
	}
	return time.Duration(due - a.at)
}

// The interval counts from the instant at which the request took effect: after the sending, and before the answer.
func (w *write) dueNotBefore(sequence int) int64 { return w.sent + int64(sequence)*w.interval }

func (w *write) dueNotAfter(sequence int) int64 { return w.answered + int64(sequence)*w.interval }

// obligations counts the pops that must have been answered 2xx by end, and calls missing for each missing pop.
func (w *write) obligations(bound time.Duration, end int64, missing func(sequence int)) (obligatory int64) {
	if !w.ok {
		return 0
	}
	end = min(end, w.replaced)
	for sequence := 1; sequence <= w.pops; sequence++ {
		if w.dueNotAfter(sequence)+int64(dueSlack+bound) > end {
			break
		}
		obligatory++
		if !w.done.has(sequence) {
			missing(sequence)
		}
	}
	return obligatory
}

// bitset is a set of numbers from 0. The zero value is empty.
type bitset []uint64

// set adds n, and reports whether n is new.
func (b *bitset) set(n int) bool {
	for len(*b) <= n/64 {
		*b = append(*b, 0)
	}
	if b.has(n) {
		return false
	}
	(*b)[n/64] |= 1 << (n % 64)
	return true
}

// last is the largest number in the set; -1 if the set is empty.
func (b *bitset) last() int {
	for i, word := range slices.Backward(*b) {
		if word != 0 {
			return 64*i + bits.Len64(word) - 1
		}
	}
	return -1
}

func (b *bitset) has(n int) bool { return n/64 < len(*b) && (*b)[n/64]&(1<<(n%64)) != 0 }
