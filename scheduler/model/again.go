package model

// ofCreate is the create's entry among the repairs, behind those of the operations.
const ofCreate = 2

// owe notes that a write missed owners.
func (s *state) owe(sc *Scenario, i int, untold uint8) {
	if sc.Variants.Repair && untold != 0 {
		s.Repairs[i] = repairing{At: s.Now + repairAfter, Owes: untold}
	}
}

// noteMissed has all nodes keep tombstones until the shards are swept.
func (s *state) noteMissed(shards uint8) {
	for n := range s.Unswept {
		s.Unswept[n] |= shards
	}
}

// repairWrite writes a PUT, DELETE or create once more to the owners that it missed. What
// is missed again, since the node is gone or the owner is still away, is left to the sweep.
func (x *stepper) repairWrite(i int) {
	r := &x.now.Repairs[i]
	if r.At == 0 || x.now.Now < r.At {
		return
	}
	node, version, what := int8(0), int8(1), "create"
	if i != ofCreate {
		node, version, what = x.now.Ops[i].Node, x.now.Ops[i].Version, x.sc.asks(i).String()
	}
	next := *x.now
	if x.now.Nodes[node] == crashed || x.now.Now > r.At+1 && x.sc.Rules.NotAfter {
		next.Repairs[i] = repairing{}
		if x.sc.Variants.RepairNotes && x.now.Nodes[node] != crashed {
			next.noteMissed(r.Owes)
		}
		x.urgent(&next, "%s v%d: no repair", what, version)
		return
	}
	if !x.now.awake(node) {
		return
	}
	live := i == ofCreate || x.sc.asks(i) == Put
	if live && x.sc.Variants.RepairSeen && !r.Seen {
		if next.Repairs[i].Seen = x.unchanged(node, version, r.Owes); !next.Repairs[i].Seen {
			next.Repairs[i] = repairing{}
			if x.sc.Variants.RepairNotes {
				next.noteMissed(r.Owes)
			}
		}
		x.urgent(&next, "%s v%d: still there: %v", what, version, next.Repairs[i].Seen)
		return
	}
	for shard := range x.sc.Shards {
		bit := uint8(1) << shard
		if r.Owes&bit == 0 {
			continue
		}
		if next.Repairs[i].Owes &^= bit; next.Repairs[i].Owes == 0 {
			next.Repairs[i] = repairing{}
		}
		if x.sc.Variants.RepairNotes && !x.now.reach(node, shard) {
			next.noteMissed(bit)
		}
		took := x.now.reach(node, shard) && (x.now.Copies[shard].Kind != absent || !live || !x.sc.Variants.RepairOnto)
		took = took && next.merge(x.sc, shard, x.repaired(i, shard))
		x.maybe(&next, "%s v%d is repaired on S%d: %v", what, version, shard, took)
		x.moves[len(x.moves)-1].urgent = x.now.Now > r.At || !x.sc.Variants.RepairSeen
		return
	}
}

// repaired is what the repair writes.
func (x *stepper) repaired(i int, shard int8) written {
	if i != ofCreate {
		return x.now.wanted(x.sc, i, x.sc.rank(x.now.Ops[i].Epoch, shard))
	}
	return written{kind: live, version: 1, pop: 1, score: x.now.due(x.sc, 1, 1, shard), rank: shard, why: asCreate}
}

// unchanged reports whether an owner that took the write still has just that.
func (x *stepper) unchanged(node, version int8, owes uint8) bool {
	for shard := range x.sc.Homes {
		c := &x.now.Copies[shard]
		same := c.Kind == live && c.Version == version && c.Pop == 1 && c.Attempt == 0 && c.Token == noToken
		if owes&(1<<shard) == 0 && x.now.reach(node, shard) && same && c.Score-c.Rank*x.sc.Skew > x.now.Now+2 {
			return true
		}
	}
	return false
}
