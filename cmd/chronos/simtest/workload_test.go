package simtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"chronos/scheduler"
	"chronos/scheduler/history"
)

// client asks nodes for timers, one operation after another, each of its own
// timers alone.
type client struct {
	number int
	r      *rand.Rand
	c      *cluster
	made   []scheduler.ID // timers that it may know of
	writes int
}

func newClient(c *cluster, number int) *client {
	return &client{number: number, c: c, r: rand.New(rand.NewPCG(c.setting.seed, uint64(100+number)))}
}

// run asks until ctx ends.
func (cl *client) run(ctx context.Context) {
	for sleep(ctx, time.Duration(cl.r.ExpFloat64()*float64(cl.c.setting.think))) {
		switch draw := cl.r.IntN(100); {
		case draw < 55 || len(cl.made) == 0:
			cl.create(ctx)
		case draw < 65:
			cl.createOnce(ctx)
		case draw < 80:
			cl.replace(ctx)
		case draw < 92:
			cl.delete(ctx)
		default:
			cl.get(ctx)
		}
	}
}

// draw is a timer with a URL of its own.
func (cl *client) draw() scheduler.Timer {
	cl.writes++
	unique := fmt.Sprintf("%d-%d", cl.number, cl.writes)
	t := scheduler.Timer{
		ReplicationFactor: 1 + cl.r.IntN(3),
		Callback:          scheduler.Callback{URI: urlOf(cl.drawEndpoint(), unique), Opaque: "body of " + unique},
	}
	t.Tags = tagsOf(cl.writes)
	switch draw := cl.r.IntN(100); {
	case draw < 3 && cl.c.setting.spares > 0:
		t.Interval = lasting
	case draw < 20:
		t.Interval = cl.between(0, time.Second)
	case draw < 60:
		t.Interval = cl.between(time.Second, 15*time.Second)
	case draw < 75:
		t.Interval = cl.between(15*time.Second, longest)
	case draw < 80 && cl.c.setting.instants:
		t.At = time.Now().Add(cl.between(-time.Second, 20*time.Second)).Truncate(time.Millisecond)
	default:
		t.Interval = cl.between(scheduler.MinRecurringInterval, 8*time.Second)
		pops := min(2+cl.r.IntN(9), int(longest/t.Interval))
		t.RepeatFor = time.Duration(pops) * t.Interval
	}
	return t
}

func (cl *client) between(least, most time.Duration) time.Duration {
	return (least + time.Duration(cl.r.Int64N(int64(most-least)))).Truncate(time.Millisecond)
}

func (cl *client) drawEndpoint() string {
	switch draw := cl.r.IntN(100); {
	case draw < 60:
		return promptly
	case draw < 75:
		return slowly
	case draw < 87:
		return flakily
	case draw < 93:
		return hanging
	case draw < 96:
		return never
	}
	return gone
}

func (cl *client) asked(t scheduler.Timer) *history.Asked {
	a := &history.Asked{
		IntervalMs: t.Interval.Milliseconds(), RepeatForMs: t.RepeatFor.Milliseconds(), Pops: t.Pops(), RF: t.ReplicationFactor,
		URL: t.Callback.URI, BodyHash: hashOf(t.Callback.Opaque),
	}
	if !t.At.IsZero() {
		at := int64(t.At.Sub(cl.c.journal.start))
		a.AtNs = &at
	}
	return a
}

func (cl *client) create(ctx context.Context) {
	t := cl.draw()
	receipt, ok := cl.write(ctx, history.Operation{Kind: history.Create, Timer: cl.asked(t)}, func(s *scheduler.Scheduler) (scheduler.Receipt, error) {
		return s.Create(context.WithoutCancel(ctx), t)
	})
	if ok {
		cl.made = append(cl.made, receipt.ID)
	}
}

// createOnce creates with an idempotency key, and half of the time does it again.
func (cl *client) createOnce(ctx context.Context) {
	t := cl.draw()
	key := fmt.Sprintf("once-%d-%d", cl.number, cl.writes)
	for {
		receipt, ok := cl.write(ctx, history.Operation{Kind: history.Create, Timer: cl.asked(t), IdempotencyKey: key}, func(s *scheduler.Scheduler) (scheduler.Receipt, error) {
			return s.CreateOnce(context.WithoutCancel(ctx), key, []byte(t.Callback.Opaque), t)
		})
		if ok {
			cl.made = append(cl.made, receipt.ID)
		}
		if cl.r.IntN(2) == 0 || !sleep(ctx, cl.between(0, 3*time.Second)) {
			return
		}
	}
}

