package scheduler

import (
	"math/rand/v2"
	"sync"
	"time"
)

// Waiting for a slot. What waited in vain goes back to its shard, so that its
// lease doesn't end here; where waiting was in vain lately, nothing waits.
const (
	slotWait     = 100 * time.Millisecond
	minSlotDelay = 100 * time.Millisecond
	maxSlotDelay = 2 * time.Second
)

// slots bounds the callbacks under way, in all and per destination, so that a
// slow endpoint holds up only its own timers: a destination that has half of
// them gets another only while more than an eighth are free for the others.
type slots struct {
	mu      sync.Mutex
	total   int
	used    int
	waiting int // in all
	by      map[string]*destination
}

type destination struct {
	used    int
	waiting []*claim      // in the order they came
	delay   time.Duration // of refusals; 0 after a slot was had
	raised  time.Time     // when delay was last raised
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
	d := s.by[c.destination]
	if d == nil {
		s.forgetIdle()
		d = &destination{}
		s.by[c.destination] = d
	}
	switch {
	case s.available(d):
		s.grant(d)
		return slotGranted, 0
	case d.delay == 0:
		c.waiting = true
		c.waits++
		s.waiting++
		d.waiting = append(d.waiting, c)
		return slotWaiting, 0
	}
	return slotRefused, d.longer()
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
	c.waiting = false
	s.waiting--
	d := s.by[c.destination]
	for i, w := range d.waiting {
		if w == c {
			d.waiting = append(d.waiting[:i], d.waiting[i+1:]...)
			break
		}
	}
	return true, d.longer()
}

// free gives c's slot back and returns the claim that has it now, if one waited.
func (s *slots) free(c *claim) *claim {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.by[c.destination]
	s.used--
	d.used--
	next := s.pass(d)
	if next == nil && s.waiting > 0 {
		for _, other := range s.by {
			if next = s.pass(other); next != nil {
				break
			}
		}
	}
	if d.used == 0 && len(d.waiting) == 0 && d.delay == 0 {
		delete(s.by, c.destination)
	}
	return next
}

// pass grants a slot to the first that waits for d, if d may have one.
func (s *slots) pass(d *destination) *claim {
	if len(d.waiting) == 0 || !s.available(d) {
		return nil
	}
	next := d.waiting[0]
	d.waiting[0] = nil
	d.waiting = d.waiting[1:]
	next.waiting = false
	s.waiting--
	s.grant(d)
	return next
}

func (s *slots) available(d *destination) bool {
	free := s.total - s.used
	return free > 0 && (d.used < s.total/2 || free > s.total/8)
}

func (s *slots) grant(d *destination) {
	s.used++
	d.used++
	d.delay = 0
}

// longer is the delay of a refusal: raised once for all that are refused within
// it, and with jitter, so that they don't all come back at once.
func (d *destination) longer() time.Duration {
	if now := time.Now(); d.delay == 0 || now.Sub(d.raised) >= d.delay {
		d.delay, d.raised = min(max(2*d.delay, minSlotDelay), maxSlotDelay), now
	}
	return d.delay - rand.N(d.delay/4)
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
