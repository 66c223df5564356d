package storetest

import (
	"context"
	"maps"
	"slices"
	"time"

	"chronos/scheduler/store"
	"chronos/scheduler/timing"
)

// Decide is store.Store's.
func (v *view) Decide(ctx context.Context, name string, decisions []store.Decision) ([]store.Decision, error) {
	latest := make([]store.Decision, len(decisions))
	err := v.m.call(ctx, v.node, "decide", name, func(s *shard, now time.Time) {
		s.decided(now)
		for i := range decisions {
			latest[i] = s.decide(now, decisions[i])
		}
	})
	if err != nil {
		return nil, err
	}
	return latest, nil
}

// stale reports whether a shard keeps no decision with the stamp of d.
func stale(now time.Time, d *store.Decision) bool {
	made := d.Stamp.Time()
	return now.Sub(made) > timing.DecisionLife || made.Sub(now) > timing.MaxClockAhead
}

// decide keeps a decision, and returns the decision that counts.
func (s *shard) decide(now time.Time, d store.Decision) store.Decision {
	old, known := s.pauses[d.Destination]
	if stale(now, &d) || known && d.Stamp <= old.Stamp {
		return left(now, old)
	}
	inForce := 0
	for _, p := range s.pauses {
		if p.Until.After(now) {
			inForce++
		}
	}
	if d.Until.After(now) && !old.Until.After(now) && inForce >= store.MaxPauses || !known && len(s.pauses) >= store.MaxDecisions {
		return store.Decision{}
	}
	d.Left = 0
	s.pauses[d.Destination] = d
	return left(now, d)
}

func left(now time.Time, d store.Decision) store.Decision {
	if !d.Until.IsZero() {
		d.Left = d.Until.Sub(now.Truncate(time.Millisecond))
	}
	return d
}

// decided forgets old decisions and returns the rest.
func (s *shard) decided(now time.Time) []store.Decision {
	maps.DeleteFunc(s.pauses, func(_ string, d store.Decision) bool { return stale(now, &d) })
	all := slices.Collect(maps.Values(s.pauses))
	for i := range all {
		all[i] = left(now, all[i])
	}
	return all
}
