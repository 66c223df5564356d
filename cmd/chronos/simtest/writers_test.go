package simtest

import (
	"context"
	"fmt"
	"sync"
	"time"

	"chronos/scheduler"
	"chronos/scheduler/timer"
	"chronos/scheduler/verify/history"
)

// troubled reports whether something is slow, or stands still now and then. Two writes then overlap for
// longer.
func (s *setting) troubled(now time.Duration) bool {
	for _, f := range s.faults {
		switch {
		case f.at > now:
			return false
		case f.at+f.last < now:
		case f.kind == linkStall, f.kind == shardStall, f.kind == linkHang, classOf(f.kind) == history.Slow:
			return true
		}
	}
	return false
}

// contend sends two writes of one timer through two nodes at about the same time, like two independent
// clients.
func (cl *client) contend(ctx context.Context) { cl.race(ctx, cl.pickOrChoose(), cl.choose(ctx, nil)) }

// pickOrChoose is an existing timer, or now and then a timer whose key the client chooses.
func (cl *client) pickOrChoose() timer.ID {
	if len(cl.made) > 0 && cl.r.IntN(4) > 0 {
		return cl.pick()
	}
	id := timer.ID{Key: fmt.Sprintf("own-%d-%d", cl.number, cl.writes+1)}
	cl.made = append(cl.made, id) // the timer may exist even if no answer says so
	return id
}

// race is contend about the given timer, with the first write through the given node.
func (cl *client) race(ctx context.Context, id timer.ID, first *machine) {
	requests := [2]request{cl.anyChange(id), cl.anyChange(id)}
	if cl.asks.IntN(4) == 0 {
		requests = cl.rivals(id)
	}
	second := cl.choose(ctx, first)
	if first == nil || second == nil {
		return
	}
	apart := cl.between(0, 150*time.Millisecond)
	if cl.r.IntN(4) == 0 {
		apart = 0
	}
	var both sync.WaitGroup
	for i, m := range []*machine{first, second} {
		both.Go(func() {
			time.Sleep(time.Duration(i) * apart)
			if cl.perform(ctx, m, &requests[i]); requests[i].Node != "" {
				cl.c.journal.operation(requests[i].Operation)
			}
		})
	}
	both.Wait()
}

// rivals are two PUTs that ask for the same version, or for the absence of the timer.
func (cl *client) rivals(id timer.ID) [2]request {
	cond, asks := timer.Condition{Absent: true}, "absent"
	if version := cl.version(id); version != 0 {
		cond, asks = timer.Condition{OneOf: []timer.Version{version}}, version.String()
	}
	return [2]request{cl.replacementIf(id, cl.draw(), cond, asks), cl.replacementIf(id, cl.draw(), cond, asks)}
}

// rival is a client whose writes race whenever a link or a shard stands still. Ordinary clients would seldom
// do so.
type rival struct {
	cl   *client
	busy sync.Mutex
}

// raceNow starts a race unless the rival still races. The first write goes through the given node, or any
// node if nil. Then the rival makes the timer for the next race.
func (v *rival) raceNow(ctx context.Context, first *machine) {
	c := v.cl.c
	if !v.busy.TryLock() {
		return
	}
	c.operators.Go(func() {
		defer v.busy.Unlock()
		if first == nil {
			first = v.cl.choose(ctx, nil)
		}
		v.cl.race(ctx, v.cl.pickOrChoose(), first)
		v.cl.create(ctx)
	})
}

// anyChange is a DELETE or a PUT of a timer.
func (cl *client) anyChange(id timer.ID) request {
	if cl.r.IntN(3) == 0 {
		return cl.deletion(id)
	}
	if cl.asks.IntN(3) == 0 {
		return cl.patch(id)
	}
	return cl.replacementOf(id, cl.draw())
}

// change asks for a write. Now and then the client waits only a short time for the answer. Then the client
// sends another write of the timer through another node at once.
func (cl *client) change(ctx context.Context, q request) {
	if cl.r.IntN(3) > 0 {
		cl.write(ctx, q)
		return
	}
	limit := cl.between(300*time.Millisecond, time.Second)
	next := cl.anyChange(q.id)
	m := cl.choose(ctx, nil)
	if m == nil || cl.answered(ctx, m, q, limit) {
		return
	}
	if other := cl.choose(ctx, m); other != nil {
		if cl.perform(ctx, other, &next); next.Node != "" {
			cl.c.journal.operation(next.Operation)
		}
	}
}

// answered asks a node for a write and reports whether the client has waited for the answer. The client does
// not hear a later answer. A paused node begins the write on waking, so the write is recorded once the begin
// is known.
func (cl *client) answered(ctx context.Context, m *machine, q request, limit time.Duration) bool {
	answer := make(chan history.Operation, 1)
	cl.left.Go(func() {
		cl.perform(ctx, m, &q)
		answer <- q.Operation
	})
	select {
	case o := <-answer:
		if o.Node != "" {
			cl.c.journal.operation(o)
		}
		return true
	case <-time.After(limit):
		cl.left.Go(func() {
			if o := <-answer; o.Node != "" {
				o.ReturnNs, o.Outcome, o.Status, o.Answer = -1, history.Unknown, 0, nil
				cl.c.journal.operation(o)
			}
		})
		return false
	}
}

// createMany creates some timers by one request, half of the time with an idempotency key.
func (cl *client) createMany(ctx context.Context) {
	all := make([]timer.Creation, 2+cl.r.IntN(10))
	operations := make([]history.Operation, len(all))
	once := cl.r.IntN(2) == 0
	for i := range all {
		t := cl.draw()
		all[i].Timer = t
		if once {
			all[i].IdempotencyKey, all[i].Body = fmt.Sprintf("many-%d-%d", cl.number, cl.writes), []byte(t.Callback.Opaque)
		}
		operations[i] = history.Operation{Kind: history.Create, Timer: cl.asked(t), IdempotencyKey: all[i].IdempotencyKey}
	}
	m := cl.choose(ctx, nil)
	if m == nil {
		return
	}
	o := history.Operation{}
	heard := cl.ask(m, &o, func(s *scheduler.Scheduler) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerWithin)
		defer cancel()
		s.CreateAll(ctx, all)
	})
	if o.Node == "" {
		return
	}
	for i := range all {
		each := &operations[i]
		each.Node, each.InvokeNs, each.ReturnNs, each.Outcome = o.Node, o.InvokeNs, o.ReturnNs, history.Unknown
		if heard {
			each.Outcome, each.Status = outcomeOf(all[i].Err)
		}
		if each.Outcome == history.OK {
			each.Answer = answerOf(&all[i].Receipt)
			cl.made = append(cl.made, all[i].Receipt.ID)
		}
		cl.c.journal.operation(*each)
	}
}
