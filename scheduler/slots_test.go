package scheduler

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

func claimsTo(destination string, n int) []*claim {
	claims := make([]*claim, n)
	for i := range claims {
		claims[i] = &claim{destination: destination}
	}
	return claims
}

func take(s *slots, claims []*claim) (granted, waiting, refused []*claim) {
	for _, c := range claims {
		switch answer, _ := s.take(c); answer {
		case slotGranted:
			granted = append(granted, c)
		case slotWaiting:
			waiting = append(waiting, c)
		case slotRefused:
			refused = append(refused, c)
		}
	}
	return granted, waiting, refused
}

func TestSlotsLeaveRoomForOthers(t *testing.T) {
	s := newSlots(64)
	slow, waiting, _ := take(s, claimsTo("http://slow:80", 200))
	if len(slow) != 56 || len(waiting) != 144 {
		t.Fatalf("a lone destination got %d of 64 slots with %d waiting, want 56 and 144", len(slow), len(waiting))
	}
	// An eighth is left for others at any moment.
	quick, _, _ := take(s, claimsTo("http://quick:80", 8))
	if len(quick) != 8 {
		t.Fatalf("beside a slow destination %d of 8 got a slot", len(quick))
	}
	// While others use theirs, what the slow one frees isn't its own again until it
	// has less than half, or enough is free.
	for i := range 8 {
		if next := s.free(slow[i]); next != nil {
			t.Fatalf("slot %d freed by a destination with %d slots went to it again", i, 56-i)
		}
	}
	if next := s.free(slow[8]); next != waiting[0] {
		t.Fatalf("with more than an eighth free, the first that waits gets a slot; got %v", next)
	}
}

func TestSlotFreedGoesToOtherThatWaits(t *testing.T) {
	s := newSlots(16)
	slow, _, _ := take(s, claimsTo("http://slow:80", 14))
	take(s, claimsTo("http://a:80", 2))
	_, waiting, _ := take(s, claimsTo("http://b:80", 1))
	if len(waiting) != 1 {
		t.Fatal("with all slots taken, another destination's claim should wait")
	}
	if next := s.free(slow[0]); next != waiting[0] {
		t.Errorf("the freed slot went to %v, want the one that waits for another destination", next)
	}
}

func TestSlotDelayGrowsUntilOneIsHad(t *testing.T) {
	s := newSlots(8)
	synctest.Test(t, func(t *testing.T) { checkGrowingDelay(t, s) })
}

func checkGrowingDelay(t *testing.T, s *slots) {
	t.Helper()
	held, waiting, _ := take(s, claimsTo("http://slow:80", 8))
	if len(held) != 7 || len(waiting) != 1 {
		t.Fatalf("%d held, %d waiting", len(held), len(waiting))
	}
	end := turn{claim: waiting[0], endsWait: 1}
	waited, delay := s.abandon(end)
	if !waited || delay > minSlotDelay || delay <= minSlotDelay*3/4 {
		t.Fatalf("abandon: waited %v, delay %v; want true, %v with jitter", waited, delay, minSlotDelay)
	}
	if again, _ := s.abandon(end); again {
		t.Error("a wait was abandoned twice")
	}
	const ms = time.Millisecond
	last := 100 * ms
	for _, want := range []time.Duration{200 * ms, 400 * ms, 800 * ms, 1600 * ms, 2000 * ms, 2000 * ms} {
		<-time.After(last)
		last = want
		for range 100 { // however many are refused together, the delay is raised once
			answer, got := s.take(&claim{destination: "http://slow:80"})
			if answer != slotRefused || got > want || got <= want*3/4 {
				t.Fatalf("answer %v with delay %v, want a refusal with %v and jitter", answer, got, want)
			}
		}
	}
	s.free(held[0])
	if answer, _ := s.take(&claim{destination: "http://slow:80"}); answer != slotGranted {
		t.Fatal("a slot was free")
	}
	if answer, _ := s.take(&claim{destination: "http://slow:80"}); answer != slotWaiting {
		t.Error("after a slot was had, the next one waits again")
	}
}

