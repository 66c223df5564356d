package history

// neverEarly is invariant 2: no callback arrives more than 1 ms (Limits.Early) before its pop can have been due. That is
// reckoned from the operation, since nothing else can be trusted: the write took effect no sooner than it was invoked, so
// pop n is due no sooner than invocation + n × interval, and one with `at` no sooner than that instant. Where a shard's
// clock jumped between the invocation and the arrival, the jump is allowed for, in both directions.
func neverEarly(r *run, f *Finding) {
	for _, w := range r.writes {
		for _, c := range w.calls {
			early := w.earliest(c.Seq) - c.arrived()
			if early > r.l.Early && early > r.l.Early+r.steps(w, c.arrived()) {
				f.violation("%s: %s early", c, early)
			}
		}
	}
}
