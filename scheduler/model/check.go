package model

// Violation is a promise broken, or a duplicate that a fault excuses.
type Violation string

// The violations.
const (
	AfterAnswer     Violation = "sent after a clean answer"               // promise 5
	LateAfterAnswer Violation = "sent over 2 s after an in-flight answer" // promise 5
	Needless        Violation = "duplicate with no fault"                 // promise 4
	Early           Violation = "early"                                   // promise 2
	Late            Violation = "late"                                    // promise 3
	Missed          Violation = "lost"                                    // promise 1
	Overtaken       Violation = "pop skipped unsent"
	OldPop          Violation = "old pop after a newer one"
	OldAttempt      Violation = "old attempt after a newer one"
	LeftOver        Violation = "live copy left at the end"
	Undead          Violation = "deleted, but live at the end"
	StrayTombstone  Violation = "tombstone away from home left with no fault"
	Stuck           Violation = "stuck"
	LetterAndMore   Violation = "second dead letter with no fault"

	// Unheard is what promise 5 leaves open where an operation could not tell an owner.
	Unheard Violation = "old version while no owner that was told can be reached"
	// Duplicate is what a fault excuses (promise 4). It is counted, but breaks
	// nothing.
	Duplicate Violation = "duplicate after a fault"
	// SecondLetter is the same of dead letters.
	SecondLetter Violation = "second dead letter after a fault"
)

// Excused reports whether a fault excuses it.
func (v Violation) Excused() bool { return v == Duplicate || v == SecondLetter || v == Unheard }

// noteSend notes that a callback starts, and judges it.
func (s *state) noteSend(sc *Scenario, t *task) Violation {
	v := s.checkSend(sc, t)
	place := t.Version*8 + t.Pop
	if place > s.HighestPop {
		s.HighestPop, s.HighestAt = place, t.Attempt
	} else if place == s.HighestPop {
		s.HighestAt = max(s.HighestAt, t.Attempt)
	}
	s.Sent |= sc.bit(t.Version, t.Pop)
	return v
}

func (s *state) checkSend(sc *Scenario, t *task) Violation {
	place := t.Version*8 + t.Pop
	switch {
	case s.Now < s.due(sc, t.Version, t.Pop, 0):
		return Early // promise 2
	case s.replaced(sc, t, clean, 0) != nil:
		return AfterAnswer
	case s.replaced(sc, t, inFlight, 2) != nil:
		op := s.replaced(sc, t, inFlight, 2)
		if told := op.Told &^ op.Untold; op.Untold != 0 && t.Skipped&told == told {
			return Unheard
		}
		return LateAfterAnswer
	case t.Version <= 2 && s.Letters[t.Version-1] != 0 && s.Budget == sc.Budget:
		return LetterAndMore
	case place < s.HighestPop && (sc.Second == NoOp || t.Version == s.HighestPop/8):
		return OldPop
	case place == s.HighestPop && t.Attempt < s.HighestAt:
		return OldAttempt
	}
	if t.Version == 1 && s.Ops[0].Phase == notBegun && s.Sent&sc.bit(1, t.Pop) == 0 {
		before := sc.bit(1, t.Pop) - 1
		if s.Sent&before != before {
			return Overtaken
		}
	}
	return ""
}

// replaced reports whether an operation that replaces this version was so answered, and
// the callback may not start any more.
func (s *state) replaced(sc *Scenario, t *task, answer, after int8) *operation {
	for i := range s.Ops {
		op := &s.Ops[i]
		newer := op.Version > t.Version || op.After && s.op(sc, t.Version) != op
		if sc.asks(i) != NoOp && newer && op.Answer == answer && (after == 0 || s.Now > op.AnsweredAt+after) {
			return op
		}
	}
	return nil
}

// last is the operation that made the newest version, if it was acknowledged.
func (s *state) last(sc *Scenario) (Op, *operation) {
	op, i := &s.Ops[0], 0
	if s.Ops[1].Version > op.Version || s.Ops[1].After && s.Ops[1].Answer != refused {
		op, i = &s.Ops[1], 1
	}
	if op.Answer == clean || op.Answer == inFlight {
		return sc.asks(i), op
	}
	return NoOp, nil
}

// checkSuccess judges a callback that succeeds.
func (s *state) checkSuccess(sc *Scenario, t *task) Violation {
	switch {
	case s.Succeeded&sc.bit(t.Version, t.Pop) == 0:
		return ""
	case s.Budget == sc.Budget:
		return Needless
	default:
		return Duplicate
	}
}

// checkLetter judges a dead letter about to be written.
func (s *state) checkLetter(sc *Scenario, t *task, shard int8) Violation {
	switch {
	case s.Letters[t.Version-1]&^(1<<shard) == 0 && s.Succeeded&sc.bit(t.Version, t.Pop) == 0:
		return "" // the same one again is the same one
	case s.Budget == sc.Budget:
		return LetterAndMore
	default:
		return SecondLetter
	}
}

// checkLate judges pops that should have been sent by now.
func (s *state) checkLate(sc *Scenario) Violation {
	if s.toCreate(sc) {
		return ""
	}
	if s.Ops[0].Phase == notBegun && s.Failures == sc.Failures {
		for pop := int8(1); pop <= sc.Pops; pop++ {
			if s.Sent>>(pop-1) == 0 && s.Now > s.due(sc, 1, pop, 0)+sc.Bound {
				return Late
			}
		}
	}
	last, op := s.last(sc)
	if last == Put && s.Sent&sc.bit(op.Version, 1) == 0 && s.Now > s.due(sc, op.Version, 1, 0)+sc.Bound {
		return Late
	}
	return ""
}

// checkEnd judges what is left when the run is over.
func (s *state) checkEnd(sc *Scenario) Violation {
	if s.Ops[0].Phase == notBegun && s.Letters[0] == 0 && !s.toCreate(sc) {
		for pop := int8(1); pop <= sc.Pops; pop++ {
			if s.Succeeded&sc.bit(1, pop) == 0 && s.Sent>>pop == 0 {
				return Missed
			}
		}
	}
	last, op := s.last(sc)
	if last == Put && s.Succeeded&sc.bit(op.Version, 1) == 0 && s.Letters[1] == 0 {
		return Missed
	}
	for shard := range sc.Shards {
		c := &s.Copies[shard]
		switch {
		case sc.out(s.Changing.Epoch, shard): // it may not have been swept yet
		case c.Kind == live && s.Shards[shard] == up && last == Delete:
			return Undead
		case c.Kind == live && s.Shards[shard] == up:
			return LeftOver
		case c.Kind == tombstone && sc.Change == NoChange && !sc.home(0, shard) && s.Budget == sc.Budget && sc.Op != Delete:
			return StrayTombstone
		}
	}
	return ""
}
