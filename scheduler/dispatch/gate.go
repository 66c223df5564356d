package dispatch

import (
	"math/rand/v2"
	"sync"
	"time"

	"chronos/scheduler/destinations"
	"chronos/scheduler/store"
	"chronos/scheduler/timing"
)

const (
	// shortestReturn is the shortest delay of a claim that is put back with no turn in sight: of a
	// claim of a paused destination, and of a claim whose turn by the rate is over longestTurn
	// ahead.
	shortestReturn = 2500 * time.Millisecond
	// longestTurn is how far ahead a claim is put back until its turn. A higher limit, or a node that
	// goes, may bring a turn sooner.
	longestTurn = 5 * time.Second
	// longestReturn is the longest delay of a claim that is put back.
	longestReturn = 10 * time.Minute
	// maxBuckets is how many destinations are remembered before those without a turn to come are
	// forgotten.
	maxBuckets = 2000
)

// gate keeps to the rates and pauses of destinations, ahead of the slots. Each claim takes a turn of
// its destination, and gives the turn back unless a callback comes of it. The turns follow the
// generic cell rate algorithm. gate is safe for concurrent use.
type gate struct {
	mu      sync.Mutex
	most    int // claims that may wait in hand for their turns
	waiting int
	buckets map[string]*bucket
}

// bucket has the turns of a destination with a rate.
type bucket struct {
	period  time.Duration // between two turns
	next    time.Time     // of the turn after the last turn taken, without a burst
	booked  time.Time     // the last turn for which a claim was put back
	waiting int
}

func newGate(slots int) *gate {
	return &gate{most: max(slots/4, 8), buckets: make(map[string]*bucket)}
}

// returns says when the claims of a lane come again that were put back with no turn in sight. The
// gate's mutex guards returns.
type returns struct {
	booked map[string]time.Time // the last return, by destination
	swept  time.Time            // when returns that are over were last removed
}

// admit reports whether a due claim may ask for a slot. A claim that may not waits for its turn in the
// wheel, as long as claims wait for a slot at most, or goes back to the shard. The claim has then
// asked no other copy.
func (d *Dispatcher) admit(rules *destinations.Rules, c *claim) bool {
	d.endTurnWait(c)
	c.most = 0
	if rules == nil {
		return true
	}
	now := time.Now()
	if rules.Paused(c.destination, now) {
		d.gate.refund(c)
		d.metrics.heldPause.Inc()
		c.settle(store.Settlement{Outcome: store.OutcomeRelease, Delay: d.gate.spread(c, rules.Nodes(), now)})
		return false
	}
	share := rules.Share(c.destination)
	c.most = share.Concurrency
	if share.Rate == 0 || c.hasTurn {
		return true
	}
	at, delay := d.gate.take(c, share, rules.Nodes(), now)
	switch {
	case !c.hasTurn:
		d.metrics.heldLimit.Inc()
		c.settle(store.Settlement{Outcome: store.OutcomeRelease, Delay: delay})
		return false
	case !at.After(now):
		return true
	}
	c.awaitsTurn, c.patience = true, now.Add(timing.SlotWait)
	c.lane.credit.ToReceiver(c.weight)
	if !d.wheel.Add(at, turn{claim: c}) {
		d.endTurnWait(c)
		d.gate.refund(c)
		c.settle(store.Settlement{Outcome: store.OutcomeRelease})
	}
	return false
}

// endTurnWait ends the wait for a turn, if c waits.
func (d *Dispatcher) endTurnWait(c *claim) {
	if !c.awaitsTurn {
		return
	}
	c.awaitsTurn = false
	c.lane.credit.FromReceiver(c.weight)
	d.gate.arrived(c)
}

// take takes the first free turn for c if the turn comes soon. Otherwise c has no turn, and should come
// back after delay.
func (g *gate) take(c *claim, share destinations.Share, nodes int, now time.Time) (at time.Time, delay time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	b := g.bucket(c.destination, now)
	b.period = time.Duration(float64(time.Second) / share.Rate)
	at = later(now, b.next.Add(-time.Duration((share.Burst-1)*float64(b.period))))
	wait := at.Sub(now)
	if wait <= 0 || wait <= timing.SlotWait && g.waiting < g.most && b.waiting < max(g.most/4, 1) {
		b.next = later(b.next, now).Add(b.period)
		c.hasTurn = true
		if wait > 0 {
			g.waiting++
			b.waiting++
		}
		return at, 0
	}
	turn := later(at, b.booked.Add(b.period))
	if delay = turn.Sub(now); delay > longestTurn {
		return time.Time{}, g.book(c, nodes, now)
	}
	b.booked = turn
	return time.Time{}, delay
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// bucket returns the bucket of a destination; g.mu is held.
func (g *gate) bucket(name string, now time.Time) *bucket {
	if b := g.buckets[name]; b != nil {
		return b
	}
	if len(g.buckets) >= maxBuckets {
		for other, b := range g.buckets {
			if b.waiting == 0 && b.next.Before(now) {
				delete(g.buckets, other)
			}
		}
	}
	b := &bucket{}
	g.buckets[name] = b
	return b
}

// waitingBy is how many claims of each destination wait for their turns.
func (g *gate) waitingBy() map[string]int {
	g.mu.Lock()
	defer g.mu.Unlock()
	by := make(map[string]int)
	for name, b := range g.buckets {
		if b.waiting > 0 {
			by[name] = b.waiting
		}
	}
	return by
}

// arrived notes that c waits for its turn no longer.
func (g *gate) arrived(c *claim) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waiting--
	if b := g.buckets[c.destination]; b != nil {
		b.waiting--
	}
}

// refund gives back the turn of a claim of which no callback comes, if the claim has a turn.
func (g *gate) refund(c *claim) {
	if !c.hasTurn {
		return
	}
	c.hasTurn = false
	g.mu.Lock()
	defer g.mu.Unlock()
	if b := g.buckets[c.destination]; b != nil {
		b.next = b.next.Add(-b.period)
	}
}

// spread is the delay of a claim of a paused destination.
func (g *gate) spread(c *claim, nodes int, now time.Time) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.book(c, nodes, now)
}

// book is the delay of a claim with no turn in sight: behind the claims of the shard and the
// destination that were put back before. So many claims come again per second as returnsPerSecond
// says, by all nodes and for all destinations together. g.mu is held.
func (g *gate) book(c *claim, nodes int, now time.Time) time.Duration {
	r, first := &c.lane.returns, now.Add(shortestReturn)
	if r.booked == nil {
		r.booked = make(map[string]time.Time)
	}
	if now.Sub(r.swept) > time.Second {
		r.swept = now
		for name, at := range r.booked {
			if at.Before(now) {
				delete(r.booked, name)
			}
		}
	}
	at := later(r.booked[c.destination], first)
	r.booked[c.destination] = at
	step := time.Second / returnsPerSecond * time.Duration(nodes*len(r.booked))
	if at.Sub(now) > longestReturn-step {
		return longestReturn - rand.N(longestReturn/2)
	}
	r.booked[c.destination] = at.Add(step)
	return at.Add(step).Sub(now)
}
