package sitemodel

// Violation is a broken promise.
type Violation string

// The violations.
const (
	Early           Violation = "early"
	Late            Violation = "late"
	Lost            Violation = "lost"
	AfterAnswer     Violation = "old version after an answer of the site"
	LateAfterAnswer Violation = "old version over 2 s after an answer, in touch"
	Needless        Violation = "duplicate with no fault"
	Again           Violation = "duplicate outside of a cut"
	Short           Violation = "duplicate in a cut shorter than the delay" // if the home is prompt
	OldPop          Violation = "old pop again after a newer one, outside of a cut"
	LeftOver        Violation = "live copy left at the end"
)

// call notes and judges a callback that starts.
func (s *state) call(sc *Scenario, i, version, pop int8) Violation {
	v := s.judge(sc, i, version, pop)
	if s.Sites[i].Task.Known {
		s.Avoidable |= place(version, pop)
	}
	s.Called |= place(version, pop)
	if s.Calm == calmAfter {
		s.Calmly |= place(version, pop)
	}
	if s.Cut != 0 {
		s.CutCalled |= place(version, pop)
	}
	s.HighestOf[version] = max(s.HighestOf[version], pop)
	return v
}

func (s *state) judge(sc *Scenario, i, version, pop int8) Violation {
	if s.Now < s.due(sc, version, pop) {
		return Early
	}
	for k := range s.Ops {
		op := &s.Ops[k]
		if op.Phase != answered || op.Version <= version || s.forgotten(op.Version) {
			continue
		}
		if op.Confirmed&(1<<i) != 0 {
			return AfterAnswer
		}
		if s.reaches(i) && s.Joined > promised && s.Now > op.At+promised {
			return LateAfterAnswer
		}
	}
	if s.Called&place(version, pop) != 0 {
		v := s.judgeDuplicate(sc, i, place(version, pop))
		if v == Again && pop < s.HighestOf[version] {
			return OldPop
		}
		return v
	}
	return ""
}

// judgeDuplicate judges a callback of a pop that was called before.
func (s *state) judgeDuplicate(sc *Scenario, i int8, bit uint32) Violation {
	switch {
	case s.Calmly&bit != 0:
		return Needless
	case sc.prompt() && s.CutCalled&bit != 0 && s.Joined > -siteDelay:
		return Short
	case (s.Sites[i].Task.Known || s.Avoidable&bit != 0) && s.Joined > promised:
		return Again
	case s.Calm == calmAfter && s.Excused&bit == 0:
		return Again
	}
	return ""
}

// prompt reports whether the home is never late.
func (sc *Scenario) prompt() bool { return sc.Faults&^(Cut|CutOneWay) == 0 && sc.Slow == 0 }

// forgotten reports whether every site that had the version has lost its data, or all its nodes. What both sites have lost
// stays forgotten, though a late write brings the version back.
func (s *state) forgotten(version int8) bool {
	if s.Gone&(1<<version) != 0 {
		return true
	}
	for i := range sites {
		if !s.Sites[i].Dead && s.Sites[i].Held&(1<<version) != 0 {
			return false
		}
	}
	return true
}

// checkLate judges the pops of a timer without a write.
func (s *state) checkLate(sc *Scenario) Violation {
	if sc.Bound == 0 || s.Ops[0].Phase != notBegun || s.Ops[1].Phase != notBegun {
		return ""
	}
	for pop := int8(1); pop <= sc.Pops; pop++ {
		if s.Called&place(1, pop) == 0 && s.Now > s.due(sc, 1, pop)+sc.Bound {
			return Late
		}
	}
	return ""
}

// checkEnd judges the end of the run.
func (s *state) checkEnd(sc *Scenario) Violation {
	version, pops := int8(1), sc.Pops
	for k := range s.Ops {
		op := &s.Ops[k]
		if op.Version <= version || op.Phase == notBegun {
			continue
		}
		version, pops = op.Version, sc.pops(op.Version)
		if op.Phase != answered || sc.Writes[k].Kind == Delete {
			pops = 0 // a write without an answer may count or not
		}
	}
	for pop := int8(1); pop <= pops; pop++ {
		if s.Called&place(version, pop) == 0 && !s.forgotten(version) {
			return Lost
		}
	}
	for i := range sites {
		if at := &s.Sites[i]; at.Copy.Kind == live && at.Stopped == 0 {
			return LeftOver
		}
	}
	return ""
}
