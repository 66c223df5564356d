package model

// carried is what a node's sweep has read from a shard and has not written yet.
type carried struct {
	On, Shard, At, Epoch int8
	Read                 stored // the state; with a retry also score and rank
	Behind               uint8  // owners that are to be brought up
	Over                 int8   // the version with which the timer has ended on an owner, unknown to the copy
	Left                 bool   // the copy is settled; with CopyThenLeave off
}

// carry is the sweep of a change, in two steps. A node reads a copy and asks the owners. Within
// the next tick the node writes what follows.
func (x *stepper) carry(n int8) {
	if t := &x.now.Changing.Sweeps[n]; t.On != 0 {
		x.carryOn(n, t)
		return
	}
	if !x.maySweep(n) {
		return
	}
	for shard := range x.sc.Shards {
		other := &x.now.Changing.Sweeps[1-n]
		if x.sc.knows(x.now.Changing.Epochs[n], shard) && x.now.reach(n, shard) && (other.On == 0 || other.Shard != shard) {
			x.pickUp(n, shard)
		}
	}
}

// maySweep reports whether a node may sweep (rule "sweep copies to their owners"): the change
// counts, and all nodes know.
func (x *stepper) maySweep(n int8) bool {
	c := &x.now.Changing
	if !x.maySweepNow() {
		return false
	}
	if !x.sc.Rules.SweepSteady {
		return c.Epoch != before
	}
	return (c.Epochs[n] == counting || x.sc.Change == GivesUp && c.Epochs[n] == forgotten) && c.Epoch == c.Epochs[n] && x.now.steady()
}

// pickUp reads a copy and asks the owners. A copy that is leased, or due within 2 s, is left
// alone.
func (x *stepper) pickUp(n, shard int8) {
	epoch, c := x.now.Changing.Epochs[n], x.now.Copies[shard]
	owner, rank := x.sc.owner(epoch, shard), x.sc.rank(epoch, shard)
	busy := x.busy(epoch, shard)
	if busy && !owner {
		return
	}
	t := carried{On: 1, Shard: shard, At: x.now.Now, Epoch: epoch}
	if c.Kind != absent && !busy && !x.askOwners(n, &t) {
		return
	}
	if owner && c.Kind == tombstone {
		t.Behind = 0 // the tombstone stays here until its life is over
	}
	if x.sc.out(epoch, shard) && (x.sc.Factor > 1 || x.sc.Rules.OutRemoved && !x.sc.Variants.OutKept) {
		t.Behind = 0 // the timer is over if no owner knows of it
	}
	if c.Kind == absent || busy || owner && t.Behind == 0 && t.Over == 0 && (c.Rank == rank || c.Kind == tombstone) {
		next := *x.now
		if next.noteSwept(&t); next.Changing.Swept != x.now.Changing.Swept {
			x.maybe(&next, "N%d sweeps S%d: in place", n, shard)
		}
		return
	}
	t.Read = stored{Kind: c.Kind, Version: c.Version, Pop: c.Pop, Attempt: c.Attempt, Rev: c.Rev}
	if c.Attempt > 0 {
		t.Read.Score, t.Read.Rank = c.Score, c.Rank
	}
	next := *x.now
	next.Changing.Sweeps[n] = t
	x.maybe(&next, "N%d sweeps S%d: v%d pop %d attempt %d, behind %b, over %d", n, shard, c.Version, c.Pop, c.Attempt, t.Behind, t.Over)
}

// busy reports whether a copy is leased or due soon.
func (x *stepper) busy(epoch, shard int8) bool {
	c := &x.now.Copies[shard]
	due := c.Score - max(c.Rank, x.sc.rank(epoch, shard))*x.sc.Skew // the copy may wait by a former rank
	if !x.sc.owner(epoch, shard) {
		due -= x.sc.halfSkew()
	}
	if x.sc.Rules.SweepDue && c.Kind == live && c.Attempt == 0 {
		due = min(due, x.now.due(x.sc, c.Version, c.Pop, 0))
	}
	return c.Token != noToken || c.Kind == live && due < x.now.Now+2 && !x.sc.out(epoch, shard)
}

