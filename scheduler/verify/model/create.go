package model

// initial is the state in which a scenario begins.
func initial(sc *Scenario) state {
	s := state{Budget: sc.Budget, Failures: sc.Failures}
	for shard := range sc.Shards {
		s.Shards[shard] = up
	}
	switch sc.Start {
	case Creating:
		s.Create.Phase = begun
	case Later:
	case Stored, Unknown:
		for shard := range sc.Factor {
			if shard == 0 || !sc.unknown() {
				s.merge(sc, shard, s.created(sc, before, shard))
			}
		}
	}
	if shard := sc.Paused - 1; shard >= 0 {
		s.Shards[shard] = paused
		s.Budget--
		s.noteSilence(sc)
	}
	if shard := sc.CutOff - 1; shard >= 0 {
		s.Cut |= link(0, shard)
		s.Budget--
		s.noteSilence(sc)
	}
	return s
}

// created is the state that a create writes to a shard.
func (s *state) created(sc *Scenario, epoch, shard int8) written {
	rank := sc.rank(epoch, shard)
	return written{kind: live, version: 1, pop: 1, score: s.due(sc, 1, 1, rank), rank: rank, epoch: epoch}
}

// create is the client's POST through node 0, which writes to every owner and then answers.
func (x *stepper) create() {
	if x.now.toCreate(x.sc) {
		x.createLater()
	}
	if x.now.Create.Phase != begun {
		return
	}
	whole := true
	for shard := range x.sc.Factor {
		if x.now.Create.Sent&(1<<shard) == 0 {
			whole = false
			x.createOn(shard)
		}
	}
	if !whole {
		return
	}
	next := *x.now
	next.Create.Phase = answered
	if missed := x.now.Create.Missed; missed != x.now.Create.Sent {
		next.owe(x.sc, ofCreate, missed)
	}
	x.urgent(&next, "create acknowledged, has missed %b", x.now.Create.Missed)
}

func (x *stepper) createOn(shard int8) {
	next := *x.now
	next.Create.Sent |= 1 << shard
	late := delayed{Version: 1, Rank: shard}
	if !x.now.reach(0, shard) {
		next.Create.Missed |= 1 << shard
		x.hold(&next, 0, 0, shard, late)
		x.urgent(&next, "create: S%d can't be reached", shard)
		return
	}
	next.merge(x.sc, shard, next.created(x.sc, before, shard))
	x.urgent(&next, "create reaches S%d", shard)
	if x.sc.Resent && x.now.Now == 0 {
		x.last().urgent = false
	}
	if x.sc.Resent && next.Delayed[0].On == 0 {
		twice := next
		twice.delay(0, shard, late, wayOfRetry)
		x.maybe(&twice, "create reaches S%d, was sent twice", shard)
	}
	if x.mayLose() {
		next.Create.Missed |= 1 << shard
		next.Budget--
		x.maybe(&next, "create reaches S%d, ANSWER LOST", shard)
	}
}

// toCreate reports whether the create of the scenario Later is still to come.
func (s *state) toCreate(sc *Scenario) bool { return sc.Start == Later && s.Create.Phase != answered }

// createLater is a POST through either node, in one step, to the owners of the time.
func (x *stepper) createLater() {
	for n := range int8(nodes) {
		if !x.now.awake(n) {
			continue
		}
		next := *x.now
		made := false
		epoch := x.now.Changing.Epochs[n]
		for shard := range x.sc.Shards {
			if x.sc.owner(epoch, shard) && x.now.reach(n, shard) {
				made = next.merge(x.sc, shard, next.created(x.sc, epoch, shard)) || made
			}
		}
		if made {
			next.Create.Phase = answered
			x.maybe(&next, "create through N%d", n)
			x.last().urgent = x.now.Now >= x.sc.Interval-4
		}
	}
}
