package dispatch

import (
	"container/heap"
	"testing"
	"time"

	"chronos/scheduler/destinations"
	"chronos/scheduler/flow"
	"chronos/scheduler/settings"
	"chronos/scheduler/timing"
	"chronos/scheduler/wheel"
)

// instants is a heap of instants, each with a claim.
type instants []claimAt

type claimAt struct {
	at time.Time
	c  *claim
}

func (h *instants) Len() int           { return len(*h) }
func (h *instants) Less(i, j int) bool { return (*h)[i].at.Before((*h)[j].at) }
func (h *instants) Swap(i, j int)      { (*h)[i], (*h)[j] = (*h)[j], (*h)[i] }
func (h *instants) Push(x any)         { *h = append(*h, x.(claimAt)) } //nolint:errcheck,forcetypeassert // nothing else is pushed
func (h *instants) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

// TestPausedTimersAreLookedAtRarely: once all timers of paused destinations have been looked at, so
// many are looked at a second on a shard as returnsPerSecond says. A destination with few timers does
// not wait for a destination with many.
func TestPausedTimersAreLookedAtRarely(t *testing.T) {
	const many, few, nodes = 15_000, 50, 3
	g, l, begun := newGate(4096), &lane{}, time.Now()
	var waiting instants
	for i := range many + few {
		name := "http://many:80"
		if i >= many {
			name = "http://few:80"
		}
		waiting = append(waiting, claimAt{begun, &claim{lane: l, destination: name}})
	}
	heap.Init(&waiting)
	looks := map[time.Duration]int{}
	for first := many + few; waiting.Len() > 0 && waiting[0].at.Before(begun.Add(time.Minute)); first-- {
		next := waiting[0]
		delay := g.spread(next.c, nodes, next.at)
		switch {
		case delay < shortestReturn:
			t.Fatalf("delay %v, want %v at least", delay, shortestReturn)
		case next.c.destination == "http://few:80" && delay > longestTurn:
			t.Fatalf("a destination with few timers waits for %v", delay)
		}
		if first <= 0 {
			looks[next.at.Sub(begun).Truncate(time.Second)]++
		}
		waiting[0].at = next.at.Add(delay)
		heap.Fix(&waiting, 0)
	}
	for second, n := range looks {
		if most := returnsPerSecond/nodes + few + 2; n > most {
			t.Errorf("%d looks by one of %d nodes in second %v, want %d at most", n, nodes, second, most)
		}
	}
	if len(looks) < 40 {
		t.Errorf("looks in %d seconds", len(looks))
	}
}

// TestTurnsAreGivenBack: a claim of which no callback comes costs no turn.
func TestTurnsAreGivenBack(t *testing.T) {
	g, now, share := newGate(4096), time.Now(), destinations.Share{Rate: 1, Burst: 1}
	first, second := &claim{lane: &lane{}, destination: "http://a:80"}, &claim{lane: &lane{}, destination: "http://a:80"}
	if at, _ := g.take(first, share, 1, now); !first.hasTurn || !at.Equal(now) {
		t.Fatalf("the first claim has a turn %t, at %v", first.hasTurn, at.Sub(now))
	}
	if _, delay := g.take(second, share, 1, now); second.hasTurn || delay != time.Second {
		t.Errorf("the second claim has a turn %t, comes again in %v; want none, 1s", second.hasTurn, delay)
	}
	g.refund(first)
	g.refund(first)
	if g.take(second, share, 1, now); !second.hasTurn {
		t.Error("the turn that was given back is lost")
	}
	if g.take(first, share, 1, now); first.hasTurn {
		t.Error("a turn that was given back twice counts twice")
	}
}

