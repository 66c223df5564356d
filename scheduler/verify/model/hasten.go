package model

// fires reports whether a client may fire the timer.
func (sc *Scenario) fires() bool { return sc.Op == Fire || sc.Second == Fire }

// readPop notes the pop that the newest copy waits for, after readBase. A live copy that is further on is
// newer.
func (op *operation) readPop(c *stored) {
	if c.Kind != live || c.Version != op.Base {
		return
	}
	op.Busy = op.Busy || c.Token != noToken && c.Fired
	if order(live, 0, c.Pop, c.Attempt) > order(live, 0, op.Pop, op.Attempt) {
		op.Pop, op.Attempt = c.Pop, c.Attempt
	}
}

// aimsAt reports whether the copy is exactly in the state of the reading, in any revision.
func (op *operation) aimsAt(c *stored) bool {
	return c.Kind == live && c.Version == op.Base && c.Pop == op.Pop && c.Attempt == op.Attempt
}

// hasten is rule "fire now". The node reads the copies within reach, and has the copies in the newest state come
// due. The copy of the best rank within reach decides, before the rest.
func (x *stepper) hasten(i int) {
	op := &x.now.Ops[i]
	if op.Base == 0 {
		x.aim(i)
		return
	}
	if x.sc.Rules.BestDecides && op.Took == 0 {
		best := x.untried(i)
		switch {
		case op.Sent&^op.Missed != 0:
			x.refuse(i, refused, "the best copy has another state")
		case best < 0:
			x.refuse(i, refused, "503")
		default:
			x.hastenOn(i, best)
		}
		return
	}
	whole := true
	for shard := range x.sc.Shards {
		if op.Sent&(1<<shard) == 0 && x.sc.looks(op.Epoch, shard) {
			whole = false
			x.hastenOn(i, shard)
		}
	}
	if whole {
		x.hastened(i)
	}
}

// untried is the owner of the best rank without the FIRE; -1 for none.
func (x *stepper) untried(i int) int8 {
	op, best := &x.now.Ops[i], int8(-1)
	for shard := range x.sc.Shards {
		if op.Sent&(1<<shard) == 0 && x.sc.owner(op.Epoch, shard) && (best < 0 || x.sc.rank(op.Epoch, shard) < x.sc.rank(op.Epoch, best)) {
			best = shard
		}
	}
	return best
}

// hastened answers a FIRE.
func (x *stepper) hastened(i int) {
	next := *x.now
	own := &next.Ops[i]
	own.Phase, own.AnsweredAt, own.Answer = answered, x.now.Now, refused
	for shard := range x.sc.Shards {
		if x.sc.owner(own.Epoch, shard) && own.Took&(1<<shard) != 0 {
			own.Answer = clean
		}
	}
	own.rivalry = rivalry{}
	x.urgent(&next, "FIRE answered: %v", own.Answer == clean)
}

// aim reads all copies.
func (x *stepper) aim(i int) {
	next := *x.now
	own := &next.Ops[i]
	for shard := range x.sc.Shards {
		if x.sc.looks(own.Epoch, shard) && x.now.reach(own.Node, shard) {
			own.readBase(&x.now.Copies[shard])
		}
	}
	for shard := range x.sc.Shards {
		if x.sc.looks(own.Epoch, shard) && x.now.reach(own.Node, shard) {
			own.readPop(&x.now.Copies[shard])
		}
	}
	if own.Base == 0 || own.Over || own.Busy {
		x.refuse(i, refused, "404, or a callback is under way")
		return
	}
	x.urgent(&next, "FIRE has read v%d.%d pop %d attempt %d", own.Base, own.BaseRev, own.Pop, own.Attempt)
}

// hastenOn is the FIRE on one shard. A leased copy is due already.
func (x *stepper) hastenOn(i int, shard int8) {
	op := &x.now.Ops[i]
	next := *x.now
	own := &next.Ops[i]
	own.Sent |= 1 << shard
	if x.now.Now > op.Began+1 && x.sc.Rules.NotAfter || !x.now.reach(op.Node, shard) {
		own.Missed |= 1 << shard
		x.hold(&next, i, op.Node, shard, delayed{Hastens: true})
		x.urgent(&next, "FIRE misses S%d", shard)
		return
	}
	took := (op.Took != 0 || x.now.Copies[shard].Rev == op.BaseRev) && next.hasten(x.sc, i, shard)
	if took {
		own.Took |= 1 << shard
	}
	x.urgent(&next, "FIRE reaches S%d: %v", shard, took)
	if x.mayLose() {
		own.Took &^= 1 << shard
		own.Missed |= 1 << shard
		next.Budget--
		x.maybe(&next, "FIRE reaches S%d, ANSWER LOST", shard)
	}
}

// hasten has a copy come due now, in the turn of its rank, and reports whether the copy is due then.
func (s *state) hasten(sc *Scenario, i int, shard int8) bool {
	op, c := &s.Ops[i], &s.Copies[shard]
	if c.Kind != live || c.Version != op.Base || sc.Rules.HastenExact && !op.aimsAt(c) {
		return false
	}
	if c.Token != noToken {
		return !c.Fired
	}
	behind := sc.rank(op.Epoch, shard) * sc.Skew
	if !sc.owner(op.Epoch, shard) {
		behind += sc.halfSkew()
	}
	c.Score = min(c.Score, s.Now+behind)
	return true
}

// asked reports whether a client has fired the pop.
func (s *state) asked(sc *Scenario, t *task) bool {
	for i := range s.Ops {
		if op := &s.Ops[i]; sc.write(i) == Fire && op.Base == t.Version && op.Pop == t.Pop {
			return true
		}
	}
	return false
}

// forgotten reports whether a callback in time is missing after an acknowledged FIRE.
func (s *state) forgotten(sc *Scenario) bool {
	for i := range s.Ops {
		op, place := &s.Ops[i], s.Ops[i].Base*8+s.Ops[i].Pop
		if sc.write(i) != Fire || op.Answer != clean || s.Now <= op.AnsweredAt+sc.Bound || sc.write(1-i).replaces() && s.Ops[1-i].Phase != notBegun {
			continue
		}
		over := op.Base <= 1 && s.Succeeded&sc.bit(1, op.Pop) != 0 // by a callback that was under way
		if !over && (s.HighestPop < place || s.HighestPop == place && s.HighestAt <= op.Attempt) {
			return true
		}
	}
	return false
}

// delayedFrom is the pop of the version before, if a DELAY has put off the pop; 0 for any other pop.
func (s *state) delayedFrom(sc *Scenario, t *task) uint8 {
	if t.Version == 1 {
		return 0
	}
	for i := range s.Ops {
		if op := &s.Ops[i]; sc.write(i) == Delay && op.Version == t.Version && op.Base == 1 {
			return sc.bit(1, op.Pop)
		}
	}
	return 0
}
