package scheduler

// Renewing is how many callbacks the engine renews the fences of.
func (s *Scheduler) Renewing() (n int) {
	for _, sh := range s.shards.load() {
		sh.renewals.mu.Lock()
		n += len(sh.renewals.under)
		sh.renewals.mu.Unlock()
	}
	return n
}
