package kafka

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"chronos/scheduler"
)

// batch is what a partition's worker has in hand: some records, in their order.
type batch struct {
	records    []*kgo.Record
	messages   []Message
	admissions []scheduler.Admission
}

func (b *batch) add(r *kgo.Record, m *Message, a scheduler.Admission) {
	b.records, b.messages, b.admissions = append(b.records, r), append(b.messages, *m), append(b.admissions, a)
}

func (b *batch) has(id string) bool {
	return slices.ContainsFunc(b.messages, func(m Message) bool { return m.ID == id })
}

// handle has each record stored, published, or buried. What is not yet when it
// returns is pending: its offset is done when its promise is kept.
func (p *partition) handle(ctx context.Context, records []*kgo.Record) {
	now := time.Now()
	var early, late batch
	for _, r := range records {
		m, wrong := parse(r, now)
		if wrong != nil {
			p.bury(ctx, r, wrong)
			continue
		}
		a := p.in.bridge.admission(&m)
		switch {
		case !a.Timer.At.After(now):
			late.add(r, &m, a)
		case late.has(m.ID): // stored first, it would make the one before it a duplicate
			p.store(ctx, &early)
			p.publish(ctx, &late)
			early, late = batch{}, batch{}
			fallthrough
		default:
			early.add(r, &m, a)
		}
	}
	p.store(ctx, &early)
	p.publish(ctx, &late)
}

// store has messages wait in timers, however often that has to be tried.
func (p *partition) store(ctx context.Context, b *batch) {
	p.insist(ctx, b, p.in.timers.Admit, func(i int) {
		p.in.bridge.metrics.admitted(b.admissions[i].Standing)
		p.marks.done(b.messages[i].From.Offset)
	})
}

// publish publishes messages that were late when they came, but for those whose id
// waits or fires, and those that were published before. One that the brokers won't
// take goes the way of the others, so that nothing waits behind it.
func (p *partition) publish(ctx context.Context, b *batch) {
	var acknowledged []int
	p.insist(ctx, b, p.in.timers.Known, func(i int) {
		standing := b.admissions[i].Standing
		if standing != scheduler.StandingNew {
			p.in.bridge.metrics.admitted(standing)
			p.marks.done(b.messages[i].From.Offset)
			return
		}
		acknowledged = append(acknowledged, i)
	})
	for _, i := range acknowledged {
		p.publishLate(ctx, b.records[i], &b.messages[i], b.admissions[i])
	}
}

// publishLate publishes one, as soon as there is room for it.
func (p *partition) publishLate(ctx context.Context, r *kgo.Record, m *Message, a scheduler.Admission) {
	if !p.begin(ctx, r) {
		return
	}
	came := time.Now()
	p.in.bridge.output.publish(m, func(err error) {
		if err == nil {
			p.in.bridge.metrics.consumed.WithLabelValues(asLate).Inc()
			p.in.bridge.metrics.late.Observe(time.Since(came).Seconds())
			p.in.published <- published{p, a, r} // there is room: each has some of in.room
			return
		}
		go func() { // ends with ctx
			defer p.finish(r)
			p.store(ctx, &batch{messages: []Message{*m}, admissions: []scheduler.Admission{a}})
		}()
	})
}

// begin waits until one more record may be on its way to the brokers, and reports
// whether ctx lasted. Then it is pending until finish.
func (p *partition) begin(ctx context.Context, r *kgo.Record) bool {
	if !p.in.room.enter(ctx, sizeOf(r)) {
		return false
	}
	p.pending.Add(1)
	p.in.pending.Add(1)
	return true
}

func (p *partition) finish(r *kgo.Record) {
	signal(p.ready) // it may be done
	p.in.room.exit(sizeOf(r))
	p.pending.Done()
	p.in.pending.Done()
}

// over ends what begin began: the record was acknowledged.
func (p *partition) over(r *kgo.Record) {
	p.marks.done(r.Offset)
	p.finish(r)
}

// bury has a record that can't be delayed go to the dead letters, if there is a
// topic for them.
func (p *partition) bury(ctx context.Context, r *kgo.Record, why *malformed) {
	p.in.bridge.metrics.malformed.WithLabelValues(why.Reason).Inc()
	p.in.bridge.complaints.malformed.about(r, "reason", why.Reason, "detail", why.Error())
	if p.in.bridge.output.deadLetters == "" {
		p.marks.done(r.Offset)
		return
	}
	if p.begin(ctx, r) {
		p.send(ctx, r, why, minPause)
	}
}

// send sends a dead letter until the brokers have taken it, or never will.
func (p *partition) send(ctx context.Context, r *kgo.Record, why *malformed, pause time.Duration) {
	p.in.bridge.output.bury(r, why, func(err error) {
		switch {
		case err == nil:
			p.over(r)
		case refused(err):
			p.in.bridge.complaints.refused.about(r, "err", err)
			p.over(r)
		default:
			p.in.bridge.complaints.unburied.say("err", p.in.bridge.config.advised(p.in.bridge.config.DeadLetters, err))
			go func() { // ends with ctx
				if !sleep(ctx, pause) {
					p.finish(r)
					return
				}
				p.send(ctx, r, why, min(2*pause, maxPause))
			}()
		}
	})
}

// Pauses between two tries at what the store did not take.
const (
	minPause = 100 * time.Millisecond
	maxPause = 2 * time.Second
)

// insist asks about all of the batch until each has an answer or ctx ends, and tells
// then of each. Meanwhile the partition is paused.
func (p *partition) insist(ctx context.Context, b *batch, ask func(context.Context, []scheduler.Admission), then func(i int)) {
	left, of := b.admissions, make([]int, len(b.admissions))
	for i := range of {
		of[i] = i
	}
	stuck := false
	defer func() {
		if stuck {
			p.unstick(len(left) == 0)
		}
	}()
	for pause := minPause; len(left) > 0 && ctx.Err() == nil; pause = min(2*pause, maxPause) {
		ask(ctx, left)
		var again []scheduler.Admission
		var still []int
		var why error
		for k := range left {
			b.admissions[of[k]] = left[k]
			if err := left[k].Err; err != nil {
				again, still, why = append(again, left[k]), append(still, of[k]), err
				continue
			}
			then(of[k])
		}
		if left, of = again, still; len(left) == 0 || ctx.Err() != nil {
			return
		}
		if !stuck {
			stuck = true
			p.stick(why)
		}
		if !sleep(ctx, pause-rand.N(pause/4)) {
			return
		}
	}
}

// sleep waits for d and reports whether ctx lasted.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
