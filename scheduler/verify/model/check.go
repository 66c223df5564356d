package model

// Violation is a broken promise, or a duplicate that a fault excuses.
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
	Stuck           Violation = "stuck"
	Unmet           Violation = "a write succeeds whose condition does not hold"
	Unwanted        Violation = "a write in force whose condition did not hold"
	LetterAndMore   Violation = "second dead letter with no fault"

	// Unheard is the case that promise 5 leaves open after a write that has missed an owner.
	Unheard Violation = "old version while no owner with the write can be reached"
	// UnmetUnheard is the same case of a condition: the first owner can't know of a write that has missed
	// the first owner, or was lost there.
	UnmetUnheard Violation = "a condition does not hold after a write that the first owner does not know"
	// Duplicate is excused by a fault (promise 4), and breaks nothing.
	Duplicate Violation = "duplicate after a fault"
	// SecondLetter is a dead letter that a fault excuses.
	SecondLetter Violation = "second dead letter after a fault"
)

// Excused reports whether a fault excuses the violation.
func (v Violation) Excused() bool {
	return v == Duplicate || v == SecondLetter || v == Unheard || v == UnmetUnheard
}

// noteSend notes that a callback starts, and judges the callback.
func (s *state) noteSend(sc *Scenario, t *task) Violation {
	v := s.checkSend(sc, t)
	place := t.Version*8 + t.Pop
	if place > s.HighestPop {
		s.HighestPop, s.HighestAt = place, t.Attempt
	} else if place == s.HighestPop {
		s.HighestAt = max(s.HighestAt, t.Attempt)
	}
	s.Called |= sc.bit(t.Version, t.Pop)
	return v
}

func (s *state) checkSend(sc *Scenario, t *task) Violation {
	place := t.Version*8 + t.Pop
	switch {
	case s.Now < s.due(sc, t.Version, t.Pop, 0) && !s.asked(sc, t):
		return Early // promise 2
	case t.Version > 1 && s.op(sc, t.Version).Answer == unmet:
		return Unwanted
	case t.Rev > 0 && s.revised(t.Rev).Answer == unmet:
		return Unwanted
	case s.replaced(sc, t, clean, 0) != nil:
		return AfterAnswer
	case s.replaced(sc, t, inFlight, 2) != nil:
		op := s.replaced(sc, t, inFlight, 2)
		if took := op.Sent &^ op.Missed; op.Missed != 0 && t.Skipped&took == took {
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
	if t.Version == 1 && s.unreplaced(sc) && s.Called&sc.bit(1, t.Pop) == 0 {
		before := sc.bit(1, t.Pop) - 1
		if s.Called&before != before {
			return Overtaken
		}
	}
	return ""
}

// replaced returns a newer write with the given answer, if the callback may not start any more
// after the write; else nil.
func (s *state) replaced(sc *Scenario, t *task, answer, after int8) *operation {
	for i := range s.Ops {
		op := &s.Ops[i]
		newer := op.Version > t.Version || op.Version == t.Version && op.Rev > t.Rev || op.After && s.op(sc, t.Version) != op
		if sc.write(i) != NoOp && newer && op.Answer == answer && (after == 0 || s.Now > op.AnsweredAt+after) {
			return op
		}
	}
	return nil
}

// unreplaced reports whether no write may have replaced the version of the start.
func (s *state) unreplaced(sc *Scenario) bool {
	for i := range s.Ops {
		if s.Ops[i].Phase != notBegun && sc.write(i).replaces() {
			return false
		}
	}
	return true
}

// last is the write of the newest version, if the write was acknowledged.
func (s *state) last(sc *Scenario) (Op, *operation) {
	op, i := &s.Ops[0], 0
	if !sc.Op.replaces() || s.Ops[1].Version > op.Version && sc.Second.replaces() || s.Ops[1].After && s.Ops[1].Answer != refused {
		op, i = &s.Ops[1], 1
	}
	if sc.write(i).replaces() && (op.Answer == clean || op.Answer == inFlight) {
		return sc.write(i), op
	}
	return NoOp, nil
}

// checkSuccess judges a callback that succeeds.
func (s *state) checkSuccess(sc *Scenario, t *task) Violation {
	switch {
	case s.Succeeded&sc.bit(t.Version, t.Pop) == 0 && s.Succeeded&s.delayedFrom(sc, t) == 0:
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
		return "" // the same letter again
	case s.Budget == sc.Budget:
		return LetterAndMore
	default:
		return SecondLetter
	}
}

// checkLate judges pops whose callback is late by now.
func (s *state) checkLate(sc *Scenario) Violation {
	if s.toCreate(sc) {
		return ""
	}
	if s.unreplaced(sc) && s.Failures == sc.Failures {
		for pop := int8(1); pop <= sc.Pops; pop++ {
			if s.Called>>(pop-1) == 0 && s.Now > s.due(sc, 1, pop, 0)+sc.Bound {
				return Late
			}
		}
	}
	if s.forgotten(sc) {
		return Late
	}
	last, op := s.last(sc)
	if (last == Put || last == Delay) && s.Called&sc.bit(op.Version, 1) == 0 && s.Now > s.due(sc, op.Version, 1, 0)+sc.Bound {
		return Late
	}
	return ""
}

// checkEnd judges the end of the run.
func (s *state) checkEnd(sc *Scenario) Violation {
	if s.unreplaced(sc) && s.Letters[0] == 0 && !s.toCreate(sc) {
		for pop := int8(1); pop <= sc.Pops; pop++ {
			if s.Succeeded&sc.bit(1, pop) == 0 && s.Called>>pop == 0 {
				return Missed
			}
		}
	}
	last, op := s.last(sc)
	if (last == Put || last == Delay) && s.Succeeded&sc.bit(op.Version, 1) == 0 && s.Letters[1] == 0 {
		return Missed
	}
	for shard := range sc.Shards {
		c := &s.Copies[shard]
		switch {
		case sc.out(s.Changing.Epoch, shard): // perhaps not swept yet
		case c.Kind == live && s.Shards[shard] == up && last == Delete:
			return Undead
		case c.Kind == live && s.Shards[shard] == up:
			return LeftOver
		}
	}
	return ""
}

// checkMet judges a write that succeeds, if one of both writes has a condition: the other write has
// succeeded with the same condition, or was answered before, or has the older version and therefore
// comes before. A PATCH has what it has read as its condition.
func (s *state) checkMet(sc *Scenario, i int) Violation {
	op, other := &s.Ops[i], &s.Ops[1-i]
	succeeded := other.Answer == clean || other.Answer == inFlight
	if sc.asks(i) && succeeded && (sc.asks(1-i) || other.AnsweredAt < op.Began) {
		return Unmet
	}
	if sc.If == SecondAsks && succeeded && s.Ops[1].Version > s.Ops[0].Version {
		if s.Ops[0].Missed != 0 || s.LostAt != 0 {
			return UnmetUnheard
		}
		return Unmet
	}
	older := op.Base < other.Version || op.Base == other.Version && op.BaseRev < other.Rev
	same := op.Base == other.Base && op.BaseRev == other.BaseRev
	if op.Rev > 0 && succeeded && sc.write(1-i) != Fire && (same || older && other.AnsweredAt < op.Began) {
		return Unmet
	}
	return ""
}
