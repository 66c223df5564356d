package kafka

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"chronos/scheduler/awake"
	"chronos/scheduler/kafka/message"
	"chronos/scheduler/kafka/output"
	"chronos/scheduler/replica"
	"chronos/scheduler/timer"
)

// batch is some records that a partition's worker has in hand, in their order.
type batch struct {
	records    []*kgo.Record
	messages   []message.Message
	admissions []replica.Admission
}

func (b *batch) add(r *kgo.Record, m *message.Message, a replica.Admission) {
	b.records, b.messages, b.admissions = append(b.records, r), append(b.messages, *m), append(b.admissions, a)
}

func (b *batch) has(id string) bool {
	return slices.ContainsFunc(b.messages, func(m message.Message) bool { return m.ID == id })
}

// handle has every record stored, published, or sent to the dead letters. A record without an outcome
// on return is pending: the offset is done when the promise is kept.
func (p *partition) handle(ctx context.Context, records []*kgo.Record) {
	now := time.Now()
	var early, late batch
	flush := func() {
		p.store(ctx, &early)
		p.publish(ctx, &late)
		early, late = batch{}, batch{}
	}
	for _, r := range records {
		m, wrong := message.Parse(r, now)
		if wrong != nil {
			p.bury(ctx, r, wrong)
			continue
		}
		a := p.in.bridge.admission(&m)
		if late.has(m.ID) { // the outcome of the earlier message decides about this message
			flush()
		}
		switch {
		case p.in.late.taken(&a):
			p.duplicate(r)
		case a.Timer.At.After(now):
			early.add(r, &m, a)
		default:
			late.add(r, &m, a)
		}
	}
	flush()
}

func (p *partition) duplicate(r *kgo.Record) {
	p.in.bridge.metrics.admitted(replica.StandingDuplicate)
	p.marks.done(r.Offset)
}

// store has messages wait in timers, however many tries are needed. Messages that never can wait go to
// the dead letters.
func (p *partition) store(ctx context.Context, b *batch) {
	for _, i := range p.admit(ctx, b) {
		why, _ := invalid(b.admissions[i].Err)
		p.bury(ctx, b.records[i], why)
	}
}

// admit has messages wait in timers, and returns the messages that never can.
func (p *partition) admit(ctx context.Context, b *batch) (refused []int) {
	p.insist(ctx, b, p.in.timers.Admit, func(i int) {
		if b.admissions[i].Err != nil {
			refused = append(refused, i)
			return
		}
		p.in.bridge.metrics.admitted(b.admissions[i].Standing)
		p.marks.done(b.records[i].Offset)
	})
	return refused
}

// publish publishes messages that came late, except messages whose id waits or fires, and messages that
// were published before. A message that the brokers don't take is stored in a timer, so that nothing
// waits behind the message.
func (p *partition) publish(ctx context.Context, b *batch) {
	var fresh []int
	p.insist(ctx, b, p.in.timers.Known, func(i int) {
		standing := b.admissions[i].Standing
		if standing != replica.StandingNew {
			p.in.bridge.metrics.admitted(standing)
			p.marks.done(b.records[i].Offset)
			return
		}
		fresh = append(fresh, i)
	})
	for _, i := range fresh {
		p.publishLate(ctx, b.records[i], &b.messages[i], b.admissions[i])
	}
}

// publishLate publishes a message as soon as the room has space.
func (p *partition) publishLate(ctx context.Context, r *kgo.Record, m *message.Message, a replica.Admission) {
	if !p.in.late.take(&a) { // taken for another partition since handle looked
		p.duplicate(r)
		return
	}
	if !p.begin(ctx, r) {
		p.in.late.free(&a)
		return
	}
	came := time.Now()
	p.in.bridge.output.Publish(m, func(err error) {
		if err == nil {
			p.in.bridge.metrics.consumed.WithLabelValues(asLate).Inc()
			p.in.bridge.metrics.late.Observe(time.Since(came).Seconds())
			p.in.published <- published{p, a, r} // never full: every message in it has a share of in.room
			return
		}
		go p.storeLate(ctx, r, m, a) // ends with ctx
	})
}

// storeLate has a message wait in a timer that the brokers didn't take.
func (p *partition) storeLate(ctx context.Context, r *kgo.Record, m *message.Message, a replica.Admission) {
	b := batch{[]*kgo.Record{r}, []message.Message{*m}, []replica.Admission{a}}
	p.admit(ctx, &b)
	p.in.late.free(&a)
	if why, ok := invalid(b.admissions[0].Err); ok {
		p.complain(r, why)
		p.send(ctx, r, why, minPause) // the record has its room already
		return
	}
	p.finish(r)
}

