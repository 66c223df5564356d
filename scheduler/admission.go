package scheduler

import (
	"cmp"
	"context"

	"chronos/scheduler/replica"
	"chronos/scheduler/timer"
)

// errAdmission is for whoever reads the stream: no client is told so.
var errAdmission = &timer.InvalidError{Detail: "a timer of a stream needs a key as of an id, and an origin"}

// Admit stores the timers that are new, together: each gets its own answer. Errors:
// *InvalidError, and ErrUnavailable and ErrOverloaded, with which the same once more
// does no harm.
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

// Known finds out how the timers stand, and stores nothing. Errors: ErrUnavailable,
// where no shard that should know has answered, or this node doesn't know where timers
// belong.
func (s *Scheduler) Known(ctx context.Context, all []replica.Admission) { s.copies.Known(ctx, all) }

// Remember notes of timers that were never stored that they are over: where they
// belong, as far as that can be reached, and no other of the key waits. Errors:
// ErrUnavailable, where nobody has noted it.
func (s *Scheduler) Remember(ctx context.Context, all []replica.Admission) {
	s.copies.Remember(ctx, all)
}
