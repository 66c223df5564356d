package model

// nodeFaults has the node die or freeze.
func (x *stepper) nodeFaults(n int8) {
	if x.fault(Crash) && x.now.Nodes[1-n] != crashed {
		next := *x.now
		next.Nodes[n] = crashed
		next.Tasks[n] = [maxShards]task{}
		next.Changing.Sweeps[n] = carried{}
		if x.sc.Change != NoChange && !x.now.learnt() && next.learnt() {
			next.Changing.Since, next.Changing.SteadyAt = 0, x.now.Now+stepTakes
		}
		next.Budget--
		x.maybe(&next, "FAULT N%d dies", n)
	}
	if !x.fault(Stall) {
		return
	}
	busy := x.now.Changing.Sweeps[n].On != 0
	for i := range x.now.Ops {
		busy = busy || x.now.Ops[i].Phase == begun && x.now.Ops[i].Node == n
	}
	for shard := range x.sc.Shards {
		busy = busy || x.now.Tasks[n][shard].Phase != idle
	}
	if busy { // a freeze makes no difference otherwise
		next := *x.now
		next.Nodes[n] = x.now.Now + stallFor
		next.Budget--
		x.maybe(&next, "FAULT N%d freezes for 6 s", n)
	}
}

// links has links be cut and heal.
func (x *stepper) links() {
	for shard := range x.sc.Shards {
		for n := range int8(nodes) {
			next := *x.now
			if x.now.Cut&link(n, shard) != 0 {
				next.Cut &^= link(n, shard)
				next.noteSilence(x.sc)
				next.wake(x.sc, shard, wayOfLinks+n)
				x.maybe(&next, "link N%d-S%d heals", n, shard)
			} else if x.fault(Cut) && x.now.Now < x.sc.Heal && x.now.Shards[shard] != gone {
				next.Cut |= link(n, shard)
				next.Budget--
				next.noteSilence(x.sc)
				x.maybe(&next, "FAULT link N%d-S%d cut", n, shard)
			}
		}
	}
}

// shards has shards pause and return, die, and lose their data.
func (x *stepper) shards() {
	for shard := range x.sc.Shards {
		if x.now.Shards[shard] == paused {
			next := *x.now
			next.back(x.sc, shard)
			x.maybe(&next, "S%d is back", shard)
		}
		if x.now.Shards[shard] != up || x.now.Now >= x.sc.Heal {
			continue
		}
		if x.fault(Pause) {
			next := *x.now
			next.Shards[shard] = paused
			next.Budget--
			next.noteSilence(x.sc)
			x.maybe(&next, "FAULT S%d pauses", shard)
		}
		if x.fault(Dead) {
			next := *x.now
			next.Shards[shard], next.Copies[shard] = gone, stored{}
			next.Budget--
			next.noteSilence(x.sc)
			x.maybe(&next, "FAULT S%d dies for good", shard)
		}
		if x.fault(Wipe) && x.now.Copies[shard].Kind != absent {
			x.lose(shard, stored{})
		}
		if x.fault(Gap) {
			x.gap(shard)
		}
	}
}

// gap has a shard restart without its last seconds. Leases from those seconds have no node.
func (x *stepper) gap(shard int8) {
	for i := range x.now.Saved {
		back := x.now.Saved[i][shard]
		if back.Token != noToken {
			back.Token = lostToken
		}
		if back != x.now.Copies[shard] && x.now.Now > int8(i) {
			x.lose(shard, back)
		}
	}
}

// lose has a shard lose its copy. The shard goes on with an earlier copy or with nothing.
func (x *stepper) lose(shard int8, back stored) {
	next := *x.now
	next.Copies[shard] = back
	if next.Budget == 1 {
		next.Saved = [2][maxShards]stored{}
	}
	next.Budget--
	next.LostAt = x.now.Now + 1
	next.LostOn |= 1 << shard
	if x.sc.Life > 0 {
		for n := range next.Unswept {
			next.Unswept[n] |= 1 << shard
		}
	}
	x.maybe(&next, "FAULT S%d loses data, and has %+v", shard, back)
}

// back makes a paused shard reachable again.
func (s *state) back(sc *Scenario, shard int8) {
	s.Shards[shard] = up
	s.noteSilence(sc)
	s.wake(sc, shard, wayOfShard)
}

// noteSilence notes since when each shard is silent for each node.
func (s *state) noteSilence(sc *Scenario) {
	for n := range int8(nodes) {
		for shard := range sc.Shards {
			switch {
			case s.reach(n, shard):
				if sc.Variants.SkipSilent && s.Silent[n][shard] != 0 && s.Now >= s.Silent[n][shard] {
					s.Back[n][shard] = s.Now + 1
				}
				s.Silent[n][shard] = 0
			case s.Silent[n][shard] == 0:
				s.Silent[n][shard] = s.Now + 1
				if sc.Life > 0 {
					s.Unswept[n] |= 1 << shard
				}
			}
		}
	}
}
