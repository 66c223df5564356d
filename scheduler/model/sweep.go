package model

// sweepWaits is how long after a shard lost its data the sweep may not copy.
func (sc *Scenario) sweepWaits() int8 {
	if sc.Rules.SweepWaits {
		return sweepWait
	}
	return 0
}

// sweep is rule "sweep copies to their owners" where no shards change, in one step: a copy
// that is neither leased nor nearly due is copied to the homes that lack it or have an older
// one.
func (x *stepper) sweep() {
	if x.now.WipedAt != 0 && x.now.Now < x.now.WipedAt-1+x.sc.sweepWaits() {
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
	if x.sc.Life > 0 && x.now.Unswept != [nodes]uint8{} {
		for n := range int8(nodes) {
			x.sweepAll(n)
		}
	}
}

func (x *stepper) sweepFrom(shard int8) {
	c := &x.now.Copies[shard]
	for o := range x.sc.Homes {
		to := &x.now.Copies[o]
		if o == shard || to.Kind != absent && to.order() >= c.order() || to.Token != noToken {
			continue
		}
		for n := range int8(nodes) {
			if x.now.awake(n) && x.now.reach(n, shard) && x.now.reach(n, o) {
				next := *x.now
				next.adopt(x.sc, 0, o, shard, o)
				x.maybe(&next, "N%d sweeps S%d to S%d", n, shard, o)
				break
			}
		}
	}
}

// sweepAll is a sweep of everything, after which tombstones may be buried.
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
	for shard := range x.sc.Homes {
		for o := range x.sc.Homes {
			if next.Copies[o].Kind != absent && o != shard {
				next.adopt(x.sc, 0, shard, o, shard)
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
	x.maybe(&next, "N%d's sweep has passed over all", n)
}
