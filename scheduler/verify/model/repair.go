package model

// ofCreate is the create's place among the repairs, behind the places of the writes.
const ofCreate = 2

// owe notes that a write has missed owners.
func (s *state) owe(sc *Scenario, i int, missed uint8) {
	if sc.Rules.Repair && missed != 0 {
		s.Repairs[i] = repairing{At: s.Now + repairAfter, Owes: missed}
	}
}

// repair is rule "repair what a write missed". An owner that is missed again, since the node
// is dead or the owner still silent, is left to the sweep.
func (x *stepper) repair(i int) {
	r := &x.now.Repairs[i]
	if r.At == 0 || x.now.Now < r.At {
		return
	}
	node, version, makes, what := int8(0), int8(1), true, "create"
	if i != ofCreate {
		op := &x.now.Ops[i]
		node, version, makes, what = op.Node, op.Version, x.sc.write(i) != Delete, x.sc.write(i).String()
	}
	next := *x.now
	switch {
	case x.now.Nodes[node] == crashed || x.now.Now > r.At+1 && x.sc.Rules.NotAfter:
		next.Repairs[i] = repairing{}
		x.urgent(&next, "%s v%d: no repair", what, version)
	case !x.now.awake(node):
	case makes && x.sc.Rules.RepairReads && !r.Seen:
		if next.Repairs[i].Seen, next.Repairs[i].Pop = x.unchanged(i, node, version); !next.Repairs[i].Seen {
			next.Repairs[i] = repairing{}
		}
		x.urgent(&next, "%s v%d is still there: %v", what, version, next.Repairs[i].Seen)
	default:
		x.repairOne(i, node, what)
	}
}

// repairOne writes to the next owner that was missed.
func (x *stepper) repairOne(i int, node int8, what string) {
	r := &x.now.Repairs[i]
	for shard := range x.sc.Shards {
		bit := uint8(1) << shard
		if r.Owes&bit == 0 {
			continue
		}
		next := *x.now
		if next.Repairs[i].Owes &^= bit; next.Repairs[i].Owes == 0 {
			next.Repairs[i] = repairing{}
		}
		w := x.now.created(x.sc, before, shard)
		if i != ofCreate {
			w = x.now.wanted(x.sc, i, shard)
		}
		if w.why == asPatch {
			w = x.now.copied(x.sc, &stored{Version: w.version, Pop: r.Pop, Rev: w.rev}, w.rank)
		}
		took := x.now.reach(node, shard) && next.merge(x.sc, shard, w)
		x.maybe(&next, "%s v%d is repaired on S%d: %v", what, w.version, shard, took)
		x.last().urgent = x.now.Now > r.At || !x.sc.Rules.RepairReads
		return
	}
}

// unchanged reports whether an owner that took the write still has exactly the state of the
// write, neither leased nor due within 2 s.
//
// A copy with a PATCH may have gone on: the result has the pop.
func (x *stepper) unchanged(i int, node, version int8) (same bool, pop int8) {
	owes, epoch, rev := x.now.Repairs[i].Owes, before, int8(0)
	if i != ofCreate {
		epoch, rev = x.now.Ops[i].Epoch, x.now.Ops[i].Rev
	}
	for shard := range x.sc.Shards {
		c := &x.now.Copies[shard]
		same := c.Kind == live && c.Version == version && (c.Pop == 1 || rev > 0) && c.Rev == rev && c.Attempt == 0 && c.Token == noToken
		if x.sc.owner(epoch, shard) && owes&(1<<shard) == 0 && x.now.reach(node, shard) && same && c.Score-c.Rank*x.sc.Skew > x.now.Now+2 {
			if rev > 0 {
				pop = c.Pop
			}
			return true, pop
		}
	}
	return false, 0
}
