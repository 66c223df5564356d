package sitemodel

// faults adds faults, and their ends.
func (x *stepper) faults() {
	s := x.now
	hurts := s.Budget > 0 && s.Now >= x.sc.From && s.Now < x.sc.Heal
	switch {
	case s.Cut != 0:
		x.add(-1, "the cut heals", s.Now >= x.sc.Heal, func(n *state) Violation {
			n.Cut, n.CutCalled = 0, 0
			return ""
		})
	case hurts && x.sc.Faults&Cut != 0:
		x.hurt(-1, "the sites are cut from each other", func(n *state) { n.Cut, n.Joined = 1<<sites-1, 0 })
	}
	for i := range sites {
		at := &s.Sites[i]
		if hurts && s.Cut == 0 && x.sc.touches(i, CutOneWay) {
			x.hurt(i, "is cut from the other site, one way", func(n *state) { n.Cut, n.Joined = 1<<i, 0 })
		}
		switch {
		case at.Lost:
			continue
		case at.Stopped > 0 && !at.Dead:
			x.add(i, "nodes go on", s.Now >= x.sc.Heal, func(n *state) Violation {
				n.Sites[i].Stopped = 0
				return ""
			})
		case hurts:
			x.hurtSite(i)
		}
	}
}

func (x *stepper) hurt(i int8, label string, change func(*state)) {
	x.add(i, label, anyTime, func(n *state) Violation {
		n.Budget--
		n.Calm, n.Calmly = 0, 0
		change(n)
		return ""
	})
}

func (x *stepper) hurtSite(i int8) {
	at := &x.now.Sites[i]
	if x.sc.touches(i, Lose) {
		x.hurt(i, "is lost", func(n *state) {
			n.loseData(i)
			n.Sites[i] = site{Lost: true}
		})
	}
	if x.sc.touches(i, Wipe) {
		x.hurt(i, "loses all data", func(n *state) {
			n.loseData(i)
			n.Sites[i].Empty = 1
			n.Sites[i].Fill++
		})
	}
	if x.sc.touches(i, WipeSome) {
		x.hurt(i, "loses the timer's shards", func(n *state) {
			n.loseData(i)
			if x.sc.Rules.FillShards {
				n.Sites[i].Empty = 1
				n.Sites[i].Fill++
			}
		})
	}
	if at.Stopped > 0 {
		return
	}
	if x.sc.touches(i, Pause) {
		x.hurt(i, "nodes stand still", func(n *state) { n.Sites[i].stop() })
	}
	if x.sc.touches(i, Die) {
		x.hurt(i, "nodes die", func(n *state) {
			n.Sites[i].stop()
			n.Sites[i].Dead = true
			n.Sites[i].Task = task{}
		})
	}
}

// loseData removes all that the shards of a site have of the timer. A callback under way goes on.
func (s *state) loseData(i int8) {
	at := &s.Sites[i]
	s.Settled, s.Avoidable, s.Excused = 0, 0, s.Called
	if other := &s.Sites[1-i]; other.Empty > 0 {
		s.Gone |= (1<<1 | 1<<s.Ops[0].Version | 1<<s.Ops[1].Version) &^ other.Held
	}
	at.unmark()
	at.Copy, at.Telling, at.Told, at.Held = record{}, false, record{}, 0
	at.Heard, at.Filling, at.Unsure = heardFor+1, unfilled, false
	if at.Task.Phase == cleared {
		at.Task = task{}
	}
}

// stop has the nodes forget what they have not carried out. A comparison is too old when the nodes go on.
func (at *site) stop() {
	at.Stopped, at.Out, at.Telling, at.Filling, at.Told = 1, outcome{}, false, min(at.Filling, fillBegun), record{}
	if at.Task.Phase == cleared {
		at.Task = task{}
	}
}

// fill adds the steps of a fill: the other site is read, what was read is written, and the end is noted. If both sites are
// empty, there is nothing to read.
func (x *stepper) fill(i int8) {
	at := &x.now.Sites[i]
	if at.Empty == 0 || at.Stopped > 0 {
		return
	}
	soon := x.now.Now > x.sc.Heal+fillAfter
	filled := func(label string) {
		x.add(i, label, soon, func(n *state) Violation {
			n.endFill(i)
			return ""
		})
	}
	source := &x.now.Sites[1-i]
	switch {
	case !x.now.reaches(i):
		if !x.sc.Rules.NewAnswered && !source.Lost {
			filled("takes the cluster for new")
		}
	case source.Empty > 0 && at.Filling > unfilled && x.sc.Rules.NewUnfilled:
		filled("has a part of a fill, and is the site with most")
	case source.Empty > 0:
		if source.Filling == unfilled || !x.sc.Rules.NewUnfilled {
			x.add(i, "takes the cluster for new", soon, func(n *state) Violation {
				n.endFill(london)
				n.endFill(newYork)
				return ""
			})
		}
	case at.Filling == unfilled || at.Filling == fillBegun:
		if at.Empty > fillAfter || !x.sc.Rules.FillWaits {
			x.add(i, "reads the other site to fill itself", soon, func(n *state) Violation {
				n.Sites[i].Filling, n.Sites[i].Told = fillRead, n.Sites[1-i].Copy
				return ""
			})
		}
	case at.Filling == fillRead:
		x.add(i, "takes what was read", soon, func(n *state) Violation {
			at := &n.Sites[i]
			n.merge(x.sc, i, at.Told)
			at.Filling, at.Told = fillWritten, record{}
			return ""
		})
	default:
		filled("is filled")
	}
}

// endFill notes that a site has all timers that are left.
func (s *state) endFill(i int8) {
	at := &s.Sites[i]
	at.Filling, at.Told, at.Empty = unfilled, record{}, 0
	s.Sites[1-i].Noted = at.Fill
}
