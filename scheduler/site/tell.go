package site

import (
	"context"
	"sync"
	"time"

	"chronos/scheduler/shard"
	"chronos/scheduler/store"
	"chronos/scheduler/timer"
	"chronos/scheduler/timing"
)

const (
	// maxOutcomes is how many outcomes may wait for a site. Further outcomes are dropped: a copy of the site compares before it
	// calls back.
	maxOutcomes = 10_000
	// outcomeBatch is how many outcomes are told together.
	outcomeBatch = 500
)

// Outcome is the outcome of a callback, after it was settled.
type Outcome struct {
	Record *store.Record // the copy before the callback
	After  timer.State
	// Retry is how long until the retry of the pop; 0 for the next pop, or the end.
	Retry   time.Duration
	Failure store.Failure
	LeftOut int
}

// outcomes wait for a site.
type outcomes struct {
	mu      sync.Mutex
	waiting []Outcome
	ready   chan struct{} // has a token when outcomes wait
}

// Told hands on outcomes of callbacks at the timers' home, for the other sites. Told does not wait.
func (s *Sites) Told(all []Outcome) {
	for _, o := range s.all() {
		add(s.metrics.dropped, o.Name, o.outcomes.put(all))
	}
}

// put returns how many outcomes found no place.
func (q *outcomes) put(all []Outcome) (dropped int) {
	q.mu.Lock()
	fit := min(len(all), max(maxOutcomes-len(q.waiting), 0))
	q.waiting = append(q.waiting, all[:fit]...)
	q.mu.Unlock()
	select {
	case q.ready <- struct{}{}:
	default:
	}
	return len(all) - fit
}

func (q *outcomes) take(ctx context.Context) (batch []Outcome) {
	for len(batch) == 0 && ctx.Err() == nil {
		select {
		case <-q.ready:
		case <-ctx.Done():
			return nil
		}
		q.mu.Lock()
		n := min(len(q.waiting), outcomeBatch)
		batch, q.waiting = q.waiting[:n:n], q.waiting[n:]
		more := len(q.waiting) > 0
		q.mu.Unlock()
		if more {
			q.put(nil)
		}
	}
	return batch
}

// tellOutcomes tells a site the outcomes of callbacks, batch after batch, until ctx ends.
func (o *Other) tellOutcomes(ctx context.Context) {
	for {
		batch := o.outcomes.take(ctx)
		if len(batch) == 0 {
			return
		}
		if !o.reached() {
			add(o.s.metrics.dropped, o.Name, len(batch))
			continue
		}
		o.tell(ctx, batch)
	}
}

func (o *Other) tell(ctx context.Context, batch []Outcome) {
	bounded, cancel := o.s.config.Awake.WithTimeout(ctx, timing.CopyPatience)
	defer cancel()
	writes := map[*shard.Shard][]store.Write{}
	for i := range batch {
		id := batch[i].Record.ID
		for _, p := range o.Shards.Places(id.WithoutHint()) {
			if !p.Shard.Away() {
				writes[p.Shard] = append(writes[p.Shard], o.writeOf(&batch[i], p))
			}
		}
	}
	var tells sync.WaitGroup
	for sh, all := range writes {
		tells.Go(func() {
			began := sh.Answers.Begin()
			answers := o.Shards.Store.Tell(bounded, sh.Name, all)
			sh.Answers.Answered(began, answers[0].Err)
		})
	}
	tells.Wait()
}

// writeOf tells an outcome to the copy at a place.
func (o *Other) writeOf(out *Outcome, p shard.Place) store.Write {
	to, offset := p.Copy(out.Record.ID), p.Offset(o.Shards.Spacing(out.Record))
	switch {
	case out.After.Ended:
		end := p.Tombstone(o.s.config, out.After, out.Record.BodyHash)
		end.Life = min(end.Life, timing.YoungLife)
		if !p.Home {
			return store.EndExisting(to, end)
		}
		return store.Done(to, end)
	case out.Retry > 0:
		return store.Again(to, out.After, out.Retry+offset, out.Failure).LeavingOut(out.LeftOut)
	}
	return store.Next(to, out.After, offset, out.Failure).LeavingOut(out.LeftOut)
}