func (cl *client) replace(ctx context.Context) {
	t, id := cl.draw(), cl.pick()
	if cl.r.IntN(6) == 0 {
		id = scheduler.ID{Key: fmt.Sprintf("own-%d-%d", cl.number, cl.writes)}
		cl.made = append(cl.made, id) // it may exist even if no answer says so
	}
	if t.ReplicationFactor = id.RF; id.RF == 0 {
		t.ReplicationFactor = 0
	}
	asked := cl.asked(t)
	cl.write(ctx, history.Operation{Kind: history.Replace, ID: id.String(), Key: id.Key, Timer: asked}, func(s *scheduler.Scheduler) (scheduler.Receipt, error) {
		return s.Replace(context.WithoutCancel(ctx), id, t)
	})
}

func (cl *client) delete(ctx context.Context) {
	id := cl.pick()
	cl.write(ctx, history.Operation{Kind: history.Delete, ID: id.String(), Key: id.Key}, func(s *scheduler.Scheduler) (scheduler.Receipt, error) {
		return s.Delete(context.WithoutCancel(ctx), id)
	})
}

// pick is one of the last few timers: most of the others are over.
func (cl *client) pick() scheduler.ID {
	const few = 8
	return cl.made[len(cl.made)-1-cl.r.IntN(min(few, len(cl.made)))]
}

func (cl *client) get(ctx context.Context) {
	id := cl.pick()
	o := history.Operation{Kind: history.Get, ID: id.String(), Key: id.Key}
	cl.ask(ctx, &o, func(s *scheduler.Scheduler) {
		found, err := s.Lookup(context.WithoutCancel(ctx), id)
		o.Outcome, o.Status = outcomeOf(err)
		switch {
		case errors.Is(err, scheduler.ErrNotFound):
			o.Outcome, o.Status = history.OK, http.StatusNotFound
		case err == nil:
			o.Read = &history.Read{
				Seq: found.Record.State.Seq, State: stateOf(&found),
				URL: found.Record.Timer.Callback.URI, BodyHash: hashOf(found.Record.Timer.Callback.Opaque),
			}
		}
	})
}

func stateOf(found *scheduler.ReadResult) string {
	switch {
	case found.Leased:
		return "leased"
	case found.Record.State.Attempt > 0:
		return "retrying"
	}
	return "waiting"
}

// write asks a node for a write and records what came of it.
func (cl *client) write(ctx context.Context, o history.Operation, do func(*scheduler.Scheduler) (scheduler.Receipt, error)) (receipt scheduler.Receipt, ok bool) {
	heard := cl.ask(ctx, &o, func(s *scheduler.Scheduler) {
		var err error
		receipt, err = do(s)
		if o.Outcome, o.Status = outcomeOf(err); err != nil {
			return
		}
		o.Answer = &history.Answer{
			ID: receipt.ID.String(), Key: receipt.ID.Key, Copies: receipt.Copies, InFlight: receipt.InFlight, Unreached: receipt.Unreached,
		}
		if !receipt.Due.IsZero() {
			o.Answer.DueMs = receipt.Due.UnixMilli()
		}
	})
	return receipt, heard && o.Outcome == history.OK
}

// ask asks one node that is up, and records the operation. It reports whether an
// answer was heard.
func (cl *client) ask(ctx context.Context, o *history.Operation, do func(*scheduler.Scheduler)) bool {
	m := cl.c.machines[cl.r.IntN(len(cl.c.machines))]
	for tries := 0; !m.up(); tries++ {
		if tries >= len(cl.c.machines) && !sleep(ctx, 100*time.Millisecond) {
			return false
		}
		m = cl.c.machines[cl.r.IntN(len(cl.c.machines))]
	}
	o.Node, o.InvokeNs = m.name, int64(cl.c.journal.now())
	heard, err := m.ask(do)
	if err != nil {
		return false
	}
	o.ReturnNs = int64(cl.c.journal.now())
	if !heard {
		o.ReturnNs, o.Outcome, o.Status, o.Answer, o.Read = -1, history.Unknown, 0, nil, nil
	}
	cl.c.journal.operation(*o)
	return heard
}

// outcomeOf is an error as the HTTP edge tells of it.
func outcomeOf(err error) (history.Outcome, int) {
	_, invalid := errors.AsType[*scheduler.InvalidError](err)
	switch {
	case err == nil:
		return history.OK, http.StatusOK
	case invalid:
		return history.Failed, http.StatusBadRequest
	case errors.Is(err, scheduler.ErrKeyReused):
		return history.Failed, http.StatusUnprocessableEntity
	case errors.Is(err, scheduler.ErrNotFound):
		return history.Failed, http.StatusNotFound
	case errors.Is(err, scheduler.ErrOvertaken):
		return history.Unknown, http.StatusConflict
	}
	return history.Unknown, http.StatusServiceUnavailable
}
