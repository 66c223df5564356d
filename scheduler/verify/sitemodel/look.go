package sitemodel

// look adds the look of a node at a copy that has come due: a comparison with the other site where a rule asks
// for the comparison.
func (x *stepper) look(i int8) {
	at := &x.now.Sites[i]
	if at.Copy.Kind != live || at.Copy.Look > x.now.Now || at.Task.Phase != idle {
		return
	}
	switch {
	case at.Copy.Home != i:
		x.compareOutside(i)
	case x.now.inTouch(x.sc, i) && !x.overdue(i):
		x.add(i, "is about to call", atOnce, func(n *state) Violation {
			n.clear(i)
			if x.sc.Rules.LimitFromRead && x.sc.Slow > 0 { // otherwise the callback begins within the tick
				n.Sites[i].Task.Since -= at.Heard
			}
			return ""
		})
	case !x.now.answers(x.sc, i):
		x.clear(i, "is about to call")
	case x.now.Sites[1-i].Copy.newer(at.Copy):
		x.adopt(i)
	case x.now.Sites[1-i].leased(at.Copy) && x.sc.Rules.LeaseWaits:
		x.add(i, "waits for the other site", atOnce, func(n *state) Violation {
			n.Sites[i].Copy.Look = n.Now + skew
			return ""
		})
	default:
		x.add(i, "compares and is about to call", atOnce, func(n *state) Violation {
			if n.Sites[i].Copy.same(n.Sites[1-i].Copy) {
				n.alike(x.sc)
			}
			n.clear(i)
			return ""
		})
	}
}

func (x *stepper) clear(i int8, label string) {
	x.add(i, label, atOnce, func(n *state) Violation {
		n.clear(i)
		return ""
	})
}

// overdue reports whether the copy of the other site may have come due, too.
func (x *stepper) overdue(i int8) bool {
	c := &x.now.Sites[i].Copy
	return x.sc.Rules.OverdueCompares && x.now.Now >= x.now.due(x.sc, c.Version, c.Pop)+siteDelay
}

func (s *state) clear(i int8) {
	at := &s.Sites[i]
	at.Task = task{Phase: cleared, Version: at.Copy.Version, Pop: at.Copy.Pop, Since: s.Now}
	over := s.Settled&place(at.Copy.Version, at.Copy.Pop) != 0
	at.Task.Known = over || s.Sites[1-i].leased(at.Copy)
}

// leased reports whether a site is about to call the pop, or calls the pop.
func (at *site) leased(r record) bool {
	return at.Stopped == 0 && at.Empty == 0 && at.Task.Phase != idle && at.Task.Version == r.Version && at.Task.Pop == r.Pop
}

func (x *stepper) adopt(i int8) {
	x.add(i, "adopts the newer state", atOnce, func(n *state) Violation {
		n.merge(x.sc, i, n.Sites[1-i].Copy)
		n.alike(x.sc)
		return ""
	})
}

// compareOutside is the look at a copy outside of the home.
func (x *stepper) compareOutside(i int8) {
	s, r := x.now, &x.sc.Rules
	mine, home := &s.Sites[i], &s.Sites[1-i]
	reached := s.answers(x.sc, i)
	switch {
	case !r.Compare || !reached && (r.RemoveReached || !r.RemoveOver):
		x.clear(i, "goes on")
	case !reached || home.Copy.Kind == absent:
		x.removeOver(i)
	case home.Copy.newer(mine.Copy) && r.Adopt:
		x.adopt(i)
	case r.Yield && home.Copy.same(mine.Copy) && (home.Stopped < aliveFor || !r.Heartbeat):
		x.add(i, "yields", atOnce, func(n *state) Violation {
			c := &n.Sites[i].Copy
			c.Look = n.Now + max(skew, n.Now-n.turn(x.sc, i, *c))
			return ""
		})
	default:
		x.clear(i, "goes on")
	}
}

// removeOver removes a copy whose timer is over at the home.
func (x *stepper) removeOver(i int8) {
	r, mine, home := &x.sc.Rules, &x.now.Sites[i], &x.now.Sites[1-i]
	lacking := mine.Mark == versionMark || mine.Mark == popMark && !r.OutcomeOntoLive
	switch {
	case !r.RemoveOver, r.RemoveUnmarked && lacking, r.RemoveFilled && mine.Noted != home.Fill:
		x.clear(i, "goes on")
	default:
		x.add(i, "removes the copy", atOnce, func(n *state) Violation {
			n.Sites[i].Copy = record{}
			return ""
		})
	}
}

// readMarks adds that the home reads the marks of the other site. A mark of this tick may be overlooked.
func (x *stepper) readMarks(i int8) {
	at, other := &x.now.Sites[i], &x.now.Sites[1-i]
	if at.Copy.Kind != live || at.Copy.Home != i || at.Heard == 0 || !x.sc.Rules.InTouch || !x.now.answers(x.sc, i) {
		return
	}
	counts := x.sc.Rules.AnyMark || other.Copy.Home == i
	if other.Mark != noMark && !other.Young && counts {
		if at.Heard <= heardFor {
			x.add(i, "reads of a mark", anyTime, func(n *state) Violation {
				n.Sites[i].Heard = heardFor + 1
				return ""
			})
		}
		return
	}
	x.add(i, "is in touch", anyTime, func(n *state) Violation {
		n.Sites[i].Heard = 0
		n.sure(x.sc, i)
		return ""
	})
}
