package sitemodel

import "slices"

// move is a possible next event.
type move struct {
	next      state
	site      int8
	label     string
	urgent    bool
	violation Violation
}

// stepper collects the possible next moves of a state.
type stepper struct {
	sc    *Scenario
	now   *state
	moves []move
}

// successors returns the possible next moves. The clock moves only if nothing is urgent.
func (x *stepper) successors(s *state) []move {
	x.now, x.moves = s, x.moves[:0]
	for i := range sites {
		if s.works(x.sc, i) {
			x.look(i)
			x.fence(i)
			x.propagate(i)
			x.tell(i)
			x.readMarks(i)
		}
		x.answerOf(i)
		x.fill(i)
	}
	for k := range x.sc.Writes {
		x.write(k)
	}
	x.faults()
	if !slices.ContainsFunc(x.moves, func(m move) bool { return m.urgent }) && s.Now < x.sc.End {
		x.tick()
	}
	return x.moves
}

// Whether a step can wait.
const (
	atOnce  = true
	anyTime = false
)

// add notes a move of a site.
func (x *stepper) add(i int8, label string, urgent bool, change func(next *state) Violation) {
	m := move{next: *x.now, site: i, label: label, urgent: urgent}
	m.violation = change(&m.next)
	x.moves = append(x.moves, m)
}

// tick moves the clock.
func (x *stepper) tick() {
	n := *x.now
	n.Now++
	calm := n.Cut == 0
	for i := range n.Sites {
		at := &n.Sites[i]
		at.Young = false
		at.Heard = min(at.Heard+1, heardFor+1)
		if at.Stopped > 0 {
			at.Stopped = min(at.Stopped+1, aliveFor+1)
		}
		if at.Empty > 0 {
			at.Empty = min(at.Empty+1, fillAfter+1)
		}
		if at.Out.Version != 0 {
			at.Out.Age++
			if at.Out.Age > 1 {
				at.Out = outcome{}
			}
		}
		if at.Copy.Kind == tombstone && n.Now >= at.Copy.Look && (at.Mark == noMark || !x.sc.Rules.TombstonesWait) {
			at.Copy = record{}
		}
		calm = calm && !at.Lost && at.Empty == 0 && at.Stopped == 0
	}
	if n.Cut != 0 {
		n.Joined = max(n.Joined-1, -siteDelay)
	} else {
		n.Joined = min(max(n.Joined, 0)+1, calmAfter)
	}
	n.Calm = min(n.Calm+1, calmAfter)
	if !calm {
		n.Calm = 0
	}
	x.moves = append(x.moves, move{next: n, site: -1, violation: n.checkLate(x.sc)})
}