// askOwners compares the copy with the owners, and reports whether all have answered.
func (x *stepper) askOwners(n int8, t *carried) bool {
	c := &x.now.Copies[t.Shard]
	for o := range x.sc.Shards {
		at := &x.now.Copies[o]
		switch {
		case o == t.Shard || !x.sc.owner(t.Epoch, o):
		case !x.now.reach(n, o):
			return false
		case at.Kind == absent || at.order() < c.order() || at.Kind == live && c.revisedSince(at.Version, at.Rev):
			t.Behind |= 1 << o
		case at.Kind == tombstone && at.order() > c.order():
			t.Over = at.Version
		}
	}
	return true
}

// noteSwept notes that every copy on the shard is in place.
func (s *state) noteSwept(t *carried) {
	if t.Epoch == counting && s.Changing.Epoch == counting && s.learnt() {
		s.Changing.Swept |= 1 << t.Shard
	}
}

// carryOn brings owners up, and then settles the copy that was read.
func (x *stepper) carryOn(n int8, t *carried) {
	next := *x.now
	own := &next.Changing.Sweeps[n]
	switch first := !x.sc.Rules.CopyThenLeave && !t.Left; {
	case x.now.Now > t.At+1:
		*own = carried{}
		x.urgent(&next, "N%d sweeps S%d: too late", n, t.Shard)
	case !first && t.Behind != 0 && t.Over == 0:
		x.bringUp(n, t)
	case t.Left:
		*own = carried{}
		x.urgent(&next, "N%d sweeps S%d: finished", n, t.Shard)
	default:
		x.settleDown(n, t)
	}
}

// bringUp writes the state that was read to the next owner that is behind.
func (x *stepper) bringUp(n int8, t *carried) {
	next := *x.now
	own := &next.Changing.Sweeps[n]
	for o := range x.sc.Shards {
		if t.Behind&(1<<o) == 0 {
			continue
		}
		if !x.now.reach(n, o) {
			*own = carried{}
			x.maybe(&next, "N%d sweeps S%d: S%d can't be reached", n, t.Shard, o)
			return
		}
		w := written{kind: tombstone, version: t.Read.Version, why: asDelete}
		if t.Read.Kind == live {
			w = x.now.copied(x.sc, &t.Read, x.sc.rank(t.Epoch, o))
		}
		w.epoch = t.Epoch
		changed := next.merge(x.sc, o, w)
		own.Behind &^= 1 << o
		x.maybe(&next, "N%d sweeps S%d: brings S%d up: %v", n, t.Shard, o, changed)
		if x.mayLose() {
			*own = carried{}
			next.Budget--
			x.maybe(&next, "N%d sweeps S%d: brings S%d up, ANSWER LOST", n, t.Shard, o)
		}
		return
	}
}

// settleDown removes a leftover, merges an end, or gives a copy its new rank.
func (x *stepper) settleDown(n int8, t *carried) {
	next := *x.now
	own, c := &next.Changing.Sweeps[n], &next.Copies[t.Shard]
	left := *t
	left.Left = true
	if *own = (carried{}); !x.sc.Rules.CopyThenLeave {
		*own = left
	}
	if !x.now.reach(n, t.Shard) {
		x.maybe(&next, "N%d sweeps S%d: can't be reached", n, t.Shard)
		return
	}
	exact := c.order() == t.Read.order() && c.Token == noToken && c.Mark <= x.now.Now
	switch rank := x.sc.rank(t.Epoch, t.Shard); {
	case t.Over != 0 && c.Kind != absent:
		next.merge(x.sc, t.Shard, written{kind: tombstone, version: t.Over, why: asDelete, epoch: t.Epoch})
	case t.Over != 0:
	case !x.sc.owner(t.Epoch, t.Shard):
		exact = next.leave(x.sc, t.Shard, t.Read.order())
	case exact:
		if c.Rank = rank; c.Attempt == 0 {
			c.Score = x.now.due(x.sc, c.Version, c.Pop, rank)
		}
	}
	newer := c.Kind == live && c.Version > t.Over && !x.sc.owner(t.Epoch, t.Shard)
	if exact || c.Kind == absent || t.Over != 0 && !newer {
		next.noteSwept(t)
	}
	x.maybe(&next, "N%d sweeps S%d: settles it: %v", n, t.Shard, exact)
	if x.mayLose() {
		next.Changing.Swept = x.now.Changing.Swept
		next.Budget--
		x.maybe(&next, "N%d sweeps S%d: settles it, ANSWER LOST", n, t.Shard)
	}
}
