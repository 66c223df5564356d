package scheduler

// Renewing is how many callbacks the engine renews the fences of.
func (s *Scheduler) Renewing() (n int) {
	for _, sh := range s.shards.load() {
		under := s.dispatch.lanes.of(sh).renewals
		under.mu.Lock()
		n += len(under.under)
		under.mu.Unlock()
	}
	return n
}
