package dispatch

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"chronos/scheduler/flow"
	"chronos/scheduler/timing"
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

// TestSlotsAreShared: every destination that wants all slots gets an equal share, and many
// destinations that come later get a slot.
func TestSlotsAreShared(t *testing.T) {
	for _, test := range []struct{ total, busy, share int }{{4096, 1, 2048}, {4096, 16, 192}, {4096, 256, 12}, {64, 1, 32}, {64, 16, 3}} {
		s := newSlots(test.total)
		for range test.total {
			for i := range test.busy {
				s.take(&claim{destination: fmt.Sprintf("http://slow%d:80", i)})
			}
		}
		for name, d := range s.by {
			if d.used < test.share || d.used > test.share+1 {
				t.Errorf("%d destinations share %d slots: %s has %d, want %d or one more", test.busy, test.total, name, d.used, test.share)
			}
		}
		for i := range 2 * test.total / 9 {
			if quick, _, _ := take(s, claimsTo(fmt.Sprintf("http://quick%d:80", i), 1)); len(quick) != 1 {
				t.Fatalf("beside %d slow destinations the %d. other one got none of %d slots", test.busy, i+1, test.total)
			}
		}
	}
}

func TestSlotFreedGoesToTheDestinationWithTheFewest(t *testing.T) {
	s := newSlots(16)
	slow, slowWaits, _ := take(s, claimsTo("http://slow:80", 10))
	if len(slow) != 8 || len(slowWaits) != 2 {
		t.Fatalf("a lone destination has %d of 16 slots with %d waiting, want 8 and 2", len(slow), len(slowWaits))
	}
	first, firstWaits, _ := take(s, claimsTo("http://a:80", 5))
	second, secondWaits, _ := take(s, claimsTo("http://b:80", 2))
	if len(first) != 4 || len(firstWaits) != 1 || len(second) != 1 || len(secondWaits) != 1 {
		t.Fatalf("slots granted %d and %d, waiting %d and %d", len(first), len(second), len(firstWaits), len(secondWaits))
	}
	if next := s.free(slow[0]); next != nil {
		t.Errorf("one of the last slots went to %v, whose destination has one", next)
	}
	if next := s.free(slow[1]); next != secondWaits[0] {
		t.Errorf("the freed slot went to %v, want the claim of the destination with the fewest slots", next)
	}
	if next := s.free(first[0]); next != firstWaits[0] {
		t.Errorf("the freed slot went to %v, want its destination's next claim", next)
	}
}

// TestRefusedClaimsComeBackOneByOne: refused claims come again one by one, after a minute at the
// latest. Claims for the destination with more slots come faster.
func TestRefusedClaimsComeBackOneByOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlots(16)
		held, waiting, _ := take(s, claimsTo("http://slow:80", 16))
		other, _, _ := take(s, claimsTo("http://other:80", 4))
		if len(held) != 8 || len(waiting) != 8 || len(other) != 4 {
			t.Fatalf("%d held, %d waiting, %d held by the other", len(held), len(waiting), len(other))
		}
		s.waiting += 4 // claims of a third destination
		<-time.After(timing.SlotWait)
		const turnOf8, turnOf4 = time.Second / returnsPerSecond * 12 / 8, time.Second / returnsPerSecond * 12 / 4
		end := turn{claim: waiting[0], endsWait: 1}
		waited, delay := s.abandon(end)
		if !waited || delay != flow.RecentSpan+turnOf8 {
			t.Fatalf("abandon: waited %v, delay %v; want true, %v", waited, delay, flow.RecentSpan+turnOf8)
		}
		if again, _ := s.abandon(end); again {
			t.Error("a wait was abandoned twice")
		}
		for _, c := range waiting[1:] {
			s.abandon(turn{claim: c, endsWait: 1})
		}
		for name, turn := range map[string]time.Duration{"http://slow:80": turnOf8, "http://other:80": turnOf4} {
			want := time.Until(s.by[name].booked)
			for range 1000 {
				want = max(want, flow.RecentSpan) + turn
				if answer, got := s.take(&claim{destination: name}); answer != slotRefused || got != want {
					t.Fatalf("answer %v with delay %v, want a refusal with %v", answer, got, want)
				}
			}
		}
		for range 2 * returnsPerSecond * int(maxSlotDelay/time.Second) {
			if _, got := s.take(&claim{destination: "http://slow:80"}); got > maxSlotDelay {
				t.Fatalf("delay %v, want %v at most", got, maxSlotDelay)
			}
		}
		if _, got := s.take(&claim{destination: "http://slow:80"}); got < maxSlotDelay/2 {
			t.Fatalf("delay %v, want %v at least", got, maxSlotDelay/2)
		}
		for _, c := range held[:5] {
			s.free(c)
		}
		if answer, _ := s.take(&claim{destination: "http://slow:80"}); answer != slotGranted {
			t.Fatal("a slot was free")
		}
	})
}

// TestClaimsOfAQuickDestinationWait: claims wait for slots while fewer claims wait than slots are
// free and come at the recent rate. The first to wait is the first to get a slot.
func TestClaimsOfAQuickDestinationWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlots(8)
		held, waiting, refused := take(s, claimsTo("http://quick:80", 19))
		if len(held) != 4 || len(waiting) != 14 || len(refused) != 1 {
			t.Fatalf("%d held, %d waiting, %d refused; want 4, 4 that are free and 10 at the rate of the 4 that were had, 1", len(held), len(waiting), len(refused))
		}
		for i := range held {
			if next := s.free(held[i]); next != waiting[i] {
				t.Fatalf("slot %d went to %v, want the claim that has waited longest", i, next)
			}
		}
		if _, more, _ := take(s, claimsTo("http://quick:80", 40)); len(more) != 14 {
			t.Errorf("%d more claims wait after 10 waiting ones and 4 more slots, want 14", len(more))
		}
		<-time.After(2 * flow.RecentSpan)
		if _, more, _ := take(s, claimsTo("http://quick:80", 1)); len(more) != 0 {
			t.Error("a claim waits though no slot was had for a while")
		}
	})
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

// TestSlotsProperties: whatever the order of take, free and abandon, the bounds hold, and no claim
// waits that could have a slot.
func TestSlotsProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		total, most := rapid.IntRange(8, 40).Draw(t, "total"), rapid.IntRange(0, 20).Draw(t, "most of c")
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
				if c.destination == "c" {
					c.most = most
				}
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
	queued, free := 0, s.total-s.used
	for _, d := range s.queued {
		queued += len(d.waiting)
		if len(d.waiting) == 0 {
			t.Fatal("a destination is queued for which nothing waits")
		}
		if d.used < free && (d.used == 0 || free > s.total/4) && (d.most == 0 || d.used < d.most) {
			t.Fatalf("claims wait for a destination that has %d slots while %d are free", d.used, free)
		}
	}
	if queued != len(waiting) || s.waiting != len(waiting) {
		t.Fatalf("%d queued, %d counted as waiting, %d wait", queued, s.waiting, len(waiting))
	}
	if s.used != len(held) || s.used > s.total {
		t.Fatalf("%d slots in use, %d held, %d in all", s.used, len(held), s.total)
	}
	for name, n := range by {
		if n > (s.total+1)/2 {
			t.Fatalf("destination %s has %d of %d slots", name, n, s.total)
		}
		if d := s.by[name]; d.most > 0 && n > d.most {
			t.Fatalf("destination %s has %d slots, and a limit of %d", name, n, d.most)
		}
		if s.by[name].used != n {
			t.Fatalf("destination %s: %d counted, %d held", name, s.by[name].used, n)
		}
	}
}
