package scheduler

// Renewing is how many callbacks have their fences renewed by the engine.
func (s *Scheduler) Renewing() int { return s.dispatch.Renewing() }
