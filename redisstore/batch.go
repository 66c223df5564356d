package redisstore

import (
	"context"
	"sync"

	"chronos/scheduler"
)

// batcher is group commit: what arrives while a flush is under way goes out
// together in the next one, so a lone write waits for nobody and a flood pays
// one round trip for many.
type batcher struct {
	jobs  chan job
	flush func([]*item)
	done  sync.WaitGroup
}

// job is the items of one caller, who waits until they are flushed. A caller
// that has given up no longer looks at them, and what it gave up before the
// flush is not sent.
type job struct {
	ctx   context.Context
	items []*item
	done  chan struct{}
}

const (
	maxQueuedJobs = 16384
	maxFlushBytes = 4 << 20 // about: what goes out together must not take longer than the shard may keep silent
	flushers      = 2       // Redis works on one flush while the other is put together
)

// newBatcher starts the flushers; close ends them.
func newBatcher(flush func([]*item)) *batcher {
	b := &batcher{jobs: make(chan job, maxQueuedJobs), flush: flush}
	for range flushers {
		b.done.Go(b.run)
	}
	return b
}

// close flushes what is queued and returns when the flushers are out. Nothing
// may be submitted any more.
func (b *batcher) close() {
	close(b.jobs)
	b.done.Wait()
}

// submit queues the items. After wait has returned an error, or submit has, their
// effect is unknown, and they must not be looked at.
func (b *batcher) submit(ctx context.Context, items []*item) (job, error) {
	j := job{ctx: ctx, items: items, done: make(chan struct{})}
	select {
	case b.jobs <- j:
		return j, nil
	default:
		return job{}, scheduler.ErrOverloaded
	}
}

// wait returns when the items are flushed or the job's ctx has ended.
func (j job) wait() error {
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
	for first := range b.jobs {
		var jobs []job
		var items []*item
		bytes := 0
		for next, ok := first, true; ok; next, ok = b.more() {
			if next.ctx.Err() == nil {
				jobs, items = append(jobs, next), append(items, next.items...)
				for _, it := range next.items {
					bytes += it.bytes
				}
			}
			if len(items) >= maxItems || bytes >= maxFlushBytes {
				break
			}
		}
		if len(items) > 0 {
			b.flush(items)
		}
		for _, j := range jobs {
			close(j.done)
		}
	}
}

func (b *batcher) more() (job, bool) {
	select {
	case j, ok := <-b.jobs:
		return j, ok
	default:
		return job{}, false
	}
}
