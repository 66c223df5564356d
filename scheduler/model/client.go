package model

// begin starts a client's operation through this node. The second one comes through the
// other node than the first, at any time after the first has begun.
func (x *stepper) begin(n int8) {
	i := 0
	if x.now.Ops[0].Phase != notBegun {
		i = 1
	}
	if x.now.Ops[i].Phase != notBegun || x.sc.asks(i) == NoOp || i == 1 && x.now.Ops[0].Node == n {
		return
	}
	if x.now.toCreate(x.sc) || x.now.Now < 1 && x.sc.Start != Meeting || x.now.Now > x.sc.OpBy {
		return
	}
	next := *x.now
	op := &next.Ops[i]
	op.Phase, op.Node, op.Began, op.Epoch = begun, n, x.now.Now, x.now.Changing.Epochs[n]
	op.Version = int8(2 + i)
	if x.sc.Behind && x.sc.Second != NoOp {
		op.Version = int8(3 - i)
		op.After = i == 1 && x.now.Ops[0].Phase == answered
	}
	x.maybe(&next, "%s v%d begins through N%d", x.sc.asks(i), op.Version, n)
}

// String is the operation's method.
func (o Op) String() string {
	switch o {
	case Delete:
		return "DELETE"
	case Put:
		return "PUT"
	default:
		return "no operation"
	}
}

// client tells every copy of the operation and then answers it.
func (x *stepper) client(i int) {
	op := &x.now.Ops[i]
	if op.Phase != begun {
		return
	}
	if x.now.Nodes[op.Node] == crashed {
		next := *x.now
		next.Ops[i].Phase, next.Ops[i].Answer = answered, refused
		x.urgent(&next, "%s v%d: no answer, the node died", x.sc.asks(i), op.Version)
		return
	}
	if !x.now.awake(op.Node) {
		return
	}
	told := true
	knows := x.sc.Rules.KnowAway || !x.sc.BareKey
	if x.sc.Start == Meeting {
		knows = x.sc.Rules.KnowAway && op.Named
	}
	for shard := range x.sc.Shards {
		if op.Told&(1<<shard) == 0 && x.sc.looks(op.Epoch, shard, knows) {
			if told = false; !x.tellSecond(i, shard) {
				x.tellOp(i, shard)
			}
		}
	}
	if told && !x.overtaken(i) {
		x.answerOp(i)
	}
}

func (x *stepper) tellOp(i int, shard int8) {
	op, c := &x.now.Ops[i], &x.now.Copies[shard]
	rank := x.sc.rank(op.Epoch, shard)
	next := *x.now
	own := &next.Ops[i]
	own.Told |= 1 << shard
	late := x.sc.asks(i) == Put && x.now.Now > op.Began+1 && x.sc.Rules.NotAfter
	if late || !x.now.reach(op.Node, shard) {
		own.Untold |= 1 << shard
		b := buffered{Version: op.Version, Rank: rank}
		if x.sc.asks(i) == Delete {
			b.Delete = 1
		}
		x.hold(&next, i, op.Node, shard, b)
		x.urgent(&next, "%s v%d: S%d not told", x.sc.asks(i), op.Version, shard)
		return
	}
	w := x.now.wanted(x.sc, i, rank)
	took := next.merge(x.sc, shard, w)
	if took && x.sc.Change != NoChange && w.kind == live && !x.sc.home(op.Epoch, shard) && !x.sc.Variants.NoNote {
		own.Away |= 1 << shard
	}
	own.Named = own.Named || c.Named
	x.found(own, shard, c)
	x.met(own, shard, c, took)
	lost := next
	if c.Mark > x.now.Now || x.now.WipedOn&(1<<shard) != 0 {
		own.Found |= foundFiring
	}
	x.urgent(&next, "%s v%d tells S%d: %v, firing until %d", x.sc.asks(i), op.Version, shard, took, c.Mark)
	if x.mayLose() {
		lost.Budget--
		lost.Ops[i].Untold |= 1 << shard
		x.maybe(&lost, "%s v%d tells S%d, ANSWER LOST", x.sc.asks(i), op.Version, shard)
	}
}

// wanted is what an operation writes onto a copy of this rank.
func (s *state) wanted(sc *Scenario, i int, rank int8) written {
	op := &s.Ops[i]
	if sc.asks(i) == Put {
		return written{kind: live, version: op.Version, pop: 1, score: s.due(sc, op.Version, 1, rank), rank: rank, epoch: op.Epoch}
	}
	return written{kind: tombstone, version: op.Version, score: forever, rank: rank, why: asDelete, epoch: op.Epoch}
}

// found notes what was on a shard that an operation has told.
func (x *stepper) found(own *operation, shard int8, c *stored) {
	if c.Kind != absent {
		own.Found |= foundPresent
	} else if x.sc.Rules.MissingUntold && x.sc.home(own.Epoch, shard) {
		own.Found |= foundMissing
	}
	if x.sc.Change != NoChange && c.Kind != absent && !x.sc.home(own.Epoch, shard) {
		own.Found |= foundElsewhere
		if c.Kind == live {
			own.Found |= foundLive
		}
	}
}

// answerOp is rule "what an answer may say".
func (x *stepper) answerOp(i int) {
	op := &x.now.Ops[i]
	next := *x.now
	own := &next.Ops[i]
	own.Phase, own.AnsweredAt, own.rivalry = answered, x.now.Now, rivalry{}
	if x.sc.Rules.TellOwed && op.Untold != 0 {
		for shard := range x.sc.Shards {
			c := &next.Copies[shard]
			if x.sc.home(op.Epoch, shard) && c.Kind == tombstone && c.Version == op.Version && op.Untold&(1<<shard) == 0 {
				c.Owed = op.Untold
			}
		}
	}
	const partly = foundMissing | foundPresent
	what := "503"
	switch {
	case op.Untold == op.Told || x.homeless(op) || x.sc.Rules.AnswerInTime && x.now.Now > op.Began+2:
		own.Answer = refused
	case op.Found&foundFiring != 0 || op.Found&partly == partly || op.Untold != 0:
		own.Answer, what = inFlight, "in flight"
	default:
		own.Answer, what = clean, "clean"
	}
	if own.Answer != refused {
		next.owe(x.sc, i, op.Untold)
		if x.sc.Variants.MissedNoted && x.sc.Life > 0 {
			next.noteMissed(op.Untold)
		}
	}
	x.urgent(&next, "%s v%d answered: %s", x.sc.asks(i), op.Version, what)
}
