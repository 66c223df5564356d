package scheduler

import (
	"cmp"
	"context"

	"chronos/scheduler/replica"
	"chronos/scheduler/timer"
)

// errAdmission is for the reader of the stream: no client gets this error.
var errAdmission = &timer.InvalidError{Detail: "a timer of a stream needs a key as of an id, and an origin"}

// Admit stores the timers that are new, together, and answers every timer separately. Errors:
// *InvalidError, and ErrUnavailable and ErrOverloaded, after which a repeated call does no harm.
func (s *Scheduler) Admit(ctx context.Context, all []replica.Admission) {
	open := make([]*replica.Admission, 0, len(all))
	for i := range all {
		a := &all[i]
		a.Standing = replica.StandingUnknown
		if a.Err = s.admissible(a); a.Err == nil {
			open = append(open, a)
		}
	}
	s.copies.AdmitAll(ctx, open)
}

func (s *Scheduler) admissible(a *replica.Admission) error {
	t := &a.Timer
	t.ReplicationFactor = cmp.Or(t.ReplicationFactor, timer.DefaultReplicationFactor)
	if err := cmp.Or(t.CheckTiming(), t.CheckReplication()); err != nil {
		return err
	}
	if a.Origin == "" || !timer.ValidKey(a.Key) {
		return errAdmission
	}
	if err := s.checkInstant(t); err != nil {
		return err
	}
	return s.deliverer.Check(t.Callback)
}

// Known finds out how the timers stand, and stores nothing. Errors: ErrUnavailable, if no shard
// that should know has answered, or this node doesn't know where timers belong.
func (s *Scheduler) Known(ctx context.Context, all []replica.Admission) { s.copies.Known(ctx, all) }

// Remember notes that timers are over that were never stored: on all owners that can be reached,
// unless another timer of the key waits. Errors: ErrUnavailable, if nobody has taken the note.
func (s *Scheduler) Remember(ctx context.Context, all []replica.Admission) {
	s.copies.Remember(ctx, all)
}
