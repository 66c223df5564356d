package model

// unknown reports whether clients don't know the replication factor.
func (sc *Scenario) unknown() bool { return sc.Start == Unknown }

// single reports whether a version has one copy: a PUT that could ask the first owner
// knows that, and otherwise the version counts as new, and has two.
func (s *state) single(sc *Scenario, version int8) bool {
	return sc.unknown() && (version == 1 || s.op(sc, version).Untold&1 == 0)
}

// tellSecond tells the second owner of an operation after the first owner has answered, or
// not. It reports whether there was nothing to write.
func (x *stepper) tellSecond(i int, shard int8) bool {
	op := &x.now.Ops[i]
	if !x.sc.unknown() || shard == 0 {
		return false
	}
	next := *x.now
	switch {
	case op.Told&1 == 0:
		return true
	case op.Untold&1 == 0:
		next.Ops[i].Told |= 1 << shard
	case x.sc.asks(i) == Delete && x.sc.Variants.OwnersTold:
		next.Ops[i].Told |= 1 << shard
		next.Ops[i].Untold |= 1 << shard
	default:
		return false
	}
	x.urgent(&next, "%s v%d leaves S%d out", x.sc.asks(i), op.Version, shard)
	return true
}
