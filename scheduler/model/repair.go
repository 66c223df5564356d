package model

// get is a GET that repairs: it reads the copies one after the other, and what it
// found newest is merged onto the homes that it found older or without, for a tick
// after the first read.
func (x *stepper) get() {
	if !x.sc.Repairing || x.now.Create.Phase == begun {
		return
	}
	switch x.now.Get.Phase {
	case notBegun:
		for n := range int8(nodes) {
			if x.now.awake(n) && x.now.Now >= 1 && x.now.Now <= x.sc.OpBy {
				next := *x.now
				next.Get.Phase, next.Get.Node, next.Get.ReadAt = begun, n, x.now.Now
				x.maybe(&next, "GET begins through N%d", n)
			}
		}
	case begun:
		g := &x.now.Get
		if x.now.Nodes[g.Node] == crashed || x.now.Now > g.ReadAt+1 {
			next := *x.now
			next.Get = getting{Phase: answered}
			x.urgent(&next, "GET is over")
			return
		}
		if !x.now.awake(g.Node) {
			return
		}
		for shard := range x.sc.Shards {
			if g.Read&(1<<shard) == 0 {
				x.read(shard)
				return
			}
		}
		x.repair()
	}
}

// read reads one copy. All reads are within a tick: a later one would be over.
func (x *stepper) read(shard int8) {
	next := *x.now
	g, c := &next.Get, &x.now.Copies[shard]
	seen := g.Read
	if x.sc.Variants.RepairStrict && x.now.reach(g.Node, shard) && c.Kind == live && !x.far(c) {
		g.Busy = 1
	}
	g.Read |= 1 << shard
	switch {
	case !x.now.reach(g.Node, shard):
		g.Missed |= 1 << shard
		x.maybe(&next, "GET: S%d doesn't answer", shard)
		return
	case c.Kind != absent && (g.Best.Kind == absent || c.order() > g.Best.order()):
		g.Best, g.Older = *c, seen&^g.Missed
	case c.Kind == absent && x.sc.Variants.RepairOlder:
		g.Missed |= 1 << shard
	case c.Kind == absent || c.order() < g.Best.order():
		g.Older |= 1 << shard
	}
	x.maybe(&next, "GET reads S%d", shard)
}

func (x *stepper) repair() {
	g := &x.now.Get
	wanted := g.Best.Kind == live && x.far(&g.Best) && g.Busy == 0
	for o := range x.sc.Homes {
		if !wanted || g.Older&(1<<o) == 0 {
			continue
		}
		next := *x.now
		next.Get.Older &^= 1 << o
		changed := x.now.reach(g.Node, o) && !x.lossSeen() && next.merge(x.sc, o, x.now.copied(x.sc, &g.Best, o))
		x.maybe(&next, "GET repairs S%d: %v", o, changed)
		return
	}
	next := *x.now
	next.Get = getting{Phase: answered}
	x.urgent(&next, "GET is answered")
}

// far reports whether a copy that was read is neither leased nor nearly due.
func (x *stepper) far(c *stored) bool {
	from := c.Score
	if x.sc.Variants.RepairStrict {
		from -= c.Rank * x.sc.Skew
	}
	return c.Token == noToken && from > x.now.Get.ReadAt+x.sc.Variants.RepairGuard
}
