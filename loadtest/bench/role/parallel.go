package role

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"chronos/scheduler/awake"
)

// parallel does n things with several goroutines, rate things a second; a rate of 0 is no limit.
// parallel returns when all things are done or ctx ends.
func parallel(ctx context.Context, n, goroutines int, rate float64, do func(i int) error) Took {
	var next, failed, done atomic.Int64
	var first sync.Once
	took := Took{}
	begin := time.Now()
	var all sync.WaitGroup
	for range goroutines {
		all.Go(func() {
			for {
				i := int(next.Add(1) - 1)
				if i >= n || rate > 0 && !until(ctx, begin.Add(time.Duration(float64(i)/rate*float64(time.Second)))) || ctx.Err() != nil {
					return
				}
				if err := do(i); err != nil {
					failed.Add(1)
					first.Do(func() { took.Why = err.Error() })
					continue
				}
				done.Add(1)
			}
		})
	}
	all.Wait()
	took.Done, took.Failed, took.Seconds = int(done.Load()), int(failed.Load()), time.Since(begin).Seconds()
	return took
}

// until waits for an instant and reports whether ctx lasted.
func until(ctx context.Context, at time.Time) bool {
	wait := time.Until(at)
	if wait <= 0 {
		return ctx.Err() == nil
	}
	return awake.Sleep(ctx, wait)
}
