package dispatch

import (
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"chronos/scheduler/flow"
	"chronos/scheduler/pulse"
	"chronos/scheduler/timing"
)

const (
	// returnsPerSecond is how many refused claims come again per second. Destinations share the
	// returns as they share the slots.
	returnsPerSecond = 2000
	// maxSlotDelay is the longest delay of a refused claim.
	maxSlotDelay = time.Minute
)

// slots bounds the callbacks under way. Destinations share the slots by a dynamic threshold
// (Choudhury and Hahne 1998): a destination gets another slot while it has fewer slots than are
// free. The last quarter is for destinations without a slot. A single destination thus gets half
// of all slots, many busy destinations share three quarters, and a later destination gets a slot
// at once.
//
// A claim waits for a slot while fewer claims wait than slots are free and the destination gets
// within SlotWait. Otherwise the claim is refused: the claim goes back to the shard, and comes
// again at a time of its own. A callback that lasts for long counts double. Claims in vain thus cost the same however many timers call a
// destination that hangs, and a burst to a quick destination is claimed once. slots is safe for
// concurrent use.
type slots struct {
	mu      sync.Mutex
	total   int
	used    int
	waiting int // in all
	by      map[string]*destination
	queued  []*destination // destinations with waiting claims
}

type destination struct {
	used    int      // slots; a callback that lasts for long counts double
	held    int      // slots
	most    int      // slots at a time, by the destination's own limit; 0 for no limit
	waiting []*claim // in order of arrival

	granted flow.Recent
	booked  time.Time // when the last refused claim comes again
}

func newSlots(total int) *slots { return &slots{total: total, by: make(map[string]*destination)} }

// slotAnswer is the answer to a claim that asks for a slot.
type slotAnswer int

const (
	slotGranted slotAnswer = iota
	slotWaiting            // granted later by free, or given up by abandon
	slotRefused
)

// take asks for a slot for c. If c is refused, c should come back after delay.
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
	d.most = c.most
	switch soon := d.granted.Within(now, timing.SlotWait); {
	case s.available(d):
		s.grant(d, now)
		return slotGranted, 0
	case s.waiting < s.total-s.used+soon && (d.most == 0 || len(d.waiting) < d.most+soon):
		c.waiting = true
		c.waits++
		s.waiting++
		if len(d.waiting) == 0 {
			s.queued = append(s.queued, d)
		}
		d.waiting = append(d.waiting, c)
		return slotWaiting, 0
	}
	c.limited = d.full()
	return slotRefused, s.book(d, now)
}

// abandon ends the wait that t names, if the wait still lasts, and returns the delay after which
// the claim should come back.
func (s *slots) abandon(t turn) (waited bool, delay time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := t.claim
	if !c.waiting || c.waits != t.endsWait {
		return false, 0
	}
	d := s.by[c.destination]
	s.leaveQueue(d, slices.Index(d.waiting, c))
	c.limited = d.full()
	return true, s.book(d, time.Now())
}

// free gives c's slot back and returns the claim that has the slot now, if a claim waited.
func (s *slots) free(c *claim) *claim {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	d := s.by[c.destination]
	s.used--
	d.used--
	d.held--
	if c.long {
		d.used--
	}
	next := s.pass(now)
	if d.idle(now) {
		delete(s.by, c.destination)
	}
	return next
}

// lengthen has c, whose callback lasts for long, count double against its destination. Nobody may free
// c's slot meanwhile.
func (s *slots) lengthen(c *claim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.long = true
	s.by[c.destination].used++
}

// pass grants a free slot to the first claim for the destination with the fewest slots, among
// destinations with waiting claims, if the destination may have another slot. No further
// destination may then: as many slots are free as before.
func (s *slots) pass(now time.Time) *claim {
	var d *destination
	for _, q := range s.queued {
		if (d == nil || q.used < d.used) && s.available(q) {
			d = q
		}
	}
	if d == nil {
		return nil
	}
	next := d.waiting[0]
	s.leaveQueue(d, 0)
	s.grant(d, now)
	return next
}

// leaveQueue ends the wait of the i-th claim that waits for d.
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
	return d.used < free && (d.used == 0 || free > s.total/4) && !d.full()
}

// full reports whether the destination has all slots that its own limit allows.
func (d *destination) full() bool { return d.most > 0 && d.held >= d.most }

// inHand is how many slots each destination has, and how many claims wait for a slot.
func (s *slots) inHand() map[string]pulse.Load {
	s.mu.Lock()
	defer s.mu.Unlock()
	by := make(map[string]pulse.Load, len(s.by))
	for name, d := range s.by {
		if d.held+len(d.waiting) > 0 {
			by[name] = pulse.Load{InFlight: d.held, Waiting: len(d.waiting)}
		}
	}
	return by
}

func (s *slots) grant(d *destination, now time.Time) {
	s.used++
	d.used++
	d.held++
	d.granted.Add(now, 1)
}

// book is the delay of a refused claim, behind the claims that were refused before.
func (s *slots) book(d *destination, now time.Time) time.Duration {
	turn := time.Second / returnsPerSecond * time.Duration(max(s.used, 1)) / time.Duration(max(d.used, 1))
	if recent := d.granted.Count(now); recent > 0 {
		turn = min(turn, 2*flow.RecentSpan/time.Duration(recent))
	}
	if first := now.Add(flow.RecentSpan); d.booked.Before(first) {
		d.booked = first
	}
	if d.booked.Sub(now) > maxSlotDelay-turn {
		return maxSlotDelay - rand.N(maxSlotDelay/2)
	}
	d.booked = d.booked.Add(turn)
	return d.booked.Sub(now)
}

// idle reports whether the destination may be forgotten.
func (d *destination) idle(now time.Time) bool {
	return d.used == 0 && len(d.waiting) == 0 && !d.booked.After(now)
}

// forgetIdle keeps the map in proportion to the slots, however many destinations clients make up.
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
