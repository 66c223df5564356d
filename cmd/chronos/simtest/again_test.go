package simtest

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"chronos/scheduler/awake"
	"chronos/scheduler/verify/history"
)

// Lengths of repeated short stops, and of the time between two stops.
const (
	stallLeast, stallMost = 100 * time.Millisecond, 2500 * time.Millisecond
	stallsApart           = 12 * time.Second // at most
	heldLeast, heldMost   = 20 * time.Millisecond, 400 * time.Millisecond
	heldApart             = time.Second           // at most
	freeLeast             = 50 * time.Millisecond // between two stops
	// firstRival is larger than the number of any ordinary client.
	firstRival = 100
	// heldUpBy is how many stops in a row may hold up a callback.
	heldUpBy = 3
)

// again calls do at random moments for as long as the fault lasts. undo waits until the last call is over. do
// blocks for the length d of the stop.
func (c *cluster) again(f fault, least, most, apart time.Duration, do func(d time.Duration)) (undo func()) {
	ends := time.Now().Add(f.last)
	ctx, stop := context.WithDeadline(c.t.Context(), ends)
	r := rand.New(rand.NewPCG(f.pick, 4))
	var loop sync.WaitGroup
	loop.Go(func() {
		for awake.Sleep(ctx, freeLeast+time.Duration(r.Int64N(int64(apart)))) {
			amount := r.Float64() // most stops are short, since the amount is squared
			if d := min(least+time.Duration(amount*amount*float64(most-least)), time.Until(ends)); d > 0 {
				do(d)
			}
		}
	})
	return func() {
		loop.Wait()
		stop()
	}
}

// beginStalls stops a link, or a shard for all nodes, again and again. The history records every stop as a
// fault.
func (c *cluster) beginStalls(index int, f fault, m *machine) (undo func()) {
	s := c.shards[f.shard]
	racing := &rival{cl: newClient(c, firstRival+index)}
	racing.raceNow(c.t.Context(), nil)
	return c.again(f, stallLeast, stallMost, stallsApart, func(d time.Duration) {
		h := history.Fault{Kind: string(f.kind), Class: history.ShardAway, Shard: s.name, StartNs: int64(c.journal.now())}
		if m != nil {
			h.Class, h.Node = history.LinkCut, m.name
			m.links[s.name].stall(d)
			racing.raceNow(c.t.Context(), m)
			time.Sleep(d)
		} else {
			resume := s.pause()
			racing.raceNow(c.t.Context(), nil)
			time.Sleep(d)
			resume()
		}
		if d < bound { // no call is given up
			h.Class, h.LateMs = history.Slow, heldUpBy*d.Milliseconds()
		}
		c.recordOf(s, h)
	})
}

// beginBusy holds a node up again and again, as other work on the machine would. The fault explains a late
// callback, but no second callback.
func (c *cluster) beginBusy(f fault, m *machine) (undo func()) {
	begun := c.journal.now()
	end := c.again(f, heldLeast, heldMost, heldApart, func(d time.Duration) {
		resume := m.pause()
		time.Sleep(d)
		resume()
	})
	return func() {
		end()
		c.journal.fault(history.Fault{
			Kind: string(f.kind), Class: history.Slow, Node: m.name, StartNs: int64(begun), EndNs: int64(c.journal.now()),
			LateMs: heldUpBy * heldMost.Milliseconds(),
		})
	}
}

// recordOf records a fault of a shard that ends now. The fault explains nothing if no node uses the shard.
func (c *cluster) recordOf(s *shard, h history.Fault) {
	if !c.wasMember(s.name, time.Duration(h.StartNs)) {
		h.Class = history.Harmless
	}
	h.EndNs = int64(c.journal.now())
	c.journal.fault(h)
}

// answersLater is how much of a callback's answer time the fault may take. The fault may begin before the
// callback arrives, or may delay the answer.
func (f fault) answersLater() time.Duration {
	switch {
	case f.kind == linkLate:
		return f.by
	case f.kind == nodeBusy:
		return heldMost
	case f.kind == linkStall, f.kind == shardStall:
		return bound
	case classOf(f.kind) == history.Slow:
		return 4 * f.by
	default:
		return 0
	}
}