func TestSlotsForgetDestinations(t *testing.T) {
	s := newSlots(8)
	for i := range 1000 {
		c := &claim{destination: fmt.Sprintf("http://host%d:80", i)}
		if answer, _ := s.take(c); answer != slotGranted {
			t.Fatal("a free slot was not granted")
		}
		s.free(c)
	}
	if len(s.by) != 0 {
		t.Errorf("%d destinations are remembered with no slot in use", len(s.by))
	}
	held, _, _ := take(s, claimsTo("http://slow:80", 7))
	take(s, claimsTo("http://other:80", 1))
	for i := range 1000 {
		c := &claim{destination: fmt.Sprintf("http://refused%d:80", i)}
		s.take(c)
		s.abandon(turn{claim: c, endsWait: c.waits})
	}
	if len(s.by) > 2*s.total+1 {
		t.Errorf("%d destinations are remembered for %d slots", len(s.by), s.total)
	}
	for _, c := range held {
		s.free(c)
	}
}

// TestSlotsProperties: whatever is asked for, freed and abandoned in any order,
// the bounds hold, and nothing waits that could have a slot.
func TestSlotsProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		total := rapid.IntRange(8, 40).Draw(t, "total")
		s := newSlots(total)
		var held, waiting []*claim
		hold := func(c *claim) { held = append(held, c) }
		drop := func(from *[]*claim) *claim {
			i := rapid.IntRange(0, len(*from)-1).Draw(t, "which")
			c := (*from)[i]
			*from = append((*from)[:i], (*from)[i+1:]...)
			return c
		}
		t.Repeat(map[string]func(*rapid.T){
			"take": func(t *rapid.T) {
				c := &claim{destination: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "destination")}
				switch answer, _ := s.take(c); answer {
				case slotGranted:
					hold(c)
				case slotWaiting:
					waiting = append(waiting, c)
				case slotRefused:
				}
			},
			"free": func(t *rapid.T) {
				if len(held) == 0 {
					t.Skip("nothing is held")
				}
				if next := s.free(drop(&held)); next != nil {
					hold(next)
					for i, c := range waiting {
						if c == next {
							waiting = append(waiting[:i], waiting[i+1:]...)
							break
						}
					}
				}
			},
			"abandon": func(t *rapid.T) {
				if len(waiting) == 0 {
					t.Skip("nothing waits")
				}
				c := drop(&waiting)
				if waited, _ := s.abandon(turn{claim: c, endsWait: c.waits + 1}); waited {
					t.Fatal("another wait's end has ended this one")
				}
				if waited, _ := s.abandon(turn{claim: c, endsWait: c.waits}); !waited {
					t.Fatal("a claim that waited was granted unseen")
				}
			},
			"": func(t *rapid.T) { checkSlots(t, s, held, waiting) },
		})
	})
}

func checkSlots(t *rapid.T, s *slots, held, waiting []*claim) {
	by := map[string]int{}
	for _, c := range held {
		by[c.destination]++
	}
	if s.waiting != len(waiting) {
		t.Fatalf("%d counted as waiting, %d wait", s.waiting, len(waiting))
	}
	if s.used != len(held) || s.used > s.total {
		t.Fatalf("%d slots in use, %d held, %d in all", s.used, len(held), s.total)
	}
	for name, n := range by {
		if n > s.total-s.total/8 {
			t.Fatalf("destination %s has %d of %d slots", name, n, s.total)
		}
		if s.by[name].used != n {
			t.Fatalf("destination %s: %d counted, %d held", name, s.by[name].used, n)
		}
	}
	for _, c := range waiting {
		if s.total-s.used > s.total/8+1 {
			t.Fatalf("a claim for %s waits with %d of %d slots free", c.destination, s.total-s.used, s.total)
		}
	}
}
