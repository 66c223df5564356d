package model

// met notes how a copy took a write, where two writes meet.
func (x *stepper) met(own *operation, shard int8, c *stored, took bool) {
	if x.sc.Second == NoOp || own.Rev > 0 {
		return
	}
	switch bit := uint8(1) << shard; {
	case took || c.Kind != absent && c.Version == own.Version:
		own.Took |= bit
	case c.Kind != absent && c.Version > own.Version:
		own.Refused |= bit
		own.Above = max(own.Above, c.Version)
		if c.Kind == tombstone {
			own.Ended |= bit
		}
		if writer := x.sc.writer(c.Version); x.sc.asks(writer) || x.sc.write(writer) == Delay {
			own.Barred |= bit
		}
	}
}

// overtaken goes on with a write that a copy has refused as older. The node asks the copies
// that took the write again. If all have a newer state by now, the newer write came later, and this
// write is acknowledged, unless an owner before them refused this write for a newer write with a
// condition. Otherwise the node writes again with a version above the newer write's, or refuses. A
// write with a condition is refused: a version above the newer write's would pass over the condition.
// The result is whether there was anything to do.
func (x *stepper) overtaken(i int) bool {
	op := &x.now.Ops[i]
	if op.Refused == 0 || x.sc.write(i) == Delete && op.Refused == op.Ended && op.Missed == 0 {
		return false
	}
	for shard := range x.sc.Shards {
		if bit := uint8(1) << shard; op.Took&^op.Looked&bit != 0 {
			next := *x.now
			own, c := &next.Ops[i], &x.now.Copies[shard]
			own.Looked |= bit
			if x.now.reach(op.Node, shard) && (c.Kind == absent || c.Version != op.Version) {
				own.Passed |= bit
			}
			x.urgent(&next, "%s v%d asks S%d again", x.sc.write(i), op.Version, shard)
			return true
		}
	}
	if op.Took != 0 && (op.Passed == op.Took || !x.sc.Rules.LookAgain) && (!x.barred(op) || !x.sc.Rules.FirstInForce) {
		return false
	}
	next := *x.now
	own := &next.Ops[i]
	if op.Version > 3 || x.now.Now > op.Began+1 || x.sc.asks(i) {
		own.Phase, own.Answer, own.AnsweredAt, own.rivalry = answered, refused, x.now.Now, rivalry{}
		x.urgent(&next, "%s v%d answered: overtaken", x.sc.write(i), op.Version)
		return true
	}
	own.Version += 2
	own.Sent, own.Missed, own.Found, own.rivalry = 0, 0, 0, rivalry{}
	x.urgent(&next, "%s is sent again as v%d, above v%d", x.sc.write(i), own.Version, op.Above)
	return true
}

// barred reports whether an owner has refused the write for a newer write with a condition, and no
// better owner has taken the write.
func (x *stepper) barred(op *operation) bool {
	first := maxShards
	var is bool
	for shard := range x.sc.Shards {
		if rank := int(x.sc.rank(op.Epoch, shard)); x.sc.owner(op.Epoch, shard) && (op.Took|op.Barred)&(1<<shard) != 0 && rank < first {
			first, is = rank, op.Barred&(1<<shard) != 0
		}
	}
	return is
}
