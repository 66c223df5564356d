package dispatch

import (
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"chronos/scheduler/timing"
)

const (
	slotSpan = 100 * time.Millisecond
	// returnsPerSecond is how many of the claims that were refused come again. The
	// destinations share them as they share the slots.
	returnsPerSecond = 2000
	// maxSlotDelay is the longest delay of a claim that was refused.
	maxSlotDelay = backoffCap
)

// slots bounds the callbacks under way. They are shared by a dynamic threshold (Choudhury
// and Hahne 1998): a destination gets another slot while it has fewer than are free. The
// last quarter is for destinations that have none. So one destination alone gets half of
// all slots, many busy ones share three quarters, and a destination that comes later gets a
// slot at once.
//
// A claim without a slot waits for one while fewer claims wait than slots are free and the
// destination gets within SlotWait. Otherwise the claim is refused: it goes back to its shard
// and comes again at a time of its own. So claims in vain cost the same however many timers
// call a destination that hangs, and a burst to a quick destination is claimed once. It is
// safe for concurrent use.
type slots struct {
	mu      sync.Mutex
	total   int
	used    int
	waiting int // in all
	by      map[string]*destination
	queued  []*destination // those for which claims wait
}

type destination struct {
	used    int
	waiting []*claim // in the order they came

	span   int64     // ordinal of the present span of time
	had    [2]int    // slots granted in the present span and in the one before
	booked time.Time // when the last of those that were refused comes again
}

func newSlots(total int) *slots { return &slots{total: total, by: make(map[string]*destination)} }

// slotAnswer says what came of asking for a slot.
type slotAnswer int

const (
	slotGranted slotAnswer = iota
	slotWaiting            // granted later by free, or given up by abandon
	slotRefused
)

// take asks for a slot for c. If it is refused, c should come back after delay.
func (s *slots) take(c *claim) (answer slotAnswer, delay time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	d := s.by[c.destination]
	if d == nil {
		s.forgetIdle()
		d = &destination{}
		s.by[c.destination] = d
	}
	switch {
	case s.available(d):
		s.grant(d, now)
		return slotGranted, 0
	case s.waiting < s.total-s.used+d.coming(now):
		c.waiting = true
		c.waits++
		s.waiting++
		if len(d.waiting) == 0 {
			s.queued = append(s.queued, d)
		}
		d.waiting = append(d.waiting, c)
		return slotWaiting, 0
	}
	return slotRefused, s.book(d, now)
}

// abandon ends a claim's wait, if it is still in that one, and says after which
// delay it should come back.
func (s *slots) abandon(t turn) (waited bool, delay time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := t.claim
	if !c.waiting || c.waits != t.endsWait {
		return false, 0
	}
	d := s.by[c.destination]
	s.leaveQueue(d, slices.Index(d.waiting, c))
	return true, s.book(d, time.Now())
}

// free gives c's slot back and returns the claim that has the slot now, if one waited.
func (s *slots) free(c *claim) *claim {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	d := s.by[c.destination]
	s.used--
	d.used--
	next := s.pass(now)
	if d.idle(now) {
		delete(s.by, c.destination)
	}
	return next
}

// pass grants a free slot to the first that waits for the destination with the fewest, if
// that may have another. No other may then: the threshold is what it was before the slot
// was free.
func (s *slots) pass(now time.Time) *claim {
	if len(s.queued) == 0 {
		return nil
	}
	d := slices.MinFunc(s.queued, func(a, b *destination) int { return a.used - b.used })
	if !s.available(d) {
		return nil
	}
	next := d.waiting[0]
	s.leaveQueue(d, 0)
	s.grant(d, now)
	return next
}

// leaveQueue ends the wait of the i-th that waits for d.
func (s *slots) leaveQueue(d *destination, i int) {
	d.waiting[i].waiting = false
	s.waiting--
	if i == 0 {
		d.waiting[0] = nil
		d.waiting = d.waiting[1:]
	} else {
		d.waiting = slices.Delete(d.waiting, i, i+1)
	}
	if len(d.waiting) == 0 {
		k := slices.Index(s.queued, d)
		s.queued = slices.Delete(s.queued, k, k+1)
	}
}

// available reports whether a destination may have another slot.
func (s *slots) available(d *destination) bool {
	free := s.total - s.used
	return d.used < free && (d.used == 0 || free > s.total/4)
}

func (s *slots) grant(d *destination, now time.Time) {
	s.used++
	d.used++
	d.turnOver(now)
	d.had[0]++
}

// turnOver goes to the present span.
func (d *destination) turnOver(now time.Time) {
	span := now.UnixNano() / int64(slotSpan)
	switch span {
	case d.span:
	case d.span + 1:
		d.had = [2]int{0, d.had[0]}
	default:
		d.had = [2]int{}
	}
	d.span = span
}

// recent is how many slots the destination got in the last one to two spans.
func (d *destination) recent(now time.Time) int {
	d.turnOver(now)
	return d.had[0] + d.had[1]
}

// coming is how many slots the destination gets within SlotWait, if it gets them as it did
// lately.
func (d *destination) coming(now time.Time) int {
	return d.recent(now) * int(timing.SlotWait) / int(2*slotSpan)
}

// book is the delay of a claim that is refused: behind those that were refused before.
func (s *slots) book(d *destination, now time.Time) time.Duration {
	turn := time.Second / returnsPerSecond * time.Duration(max(s.used, 1)) / time.Duration(max(d.used, 1))
	if recent := d.recent(now); recent > 0 {
		turn = min(turn, 2*slotSpan/time.Duration(recent))
	}
	if first := now.Add(slotSpan); d.booked.Before(first) {
		d.booked = first
	}
	if d.booked.Sub(now) > maxSlotDelay-turn {
		return maxSlotDelay - rand.N(maxSlotDelay/2)
	}
	d.booked = d.booked.Add(turn)
	return d.booked.Sub(now)
}

// idle reports whether nothing has to be remembered of the destination.
func (d *destination) idle(now time.Time) bool {
	return d.used == 0 && len(d.waiting) == 0 && !d.booked.After(now)
}

// forgetIdle keeps the map as small as what is under way, whatever destinations
// clients make up.
func (s *slots) forgetIdle() {
	if len(s.by) < 2*s.total {
		return
	}
	for name, d := range s.by {
		if d.used == 0 && len(d.waiting) == 0 {
			delete(s.by, name)
		}
	}
}
