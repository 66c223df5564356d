package model

// create is the client's POST through node 0: every home is told, one that can't
// be reached is replaced, and the answer given.
func (x *stepper) create() {
	if x.now.toCreate(x.sc) {
		x.createLater()
	}
	if x.now.Create.Phase != begun {
		return
	}
	told := true
	for shard := range x.sc.Homes {
		if x.now.Create.Told&(1<<shard) == 0 {
			told = false
			x.createOn(shard)
		}
	}
	if !told {
		return
	}
	if x.sc.Start == Meeting {
		x.meet()
		return
	}
	next := *x.now
	next.Create.Phase = answered
	if x.now.Create.Untold != x.now.Create.Told {
		next.owe(x.sc, ofCreate, x.now.Create.Untold)
	}
	for shard := range x.sc.Homes {
		if x.now.Create.Untold&(1<<shard) != 0 && x.sc.Shards > x.sc.Homes && x.now.reach(0, x.sc.Homes) {
			next.substitute(x.sc, shard)
		}
	}
	x.urgent(&next, "create acknowledged, not told %b", x.now.Create.Untold)
}

func (x *stepper) createOn(shard int8) {
	next := *x.now
	next.Create.Told |= 1 << shard
	if !x.now.reach(0, shard) {
		next.Create.Untold |= 1 << shard
		x.hold(&next, 0, 0, shard, buffered{Version: 1, Rank: shard})
		x.urgent(&next, "create: S%d can't be reached", shard)
		return
	}
	next.store(x.sc, shard, shard, next.due(x.sc, 1, 1, shard))
	x.urgent(&next, "create tells S%d", shard)
	if x.mayLose() {
		next.Create.Untold |= 1 << shard
		next.Budget--
		x.maybe(&next, "create tells S%d, ANSWER LOST", shard)
	}
}

// store puts the new timer onto a shard.
func (s *state) store(sc *Scenario, shard, rank, score int8) {
	s.merge(sc, shard, written{kind: live, version: 1, pop: 1, score: score, rank: rank, why: asCreate})
}

// substitute puts the copy of this rank onto the shard behind the homes (copies away from owners, which the product makes no more).
func (s *state) substitute(sc *Scenario, rank int8) {
	if sc.Variants.NoSubstitutes {
		return
	}
	score := s.due(sc, 1, 1, rank)
	score += sc.Variants.AwayLater
	if sc.Rules.Look && !sc.Variants.AwayAsBackup {
		score--
	}
	s.store(sc, sc.Homes, rank, score)
}

// initial is the state a scenario begins in.
func initial(sc *Scenario) state {
	s := state{Budget: sc.Budget, Failures: sc.Failures}
	for shard := range sc.Shards {
		s.Shards[shard] = up
	}
	if sc.Start == Creating || sc.Start == Meeting {
		s.Create.Phase = begun
		return s
	}
	if sc.Start == Later {
		return s
	}
	lacking := int8(sc.Start - Substitute0)
	for shard := range sc.Homes {
		if sc.unknown() && shard > 0 {
			continue
		}
		if sc.Start != AtHome && shard == lacking {
			s.substitute(sc, shard)
			continue
		}
		s.store(sc, shard, shard, s.due(sc, 1, 1, shard))
	}
	return s
}
