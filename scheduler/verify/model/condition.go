package model

// condition is rule "conditions": the node asks all owners for the newest version, and the first
// owner decides between writes with the same condition. The result is whether something remains to
// be done before the other copies are written to.
func (x *stepper) condition(i int) bool {
	op := &x.now.Ops[i]
	if op.Sent != 0 {
		return false
	}
	if e := op.Epoch; x.sc.Rules.SteadyOwners && e != before && e != forgotten {
		x.refuse(i, refused, "503, the shards change")
		return true
	}
	for shard := range x.sc.Shards {
		if op.Read&(1<<shard) == 0 && x.sc.owner(op.Epoch, shard) {
			x.read(i, shard)
			return true
		}
	}
	if op.Rev == 0 && x.sc.write(i) == Patch {
		x.base(i)
		return true
	}
	if x.sc.write(i) == Delay && (op.Over || op.Base == 0 || op.Busy) {
		x.refuse(i, unmet, "404, or a callback is under way")
		return true
	}
	x.decide(i)
	return true
}

// read asks an owner for the version. A newer version does not meet the condition.
func (x *stepper) read(i int, shard int8) {
	op, c := &x.now.Ops[i], &x.now.Copies[shard]
	switch {
	case !x.now.reach(op.Node, shard) && x.sc.Rules.AllAsked:
		x.refuse(i, refused, "503, an owner does not answer")
	case (x.sc.write(i) == Patch || x.sc.write(i) == Delay) && c.Kind == absent && x.now.reach(op.Node, shard) && x.sc.Rules.PatchWhole:
		x.refuse(i, refused, "503, an owner has no copy")
	case x.now.reach(op.Node, shard) && x.sc.asks(i) && c.Kind != absent && (c.Version > 1 || c.Rev > 0):
		x.refuse(i, unmet, "412")
	default:
		next := *x.now
		next.Ops[i].Read |= 1 << shard
		if kind := x.sc.write(i); (kind == Patch || kind == Delay) && x.now.reach(op.Node, shard) {
			next.Ops[i].readBase(c)
			if kind == Delay {
				next.Ops[i].readPop(c)
			}
		}
		x.urgent(&next, "%s v%d asks S%d for the version", x.sc.write(i), op.Version, shard)
	}
}

// decide writes to the first owner, which takes nothing newer than what was read.
func (x *stepper) decide(i int) {
	op := &x.now.Ops[i]
	for first := range x.sc.Shards {
		if !x.sc.owner(op.Epoch, first) || x.sc.rank(op.Epoch, first) != 0 {
			continue
		}
		c := &x.now.Copies[first]
		lost := x.now.LostOn&(1<<first) != 0 && x.sc.Rules.LossDecides
		switch {
		case x.sc.Rules.FirstDecides && (!x.now.reach(op.Node, first) || lost):
			x.refuse(i, refused, "503, the first owner does not decide")
		case x.sc.write(i) == Delay && x.sc.Rules.DelayExact && (!op.aimsAt(c) || c.Rev != op.BaseRev):
			x.refuse(i, unmet, "not decided, the first owner has another state")
		case x.sc.write(i) == Delay && (c.Kind != live || c.Version != op.Base || c.Rev != op.BaseRev):
			x.refuse(i, unmet, "not decided, another version")
		case x.sc.write(i) == Delay:
			x.send(i, first)
		case x.sc.Rules.FirstDecides && op.Rev == 0 && c.Kind != absent && (c.Version > 1 || c.Rev > 0):
			x.refuse(i, unmet, "412 by the first owner")
		case x.sc.Rules.FirstDecides && op.Rev > 0 && (c.Kind == absent || c.Version < op.Base):
			x.refuse(i, refused, "503, the first owner lacks the version")
		case x.sc.Rules.FirstDecides && op.Rev > 0 && (c.Kind != live || c.Version != op.Base || c.Rev > op.BaseRev):
			x.refuse(i, unmet, "not decided, reads again")
		default:
			x.send(i, first)
		}
		return
	}
}

func (x *stepper) refuse(i int, answer int8, why string) {
	next := *x.now
	own := &next.Ops[i]
	own.Phase, own.Answer, own.AnsweredAt, own.rivalry = answered, answer, x.now.Now, rivalry{}
	x.urgent(&next, "%s v%d answered: %s", x.sc.write(i), own.Version, why)
}
