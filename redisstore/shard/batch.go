package shard

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"chronos/scheduler/timer"
)

// batcher is group commit: jobs that arrive during a flush go out together in the next flush. A lone write waits
// for nobody, and in a flood many writes share one round trip.
type batcher struct {
	jobs  chan Job
	ended chan struct{} // closed by drain
	flush func([]*Item)
	late  time.Duration
	turns chan struct{} // has a token for each flusher at work
	more  chan struct{} // the same for the additional flushers, which begin when answers come late
	took  atomic.Int64  // how long the last flush took, ns
	done  sync.WaitGroup
}

// Job is the items of one caller, who waits until the items are flushed. A caller that has given up no longer looks
// at the items. A Job given up before the flush is not sent.
type Job struct {
	ctx   context.Context
	items []*Item
	done  chan struct{}
}

// ErrClosed is the error of items for a shard that this process has closed.
var ErrClosed = errors.New("the shard is closed")

const (
	maxQueuedJobs = 16384
	maxFlushBytes = 4 << 20 // about: a flush must not take longer than the shard may keep silent
	flushers      = 2       // Redis works on one flush while the next flush is put together
	// If answers come late, more flushes go out: a write must not wait for the answer to an earlier write and then
	// for its own.
	moreFlushers  = 14
	flushPatience = 10 * time.Millisecond
	// A shard of another site answers late always: the first half of the flushes goes out at once, the rest spreads
	// over the time of an answer.
	farFlushers = 62
	farPatience = time.Millisecond
)

// newBatcher starts a batcher; drain ends the batcher. A flush longer than late lets additional flushes go out, more at most.
func newBatcher(flush func([]*Item), late time.Duration, more int) *batcher {
	b := &batcher{
		jobs: make(chan Job, maxQueuedJobs), ended: make(chan struct{}), flush: flush, late: late,
		turns: make(chan struct{}, flushers), more: make(chan struct{}, more),
	}
	b.done.Go(b.run)
	return b
}

// drain flushes the queue and returns afterwards. Later items are refused.
func (b *batcher) drain() {
	close(b.ended)
	b.done.Wait()
}

// Submit queues items for the next flush. After an error of Wait or Submit the effect of the items is unknown, and
// the caller must not look at the items. Errors: timer.ErrOverloaded for a full queue, ErrClosed after Close.
func (b *batcher) Submit(ctx context.Context, items []*Item) (Job, error) {
	select {
	case <-b.ended:
		return Job{}, ErrClosed
	default:
	}
	j := Job{ctx: ctx, items: items, done: make(chan struct{})}
	select {
	case b.jobs <- j:
		return j, nil
	default:
		return Job{}, timer.ErrOverloaded
	}
}

// Wait returns when the items are flushed or the Job's ctx has ended.
func (j Job) Wait() error {
	select {
	case <-j.done:
		return nil
	case <-j.ctx.Done():
	}
	select {
	case <-j.done: // in time, while the caller waited for another shard
		return nil
	default:
		return j.ctx.Err()
	}
}

func (b *batcher) run() {
	for {
		turns := b.turn()
		first, more := b.first()
		if !more {
			return
		}
		jobs, items := b.gather(first)
		b.done.Go(func() {
			defer func() { <-turns }()
			if len(items) > 0 {
				began := time.Now()
				b.flush(items)
				b.took.Store(int64(time.Since(began)))
			}
			for _, j := range jobs {
				close(j.done)
			}
		})
	}
}

// turn waits until another flush may go out, and returns the channel from which to give the turn back.
func (b *batcher) turn() (turns chan struct{}) {
	select {
	case b.turns <- struct{}{}:
		return b.turns
	default:
	}
	if b.late == farPatience && len(b.more) < cap(b.more)/2 {
		select {
		case b.more <- struct{}{}:
			return b.more
		default:
		}
	}
	// The turns spread over the time that an answer takes. Taken all at once, the turns would all be busy for as
	// long.
	alarm := time.NewTimer(max(b.late, time.Duration(b.took.Load())/time.Duration(flushers+cap(b.more))))
	defer alarm.Stop()
	select {
	case b.turns <- struct{}{}:
		return b.turns
	case <-alarm.C:
	}
	select {
	case b.turns <- struct{}{}:
		return b.turns
	case b.more <- struct{}{}:
		return b.more
	}
}

// gather takes the jobs that have arrived by now.
func (b *batcher) gather(first Job) (jobs []Job, items []*Item) {
	bytes := 0
	for next, ok := first, true; ok; next, ok = b.next() {
		if next.ctx.Err() == nil {
			jobs, items = append(jobs, next), append(items, next.items...)
			for _, it := range next.items {
				bytes += it.Bytes
			}
		}
		if len(items) >= MaxItems || bytes >= maxFlushBytes {
			break
		}
	}
	return jobs, items
}

// first waits for a job; false once drain has begun and the queue is empty.
func (b *batcher) first() (Job, bool) {
	select {
	case j := <-b.jobs:
		return j, true
	case <-b.ended:
		return b.next()
	}
}

func (b *batcher) next() (Job, bool) {
	select {
	case j := <-b.jobs:
		return j, true
	default:
		return Job{}, false
	}
}
