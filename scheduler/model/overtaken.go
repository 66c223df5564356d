package model

// met notes how a copy took an operation, where two operations meet.
func (x *stepper) met(own *operation, shard int8, c *stored, took bool) {
	if x.sc.Second == NoOp {
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
	}
}

// overtaken goes on with an operation that a copy refused as older than what it has. The
// copies that took the operation are asked whether they still have it: if none has, the
// newer one came after it, and it is answered as carried out. Otherwise it is written
// once more, above what it met, or refused. It reports whether there was anything to do.
func (x *stepper) overtaken(i int) bool {
	op := &x.now.Ops[i]
	if op.Refused == 0 || x.sc.asks(i) == Delete && op.Refused == op.Ended && op.Untold == 0 {
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
			x.urgent(&next, "%s v%d asks S%d whether it still has it", x.sc.asks(i), op.Version, shard)
			return true
		}
	}
	if op.Took != 0 && (op.Passed == op.Took || !x.sc.Rules.LookAgain) {
		return false
	}
	next := *x.now
	own := &next.Ops[i]
	if op.Version > 3 || x.now.Now > op.Began+1 {
		own.Phase, own.Answer, own.AnsweredAt, own.rivalry = answered, refused, x.now.Now, rivalry{}
		x.urgent(&next, "%s v%d answered: overtaken", x.sc.asks(i), op.Version)
		return true
	}
	own.Version += 2
	own.Told, own.Untold, own.Found, own.rivalry = 0, 0, 0, rivalry{}
	x.urgent(&next, "%s is tried again as v%d, above v%d", x.sc.asks(i), own.Version, op.Above)
	return true
}