// TestFewClaimsWaitForTheirTurns: claims wait in hand for SlotWait at most, and leave room for other
// destinations.
func TestFewClaimsWaitForTheirTurns(t *testing.T) {
	g, now := newGate(64), time.Now()
	take := func(name string, n int) (waiting int) {
		for range n {
			c := &claim{lane: &lane{}, destination: name}
			at, delay := g.take(c, destinations.Share{Rate: 100, Burst: 1}, 1, now)
			switch wait := at.Sub(now); {
			case !c.hasTurn && (delay <= 0 || delay > 2*longestTurn):
				t.Fatalf("a claim comes again in %v", delay)
			case !c.hasTurn:
			case wait < 0 || wait > timing.SlotWait:
				t.Fatalf("a claim waits in hand for %v", wait)
			case wait > 0:
				waiting++
			}
		}
		return waiting
	}
	if n := take("http://a:80", 1000); n != 4 {
		t.Errorf("%d claims of a destination wait, want a quarter of 16", n)
	}
	for _, name := range []string{"http://b:80", "http://c:80", "http://d:80"} {
		if n := take(name, 1000); n != 4 {
			t.Errorf("%d claims of %s wait, want 4", n, name)
		}
	}
	if n := take("http://e:80", 1000); n != 0 || g.waiting != 16 {
		t.Errorf("%d claims of a fifth destination wait, %d in all; want 0 and 16", n, g.waiting)
	}
}

// TestAClaimThatWaitsForItsTurnTakesNoRoom: a claim in the wheel for its turn takes no room from the
// claims of other destinations, as a claim that waits for a slot takes none.
func TestAClaimThatWaitsForItsTurnTakesNoRoom(t *testing.T) {
	book := destinations.NewBook(nil)
	book.Limit(map[string]destinations.Limit{"http://a:80": {Rate: 10, Burst: 1}})
	config := &settings.Config{Destinations: book}
	d := &Dispatcher{config: config, slots: newSlots(64), gate: newGate(64), wheel: wheel.New[turn](time.Now()), metrics: newMetrics(book)}
	l := &lane{d: d, credit: flow.NewCredit(64), settlements: flow.NewQueue[*claim]()}
	l.credit.Take(2)
	before := l.credit.Left()
	first, second := &claim{lane: l, destination: "http://a:80", weight: 1}, &claim{lane: l, destination: "http://a:80", weight: 1}
	if !d.admit(book.Rules(), first) || l.credit.Left() != before {
		t.Fatalf("the first claim waits for its turn, or has changed the room by %d", l.credit.Left()-before)
	}
	if d.admit(book.Rules(), second) || !second.awaitsTurn || l.credit.Left() != before+1 {
		t.Fatalf("the second claim waits %t, and has changed the room by %d; want true and 1", second.awaitsTurn, l.credit.Left()-before)
	}
	if !d.admit(book.Rules(), second) || l.credit.Left() != before || d.gate.waiting != 0 {
		t.Errorf("after its wait the second claim has changed the room by %d, %d claims wait", l.credit.Left()-before, d.gate.waiting)
	}
	if !d.admit(book.Rules(), second) {
		t.Error("a claim that has its turn needs another")
	}
}

// TestSlotsKeepToALimit: a destination with a limit of its own has no more slots, few of its claims
// wait, and the slots of other destinations are not affected.
func TestSlotsKeepToALimit(t *testing.T) {
	s := newSlots(64)
	bounded := func(n int) []*claim {
		claims := claimsTo("http://bounded:80", n)
		for _, c := range claims {
			c.most = 3
		}
		return claims
	}
	held, waiting, refused := take(s, bounded(40))
	if len(held) != 3 || len(waiting) == 0 || len(waiting) > 12 {
		t.Fatalf("%d held, %d waiting, %d refused; want 3 held and few waiting", len(held), len(waiting), len(refused))
	}
	if !refused[0].limited {
		t.Error("a claim that the limit refuses does not say so")
	}
	others, _, _ := take(s, claimsTo("http://other:80", 40))
	if len(others) < 28 {
		t.Errorf("another destination has %d slots, want about half of 64", len(others))
	}
	s.lengthen(held[0])
	if next := s.free(held[0]); next != waiting[0] {
		t.Errorf("the freed slot went to %v, want the first that waits", next)
	}
	if next := s.free(others[0]); next != nil && next.destination == "http://bounded:80" {
		t.Error("a destination with all slots of its limit has got another")
	}
	if load := s.inHand()["http://bounded:80"]; load.InFlight != 3 || load.Waiting != len(waiting)-1 {
		t.Errorf("%+v, want 3 slots, and one claim less that waits", load)
	}
}
