package listing

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"chronos/scheduler/timer"
)

// Actions carry out changes to single timers. *scheduler.Scheduler implements Actions.
type Actions interface {
	// DeleteIf ends the timer.
	DeleteIf(ctx context.Context, id timer.ID, cond timer.Condition) (timer.Receipt, error)
	// Fire has the next pop be due now.
	Fire(ctx context.Context, id timer.ID, cond timer.Condition) (timer.Receipt, error)
	// Delay has the next pop, and the pops behind, come later.
	Delay(ctx context.Context, id timer.ID, cond timer.Condition, by time.Duration) (timer.Receipt, error)
}

const (
	// bulkRate is how many timers a second a node changes.
	bulkRate, bulkBurst = 500, 100
	// bulkWorkers is how many timers are changed at the same time.
	bulkWorkers = 16
)

// Bulk changes the timers of one page of a query; the query must be valid. A timer that was delayed or fired may come
// again on a later page. Behind a cursor, Bulk therefore leaves out timers that were written, or popped, after the call
// for the first page. Errors as for List. After ctx has ended no further timer is changed, and these are refused.
func (l *Lister) Bulk(ctx context.Context, b Bulk) (Done, error) {
	page, begun, err := l.list(ctx, b.Query, l.shards.NextVersion())
	if err != nil {
		return Done{}, err
	}
	l.shards.Heard(begun) // the versions of this call are higher, whichever node has begun
	listed := len(page.Timers)
	if b.Cursor != "" {
		page.Timers = slices.DeleteFunc(page.Timers, func(t Timer) bool { return t.Version.Written() > begun || b.Action == Fire && t.popped(begun.Time()) })
	}
	done := Done{LeftOut: listed - len(page.Timers), Next: page.Next, Scanned: page.Scanned, Reached: page.Reached, Unreached: page.Unreached}
	if b.DryRun {
		done.Done = len(page.Timers)
		return done, nil
	}
	errs := make([]error, len(page.Timers))
	next := make(chan int)
	var workers sync.WaitGroup
	for range min(bulkWorkers, len(page.Timers)) {
		workers.Go(func() {
			for i := range next {
				errs[i] = l.change(ctx, &b, &page.Timers[i])
			}
		})
	}
	for i := range page.Timers {
		next <- i
	}
	close(next)
	workers.Wait()
	for i := range page.Timers {
		if errs[i] != nil {
			done.Refused = append(done.Refused, Refused{ID: page.Timers[i].ID.String(), Err: errs[i]})
			continue
		}
		done.Done++
	}
	return done, nil
}

// change changes a timer, if the timer is the version that was listed.
func (l *Lister) change(ctx context.Context, b *Bulk, t *Timer) (err error) {
	if err := l.pace.Wait(ctx); err != nil {
		return fmt.Errorf("%w: %w", timer.ErrUnavailable, err)
	}
	cond := timer.Condition{OneOf: []timer.Version{t.Version.Written()}}
	switch b.Action {
	case Delete:
		_, err = l.actions.DeleteIf(ctx, t.ID, cond)
	case Fire:
		_, err = l.actions.Fire(ctx, t.ID, cond)
	case Delay:
		_, err = l.actions.Delay(ctx, t.ID, cond, b.By)
	default:
		err = timer.Invalid("", "action-unknown", "an action is delete, fire or delay")
	}
	return err
}

// popped reports whether the pop before the next pop was due after an instant: a fire leaves the version, and the due times
// of later pops.
func (t *Timer) popped(since time.Time) bool {
	return t.State == Waiting && t.Sequence > 1 && t.Due.Add(-t.Timer.Interval).After(since)
}
