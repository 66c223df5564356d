package model

// begin starts a client's write through this node. The second write comes through the other node,
// at any time after the first write has begun.
func (x *stepper) begin(n int8) {
	i := 0
	if x.now.Ops[0].Phase != notBegun {
		i = 1
	}
	if x.now.Ops[i].Phase != notBegun || x.sc.write(i) == NoOp || i == 1 && x.now.Ops[0].Node == n {
		return
	}
	if x.now.toCreate(x.sc) || x.now.Create.Phase == begun || x.now.Now < 1 || x.now.Now > x.sc.OpBy {
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
	if kind := x.sc.write(i); kind == Patch || kind == Fire {
		op.Version = 0
	}
	x.maybe(&next, "%s v%d begins through N%d", x.sc.write(i), op.Version, n)
}

// String is the method of the write.
func (o Op) String() string {
	switch o {
	case Delete:
		return "DELETE"
	case Put:
		return "PUT"
	case Patch:
		return "PATCH"
	case Fire:
		return "FIRE"
	case Delay:
		return "DELAY"
	default:
		return "no operation"
	}
}

// client sends a write to every copy and then answers.
func (x *stepper) client(i int) {
	op := &x.now.Ops[i]
	if op.Phase != begun {
		return
	}
	if x.now.Nodes[op.Node] == crashed {
		next := *x.now
		next.Ops[i].Phase, next.Ops[i].Answer = answered, refused
		x.urgent(&next, "%s v%d: no answer, the node died", x.sc.write(i), op.Version)
		return
	}
	if !x.now.awake(op.Node) {
		return
	}
	kind := x.sc.write(i)
	if kind == Fire {
		x.hasten(i)
		return
	}
	if (x.sc.asks(i) || kind == Patch || kind == Delay) && x.condition(i) {
		return
	}
	whole := true
	for shard := range x.sc.Shards {
		if op.Sent&(1<<shard) == 0 && x.sc.looks(op.Epoch, shard) {
			if whole = false; !x.leaveOut(i, shard) {
				x.send(i, shard)
			}
		}
	}
	if whole && !x.overtaken(i) {
		x.answerTo(i)
	}
}

// leaveOut deals with the second owner of a timer whose factor clients don't know. The second
// owner is written to only once the first owner has not answered. The result is whether nothing
// remains to be written now.
func (x *stepper) leaveOut(i int, shard int8) bool {
	op := &x.now.Ops[i]
	if !x.sc.unknown() || shard == 0 {
		return false
	}
	next := *x.now
	switch {
	case op.Sent&1 == 0:
		return true
	case op.Missed&1 == 0:
		next.Ops[i].Sent |= 1 << shard
	case x.sc.write(i) == Delete && x.sc.Rules.OwnersTold:
		next.Ops[i].Sent |= 1 << shard
		next.Ops[i].Missed |= 1 << shard
	default:
		return false
	}
	x.urgent(&next, "%s v%d leaves S%d out", x.sc.write(i), op.Version, shard)
	return true
}

// send is the write on one shard.
func (x *stepper) send(i int, shard int8) {
	op, c, kind := &x.now.Ops[i], &x.now.Copies[shard], x.sc.write(i)
	next := *x.now
	own := &next.Ops[i]
	own.Sent |= 1 << shard
	late := kind != Delete && x.now.Now > op.Began+1 && x.sc.Rules.NotAfter
	if late || !x.now.reach(op.Node, shard) {
		own.Missed |= 1 << shard
		b := delayed{Version: op.Version, Rank: x.sc.rank(op.Epoch, shard), Rev: op.Rev}
		if kind == Delete {
			b.Delete = 1
		}
		x.hold(&next, i, op.Node, shard, b)
		x.urgent(&next, "%s v%d misses S%d", kind, op.Version, shard)
		return
	}
	took := next.merge(x.sc, shard, x.now.wanted(x.sc, i, shard))
	if kind == Patch && c.Kind == absent && x.sc.owner(op.Epoch, shard) {
		own.Found |= foundNothing
	}
	if c.Kind != absent && !x.sc.owner(op.Epoch, shard) {
		own.Found |= foundElsewhere
	}
	x.met(own, shard, c, took)
	lost := next
	if c.Mark > x.now.Now || x.sc.Rules.LossSaid && x.now.LostOn&(1<<shard) != 0 {
		own.Found |= foundFiring
	}
	x.urgent(&next, "%s v%d reaches S%d: %v, firing until %d", kind, op.Version, shard, took, c.Mark)
	if x.mayLose() {
		lost.Budget--
		lost.Ops[i].Missed |= 1 << shard
		x.maybe(&lost, "%s v%d reaches S%d, ANSWER LOST", kind, op.Version, shard)
	}
}

// wanted is the state that a client's write writes to a shard.
func (s *state) wanted(sc *Scenario, i int, shard int8) written {
	op := &s.Ops[i]
	rank := sc.rank(op.Epoch, shard)
	switch sc.write(i) {
	case Patch:
		return written{
			kind: live, version: op.Version, pop: 1, score: s.due(sc, op.Version, 1, rank), rev: op.Rev, rank: rank, why: asPatch, epoch: op.Epoch,
		}
	case Put, Delay:
		return written{kind: live, version: op.Version, pop: 1, score: s.due(sc, op.Version, 1, rank), rank: rank, epoch: op.Epoch}
	default:
		return written{kind: tombstone, version: op.Version, score: forever, rank: rank, why: asDelete, epoch: op.Epoch}
	}
}

// answerTo is rule "what an answer may say".
func (x *stepper) answerTo(i int) {
	op := &x.now.Ops[i]
	next := *x.now
	own := &next.Ops[i]
	own.Phase, own.AnsweredAt, own.rivalry = answered, x.now.Now, rivalry{}
	what := "503"
	switch {
	case op.Found&foundNothing != 0 && x.sc.Rules.PatchWhole, op.Missed == op.Sent || !x.acknowledged(op) || x.sc.Rules.AnswerInTime && x.now.Now > op.Began+2:
		own.Answer = refused
	case op.Found&foundFiring != 0 || op.Missed != 0:
		own.Answer, what = inFlight, "in flight"
	default:
		own.Answer, what = clean, "clean"
	}
	var met Violation
	if own.Answer != refused {
		met = x.now.checkMet(x.sc, i)
		next.owe(x.sc, i, op.Missed)
		next.noteMissed(x.sc, op.Missed)
	}
	x.urgent(&next, "%s v%d answered: %s", x.sc.write(i), op.Version, what)
	x.blame(met)
}

// acknowledged is rule "a write needs an owner". Without the rule a record on any other shard
// is enough.
func (x *stepper) acknowledged(op *operation) bool {
	if x.sc.Change == NoChange || op.Found&foundElsewhere != 0 && !x.sc.Rules.OwnersTold {
		return true
	}
	for shard := range x.sc.Shards {
		if x.sc.owner(op.Epoch, shard) && op.Sent&^op.Missed&(1<<shard) != 0 {
			return true
		}
	}
	return false
}
