package scheduler

import "chronos/scheduler/listing"

// Renewing is how many callbacks have their fences renewed by the engine.
func (s *Scheduler) Renewing() int { return s.dispatch.Renewing() }

// ListerOf is a lister of the engine with other actions.
func (s *Scheduler) ListerOf(actions listing.Actions) *listing.Lister {
	return listing.New(&s.config, s.shards, s.deliverer.Destination, actions)
}
