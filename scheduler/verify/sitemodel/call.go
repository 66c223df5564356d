package sitemodel

// fence adds the callback, if the copy still is in the state that was compared.
func (x *stepper) fence(i int8) {
	at := &x.now.Sites[i]
	if at.Task.Phase != cleared {
		return
	}
	if !at.waitsFor(at.Task.Version, at.Task.Pop) || x.now.Now > at.Task.Since+x.sc.Slow {
		x.add(i, "is refused by the fence", atOnce, func(n *state) Violation {
			n.Sites[i].Task = task{}
			return ""
		})
		return
	}
	x.add(i, "calls", x.now.Now >= at.Task.Since+x.sc.Slow, func(n *state) Violation {
		t := &n.Sites[i].Task
		t.Phase, t.Since = calling, n.Now
		return n.call(x.sc, i, t.Version, t.Pop)
	})
}

// waitsFor reports whether the copy waits for this pop.
func (at *site) waitsFor(version, pop int8) bool {
	return at.Copy.Kind == live && at.Copy.Version == version && at.Copy.Pop == pop
}

// answerOf adds the answer of the receiver, and the outcome on the copy.
func (x *stepper) answerOf(i int8) {
	t := x.now.Sites[i].Task
	if t.Phase != calling || x.now.Sites[i].Stopped > 0 {
		return
	}
	x.add(i, "has the outcome", x.now.Now >= t.Since+x.sc.Hold, func(n *state) Violation {
		at := &n.Sites[i]
		at.Task = task{}
		if !at.waitsFor(t.Version, t.Pop) {
			return ""
		}
		if n.works(x.sc, i) { // an emptied site tells nobody
			n.Settled |= place(t.Version, t.Pop)
		}
		r := &x.sc.Rules
		outside := at.Copy.Home != i
		unsure := !outside && at.Unsure && t.Pop == x.sc.pops(t.Version)
		if outside && r.OutcomeMarked || unsure && r.UnsureEndMarked {
			at.mark(x.sc, popMark)
		}
		if !outside {
			at.Out = outcome{Version: t.Version, Pop: t.Pop}
		}
		n.settle(x.sc, i)
		return ""
	})
}

// settle writes the outcome of the copy's pop to the copy.
func (s *state) settle(sc *Scenario, i int8) {
	at := &s.Sites[i]
	switch {
	case at.Copy.Pop < sc.pops(at.Copy.Version):
		at.Copy.Pop++
		at.Copy.Look = s.turn(sc, i, at.Copy)
	case at.Mark != noMark && sc.Rules.EndKept, s.Now <= s.writtenAt(sc, at.Copy.Version)+youngFor:
		at.Copy.Kind = tombstone
		at.Copy.Look = s.turn(sc, i, at.Copy)
	default:
		at.Copy = record{}
	}
}

// propagate adds that the home tells the other site of an outcome. The message may be lost.
func (x *stepper) propagate(i int8) {
	out := x.now.Sites[i].Out
	if out.Version == 0 || !x.now.answers(x.sc, i) {
		return
	}
	x.add(i, "tells of the outcome", anyTime, func(n *state) Violation {
		n.Sites[i].Out = outcome{}
		other := &n.Sites[1-i]
		switch {
		case other.waitsFor(out.Version, out.Pop):
			n.settle(x.sc, 1-i)
		case other.Copy.Kind != live || other.Copy.Version >= out.Version:
		case out.Pop == x.sc.pops(out.Version):
			n.merge(x.sc, 1-i, record{Kind: tombstone, Version: out.Version, Home: i})
		}
		return ""
	})
}

// tell adds that a node tells the other site of a marked copy, and removes the mark.
func (x *stepper) tell(i int8) {
	at := &x.now.Sites[i]
	switch {
	case at.Telling:
		x.add(i, "removes the mark", atOnce, func(n *state) Violation {
			at := &n.Sites[i]
			if !x.sc.Rules.ClearExact || at.Copy.same(at.Told) {
				at.unmark()
			}
			at.Telling, at.Told = false, record{}
			return ""
		})
	case at.Mark != noMark && x.now.answers(x.sc, i) && at.Copy.Kind == absent:
		x.add(i, "finds nothing to tell", anyTime, func(n *state) Violation {
			n.Sites[i].unmark()
			return ""
		})
	case at.Mark != noMark && x.now.answers(x.sc, i):
		x.add(i, "tells of the marked copy", anyTime, func(n *state) Violation {
			at := &n.Sites[i]
			at.Telling, at.Told = true, at.Copy
			if x.sc.Rules.ToldClears && at.Copy.newer(n.Sites[1-i].Copy) {
				n.Sites[1-i].unmark()
			}
			if at.Mark == versionMark || !x.sc.Rules.OutcomeOntoLive || n.Sites[1-i].Copy.Kind != absent {
				n.merge(x.sc, 1-i, at.Copy)
			}
			return ""
		})
	}
}
