package model

// begin starts the client's operation through this node.
func (x *stepper) begin(n int8) {
	if x.now.Op.Phase != notBegun || x.sc.Op == NoOp || x.now.toCreate(x.sc) || x.now.Now < 1 && x.sc.Start != Meeting || x.now.Now > x.sc.OpBy {
		return
	}
	next := *x.now
	next.Op.Phase, next.Op.Node, next.Op.Began, next.Op.Epoch = begun, n, x.now.Now, x.now.Changing.Epochs[n]
	x.maybe(&next, "%s begins through N%d", x.sc.Op, n)
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
func (x *stepper) client() {
	op := &x.now.Op
	if op.Phase != begun {
		return
	}
	if x.now.Nodes[op.Node] == crashed {
		next := *x.now
		next.Op.Phase, next.Op.Answer = answered, refused
		x.urgent(&next, "%s: no answer, the node died", x.sc.Op)
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
			told = false
			x.tellOp(shard)
		}
	}
	if told {
		x.answerOp()
	}
}

func (x *stepper) tellOp(shard int8) {
	op, c := &x.now.Op, &x.now.Copies[shard]
	rank := x.sc.rank(op.Epoch, shard)
	next := *x.now
	next.Op.Told |= 1 << shard
	late := x.sc.Op == Put && x.now.Now > op.Began+1 && x.sc.Rules.NotAfter
	if late || !x.now.reach(op.Node, shard) {
		next.Op.Untold |= 1 << shard
		if x.now.Shards[shard] == away && x.now.Buffered.On == 0 {
			next.Buffered = buffered{On: 1, Shard: shard, NotAfter: x.now.Now + 1, Version: 2, Rank: rank}
			if x.sc.Op == Delete {
				next.Buffered.Delete = 1
			}
		}
		x.urgent(&next, "%s: S%d not told", x.sc.Op, shard)
		return
	}
	w := written{kind: tombstone, version: 2, score: forever, rank: rank, why: asDelete, epoch: op.Epoch}
	if x.sc.Op == Put {
		w = written{kind: live, version: 2, pop: 1, score: x.now.due(x.sc, 2, 1, rank), rank: rank, epoch: op.Epoch}
	}
	if next.merge(x.sc, shard, w) && x.sc.Change != NoChange && x.sc.Op == Put && !x.sc.home(op.Epoch, shard) {
		next.Op.Away |= 1 << shard
	}
	next.Op.Named = next.Op.Named || c.Named
	if c.Kind != absent {
		next.Op.Found |= foundPresent
	} else if x.sc.Rules.MissingUntold && x.sc.home(op.Epoch, shard) {
		next.Op.Found |= foundMissing
	}
	if x.sc.Change != NoChange && c.Kind != absent && !x.sc.home(op.Epoch, shard) {
		next.Op.Found |= foundElsewhere
		if c.Kind == live {
			next.Op.Found |= foundLive
		}
	}
	lost := next
	if c.Mark > x.now.Now {
		next.Op.Found |= foundFiring
	}
	x.urgent(&next, "%s tells S%d, firing until %d", x.sc.Op, shard, c.Mark)
	if x.mayLose() {
		lost.Budget--
		lost.Op.Untold |= 1 << shard
		x.maybe(&lost, "%s tells S%d, ANSWER LOST", x.sc.Op, shard)
	}
}

// answerOp is rule "what an answer may say".
func (x *stepper) answerOp() {
	op := &x.now.Op
	next := *x.now
	next.Op.Phase, next.Op.AnsweredAt = answered, x.now.Now
	if x.sc.Rules.TellOwed && op.Untold != 0 {
		for shard := range x.sc.Shards {
			c := &next.Copies[shard]
			if x.sc.home(op.Epoch, shard) && c.Kind == tombstone && c.Version == 2 && op.Untold&(1<<shard) == 0 {
				c.Owed = op.Untold
			}
		}
	}
	const partly = foundMissing | foundPresent
	switch {
	case op.Untold == op.Told || x.homeless() || x.sc.Rules.AnswerInTime && x.now.Now > op.Began+2:
		next.Op.Answer = refused
		x.urgent(&next, "%s answered: 503", x.sc.Op)
	case op.Found&foundFiring != 0 || op.Found&partly == partly || op.Untold != 0:
		next.Op.Answer = inFlight
		x.urgent(&next, "%s answered: in flight", x.sc.Op)
	default:
		next.Op.Answer = clean
		x.urgent(&next, "%s answered: clean", x.sc.Op)
	}
}
