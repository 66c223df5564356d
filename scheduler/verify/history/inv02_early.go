package history

// neverEarly is invariant 2: no callback arrives more than 1 ms (Limits.Early) before its pop can have been due. The
// due time is computed from the operation, since nothing else can be trusted. The write took effect no sooner than
// its invocation, so pop n is due no sooner than invocation + n × interval. A pop with `at` is due no sooner than
// `at`. Each fire has one pop come early, and a delay that was acknowledged puts off all pops that were yet to come. If a shard's clock jumped between the invocation and the arrival, the jump is allowed for, in both
// directions.
func neverEarly(r *run, f *Finding) {
	for _, w := range r.writes {
		for _, c := range w.calls {
			early := w.earliest(c.Seq) - c.arrived()
			if early > r.l.Early && early > r.l.Early+r.steps(w, c.arrived()) && !r.delayLost(w, c) {
				f.violation("%s: %s early", c, early)
			}
		}
	}
}