// begin waits until one more record may be on its way to the brokers, and reports whether ctx lasted.
// The record is then pending until finish.
func (p *partition) begin(ctx context.Context, r *kgo.Record) bool {
	if !p.in.room.enter(ctx, sizeOf(r)) {
		return false
	}
	p.pending.Add(1)
	p.in.pending.Add(1)
	return true
}

func (p *partition) finish(r *kgo.Record) {
	signal(p.ready) // the offset may be done
	p.in.room.exit(sizeOf(r))
	p.pending.Done()
	p.in.pending.Done()
}

// over is finish for a record that is done.
func (p *partition) over(r *kgo.Record) {
	p.marks.done(r.Offset)
	p.finish(r)
}

// bury sends a record that can't be delayed to the dead letters, if configured.
func (p *partition) bury(ctx context.Context, r *kgo.Record, why *message.Fault) {
	p.complain(r, why)
	if p.in.bridge.config.DeadLetters == "" {
		p.marks.done(r.Offset)
		return
	}
	if p.begin(ctx, r) {
		p.send(ctx, r, why, minPause)
	}
}

func (p *partition) complain(r *kgo.Record, why *message.Fault) {
	p.in.bridge.metrics.malformed.WithLabelValues(why.Reason).Inc()
	p.in.bridge.complaints.malformed.about(r, "reason", why.Reason, "detail", why.Advice)
}

// send sends a dead letter until the brokers have taken the dead letter, or never will.
func (p *partition) send(ctx context.Context, r *kgo.Record, why *message.Fault, pause time.Duration) {
	if p.in.bridge.config.DeadLetters == "" {
		p.over(r)
		return
	}
	p.in.bridge.output.Bury(r, why, func(err error) {
		switch {
		case err == nil:
			p.over(r)
		case output.Refused(err):
			p.in.bridge.metrics.deadRefused.Inc()
			p.in.bridge.complaints.refused.about(r, "err", err)
			p.over(r)
		default:
			p.in.bridge.complaints.unburied.say("err", p.in.bridge.config.advised(p.in.bridge.config.DeadLetters, err))
			go func() { // ends with ctx
				if !awake.Sleep(ctx, pause) {
					p.finish(r)
					return
				}
				p.send(ctx, r, why, min(2*pause, maxPause))
			}()
		}
	})
}

// Pauses between two tries.
const (
	minPause = 100 * time.Millisecond
	maxPause = 2 * time.Second
)

// insist asks about the whole batch until every message has an answer or ctx ends, and calls then for
// every answer. After a failure insist asks about half as many messages at once, since a slow link may
// carry fewer messages in time. Meanwhile the partition is paused.
func (p *partition) insist(ctx context.Context, b *batch, ask func(context.Context, []replica.Admission), then func(i int)) {
	left := make([]int, len(b.admissions))
	for i := range left {
		left[i] = i
	}
	stuck := false
	defer func() {
		if stuck {
			p.unstick(len(left) == 0)
		}
	}()
	pause := minPause
	for n := len(left); len(left) > 0 && ctx.Err() == nil; {
		n = min(max(n, 1), len(left))
		some := left[:n]
		failed, why := p.ask(ctx, b, some, ask, then)
		left = append(left[n:], failed...)
		if len(failed) == 0 {
			n, pause = 2*n, minPause
			continue
		}
		if ctx.Err() != nil {
			return
		}
		if !stuck {
			stuck = true
			p.stick(why)
		}
		if !awake.Sleep(ctx, pause-rand.N(pause/4)) {
			return
		}
		n, pause = n/2, min(2*pause, maxPause)
	}
}

// ask asks about some messages of the batch, calls then for every answer, and returns the messages
// without an answer.
func (p *partition) ask(ctx context.Context, b *batch, some []int, ask func(context.Context, []replica.Admission), then func(i int)) (failed []int, why error) {
	admissions, size := make([]replica.Admission, len(some)), 0
	for k, i := range some {
		admissions[k] = b.admissions[i]
		size += sizeOf(b.records[i])
	}
	if !p.in.store.enter(ctx, size) {
		return some, ctx.Err()
	}
	ask(ctx, admissions)
	p.in.store.exit(size)
	for k, i := range some {
		b.admissions[i] = admissions[k]
		err := admissions[k].Err
		if _, final := invalid(err); err != nil && !final {
			failed, why = append(failed, i), err
			continue
		}
		then(i)
	}
	return failed, why
}

// invalid is the fault of a message by an error of the timers. ok says that the timers would refuse
// again.
func invalid(err error) (why *message.Fault, ok bool) {
	e, ok := errors.AsType[*timer.InvalidError](err)
	if !ok {
		return nil, false
	}
	return &message.Fault{Reason: "invalid", Advice: "timers refuse it: " + e.Detail}, true
}
