package model

// maySweepNow reports whether the sweep need not wait for a loss of data (rule "wait before
// repairing").
func (x *stepper) maySweepNow() bool { return x.now.LostAt == 0 || !x.sc.Rules.SweepWaits }

// sweep is rule "sweep copies to their owners" without a change, in one step. A copy that is
// neither leased nor due soon is copied to owners without a copy, or with an older copy.
func (x *stepper) sweep() {
	if !x.maySweepNow() {
		return
	}
	if x.sc.Sweeping {
		for shard := range x.sc.Shards {
			c := &x.now.Copies[shard]
			if c.Kind == live && c.Token == noToken && c.Score > x.now.Now+2 {
				x.sweepFrom(shard)
			}
		}
	}
	for n := range int8(nodes) {
		x.sweepAll(n)
	}
}

func (x *stepper) sweepFrom(shard int8) {
	c := &x.now.Copies[shard]
	for o := range x.sc.Factor {
		to := &x.now.Copies[o]
		if o == shard || to.Kind != absent && to.order() >= c.order() && !c.revisedSince(to.Version, to.Rev) || to.Token != noToken {
			continue
		}
		for n := range int8(nodes) {
			if x.now.awake(n) && x.now.reach(n, shard) && x.now.reach(n, o) {
				next := *x.now
				next.adopt(x.sc, before, o, shard, o)
				x.maybe(&next, "N%d sweeps S%d to S%d", n, shard, o)
				break
			}
		}
	}
}

// sweepAll is a sweep of all shards. Tombstones may be removed afterwards.
func (x *stepper) sweepAll(n int8) {
	if x.now.Nodes[n] != 0 || x.now.Unswept[n] == 0 {
		return
	}
	for shard := range x.sc.Shards {
		c := &x.now.Copies[shard]
		if !x.now.reach(n, shard) || c.Kind == live && (c.Token != noToken || c.Score <= x.now.Now+2) {
			return
		}
	}
	next := *x.now
	for shard := range x.sc.Factor {
		for o := range x.sc.Factor {
			if next.Copies[o].Kind != absent && o != shard {
				next.adopt(x.sc, before, shard, o, shard)
			}
		}
	}
	next.Unswept = [nodes]uint8{}
	for other := range int8(nodes) {
		for shard := range x.sc.Shards {
			if !next.reach(other, shard) {
				next.Unswept[other] |= 1 << shard
			}
		}
	}
	x.maybe(&next, "N%d has swept all shards", n)
}
