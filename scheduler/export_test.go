package scheduler

// Renewing is how many callbacks the engine renews the fences of.
func (s *Scheduler) Renewing() int { return s.dispatch.Renewing() }
