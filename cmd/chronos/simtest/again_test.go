package simtest

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"chronos/scheduler/awake"
	"chronos/scheduler/verify/history"
)

// Things that stand still for a moment, again and again.
const (
	stallLeast, stallMost = 100 * time.Millisecond, 2500 * time.Millisecond
	stallsApart           = 12 * time.Second // at most
	heldLeast, heldMost   = 20 * time.Millisecond, 400 * time.Millisecond
	heldApart             = time.Second           // at most
	freeLeast             = 50 * time.Millisecond // between two
	// firstRival is above the number of any other client.
	firstRival = 100
	// heldUpBy is how many of these moments may hold a callback up, one after the other.
	heldUpBy = 3
)

// again does something at random moments until what it returns is called, which waits
// for the last time to be over. What is done says for how long, and blocks so long.
func (c *cluster) again(f fault, least, most, apart time.Duration, do func(d time.Duration)) (undo func()) {
	ends := time.Now().Add(f.last)
	ctx, stop := context.WithDeadline(c.t.Context(), ends)
	r := rand.New(rand.NewPCG(f.pick, 4))
	var loop sync.WaitGroup
	loop.Go(func() {
		for awake.Sleep(ctx, freeLeast+time.Duration(r.Int64N(int64(apart)))) {
			amount := r.Float64() // mostly short
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

// beginStalls has a link, or a shard for all nodes, stand still again and again. The
// history tells of each time by itself.
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

// beginBusy has a node be held up again and again, as by other work of its machine. That
// explains a late callback, and no second one.
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

// recordOf records a fault of a shard that ends now. One of a shard that the nodes make
// no use of explains nothing.
func (c *cluster) recordOf(s *shard, h history.Fault) {
	if !c.wasMember(s.name, time.Duration(h.StartNs)) {
		h.Class = history.Harmless
	}
	h.EndNs = int64(c.journal.now())
	c.journal.fault(h)
}

// answersLater is how much of the time for an answer to a callback the fault may take, as
// it begins before the callback arrives, or as the answer is heard late.
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
