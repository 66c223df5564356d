package model

// carried is what a node's sweep has read of a shard, and not yet written.
type carried struct {
	On, Shard, At, Epoch int8
	Read                 stored // its state; when it is looked at, and its rank, if it waits for a retry
	Behind, Older        uint8  // homes that are to be brought up; those with an older copy, with SweepOnto
	Over                 int8   // the version with which the timer has ended elsewhere, which the copy doesn't know
	Left                 bool   // the copy is settled, with CopyThenLeave off
}

// carry is the sweep of a change, in two steps: a node reads a copy and asks the
// other homes, and writes within the next tick what follows from that.
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

// maySweep is when a node may sweep (rule "sweep copies to their owners"): the change counts,
// and that is known to all.
func (x *stepper) maySweep(n int8) bool {
	c := &x.now.Changing
	if x.now.WipedAt != 0 && x.now.Now < x.now.WipedAt-1+x.sc.sweepWaits() {
		return false
	}
	if !x.sc.Rules.SweepSteady {
		return c.Epoch != before
	}
	return (c.Epochs[n] == counting || x.sc.Change == GivesUp && c.Epochs[n] == forgotten) && c.Epoch == c.Epochs[n] && x.now.steady()
}

// pickUp reads a copy and asks the other homes. What is leased, or due within 2 s, is
// left alone.
func (x *stepper) pickUp(n, shard int8) {
	epoch, c := x.now.Changing.Epochs[n], x.now.Copies[shard]
	home, rank := x.sc.home(epoch, shard), x.sc.rank(epoch, shard)
	t := carried{On: 1, Shard: shard, At: x.now.Now, Epoch: epoch}
	due := c.Score - rank*x.sc.Skew
	if !home {
		due -= x.sc.Variants.AwayLater
	}
	if x.sc.Variants.SweepDue && c.Kind == live && c.Attempt == 0 {
		due = min(due, x.now.due(x.sc, c.Version, c.Pop, 0))
	}
	busy := c.Token != noToken || c.Kind == live && due < x.now.Now+2 && !x.sc.out(epoch, shard)
	if busy && !home {
		return
	}
	if c.Kind != absent && !busy {
		for o := range x.sc.Shards {
			at := &x.now.Copies[o]
			switch {
			case o == shard || !x.sc.home(epoch, o):
			case !x.now.reach(n, o):
				return
			case at.Kind == absent || at.order() < c.order():
				t.Behind |= 1 << o
				if at.Kind != absent && x.sc.Variants.SweepOnto {
					t.Older |= 1 << o
				}
			case at.Kind == tombstone && at.order() > c.order():
				t.Over = at.Version
			}
		}
	}
	if home && c.Kind == tombstone {
		t.Behind, t.Older = 0, 0 // it is buried from here
	}
	if x.sc.out(epoch, shard) && (x.sc.Homes > 1 || x.sc.Variants.OutRemoved) {
		t.Behind, t.Older = 0, 0 // what no owner knows is over
	}
	if c.Kind == absent || busy || home && t.Behind == 0 && t.Over == 0 && (c.Rank == rank || c.Kind == tombstone) {
		next := *x.now
		if next.noteSwept(&t); next.Changing.Swept != x.now.Changing.Swept {
			x.maybe(&next, "N%d sweeps S%d: in place", n, shard)
		}
		return
	}
	t.Read = stored{Kind: c.Kind, Version: c.Version, Pop: c.Pop, Attempt: c.Attempt}
	if c.Attempt > 0 {
		t.Read.Score, t.Read.Rank = c.Score, c.Rank
	}
	next := *x.now
	next.Changing.Sweeps[n] = t
	x.maybe(&next, "N%d sweeps S%d: v%d pop %d attempt %d, behind %b, over %d", n, shard, c.Version, c.Pop, c.Attempt, t.Behind, t.Over)
}

// noteSwept notes that all on the shard is in place.
func (s *state) noteSwept(t *carried) {
	if t.Epoch == counting && s.Changing.Epoch == counting && s.learnt() {
		s.Changing.Swept |= 1 << t.Shard
	}
}

// carryOn brings homes up, and then settles the copy that was read.
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
		x.urgent(&next, "N%d sweeps S%d: is through", n, t.Shard)
	default:
		x.settleDown(n, t)
	}
}

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
		lost := t.Older&(1<<o) != 0 && next.Copies[o].Kind == absent
		changed := !lost && next.merge(x.sc, o, w)
		own.Behind, own.Older = own.Behind&^(1<<o), own.Older&^(1<<o)
		x.maybe(&next, "N%d sweeps S%d: brings S%d up: %v", n, t.Shard, o, changed)
		if x.mayLose() {
			*own = carried{}
			next.Budget--
			x.maybe(&next, "N%d sweeps S%d: brings S%d up, ANSWER LOST", n, t.Shard, o)
		}
		return
	}
}

// settleDown removes what is in place elsewhere, buries what is over, and gives what
// has another rank now that one.
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
	case !x.sc.home(t.Epoch, t.Shard):
		exact = next.leave(x.sc, t.Shard, t.Read.order())
	case exact:
		if c.Rank = rank; c.Attempt == 0 {
			c.Score = x.now.due(x.sc, c.Version, c.Pop, rank)
		}
	}
	newer := c.Kind == live && c.Version > t.Over && !x.sc.home(t.Epoch, t.Shard)
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
