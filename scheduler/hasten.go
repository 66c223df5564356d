package scheduler

import (
	"context"
	"errors"
	"fmt"
	"time"

	"chronos/scheduler/timer"
)

// Fire has the next pop of the timer be due now, on a condition; the pops behind keep their due times. A
// retry that the timer waits for is due now likewise. Errors: ErrNotFound; *ConditionError; ErrFiring, if a
// callback is under way; ErrOvertaken, if another write came first; ErrUnavailable, with which the pop may
// be due all the same; ErrOverloaded.
func (s *Scheduler) Fire(ctx context.Context, id timer.ID, cond timer.Condition) (timer.Receipt, error) {
	defer s.copies.Queue(ctx, id.Key)()
	at, err := s.sites.Decide(ctx, id)
	if err != nil {
		return timer.Receipt{}, err
	}
	if at.Elsewhere() {
		found, err := at.Copies.Judge(ctx, id, cond)
		if err := at.Trust(ctx, found.Written(), err); err != nil {
			return timer.Receipt{}, err
		}
	}
	return at.Copies.Hasten(ctx, id, cond)
}

// Delay moves the next pop, and the grid of the pops behind, by so much, on a condition. The timer has a new
// version, which goes on with the number of the pop; a pop that waits for a retry begins anew with its attempts.
// Errors as for ReplaceIf; ErrNotFound; ErrFiring, if a callback is under way; an *InvalidError with the
// code by-range, if by is less than a millisecond or the pop would come over 100 years from now.
func (s *Scheduler) Delay(ctx context.Context, id timer.ID, cond timer.Condition, by time.Duration) (receipt timer.Receipt, err error) {
	if by < time.Millisecond || by > timer.MaxInterval {
		return timer.Receipt{}, timer.DelayRange()
	}
	defer s.copies.Queue(ctx, id.Key)()
	for range maxPatchTries {
		var forestalled bool
		if receipt, forestalled, err = s.delayOnce(ctx, id, cond, by); !forestalled {
			return receipt, err
		}
	}
	return timer.Receipt{}, fmt.Errorf("%w: other writes to this timer kept coming first", timer.ErrUndecided)
}

// delayOnce reports whether another write, or a callback, has forestalled the delay, which has then done
// nothing.
func (s *Scheduler) delayOnce(ctx context.Context, id timer.ID, cond timer.Condition, by time.Duration) (receipt timer.Receipt, forestalled bool, err error) {
	at, err := s.sites.Decide(ctx, id)
	if err != nil {
		return timer.Receipt{}, false, err
	}
	read, err := at.Copies.ReadAll(ctx, id, cond)
	if err := at.Trust(ctx, read.Written(), err); err != nil {
		return timer.Receipt{}, false, err
	}
	w, err := at.Copies.Delay(read, by)
	if err != nil {
		return timer.Receipt{}, false, err
	}
	w.ID.Hint = id.Hint
	receipt, err = s.sites.WriteAt(ctx, at.Site, w)
	_, forestalled = errors.AsType[*timer.ConditionError](err)
	return receipt, forestalled, err
}
