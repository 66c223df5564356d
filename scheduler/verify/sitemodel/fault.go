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
	at.unmark()
	at.Copy, at.Telling, at.Told, at.Held = record{}, false, record{}, 0
	at.Heard, at.Filling, at.Unsure = heardFor+1, 0, false
	if at.Task.Phase == cleared {
		at.Task = task{}
	}
}

// stop has the nodes forget what they have not carried out. A comparison is too old when the nodes go on.
func (at *site) stop() {
	at.Stopped, at.Out, at.Telling, at.Filling, at.Told = 1, outcome{}, false, 0, record{}
	if at.Task.Phase == cleared {
		at.Task = task{}
	}
}

// fill adds the two steps of a fill: the site reads the other site, and later writes what was read.
func (x *stepper) fill(i int8) {
	at := &x.now.Sites[i]
	if at.Empty == 0 || at.Empty <= fillAfter && x.sc.Rules.FillWaits || at.Stopped > 0 || !x.now.reaches(i) || x.now.Sites[1-i].Empty > 0 {
		return
	}
	if at.Filling == 0 {
		x.add(i, "reads the other site to fill itself", x.now.Now > x.sc.Heal+fillAfter, func(n *state) Violation {
			n.Sites[i].Filling, n.Sites[i].Told = 1, n.Sites[1-i].Copy
			return ""
		})
		return
	}
	x.add(i, "is filled", x.now.Now > x.sc.Heal+fillAfter, func(n *state) Violation {
		at := &n.Sites[i]
		n.merge(x.sc, i, at.Told)
		at.Filling, at.Told, at.Empty = 0, record{}, 0
		n.Sites[1-i].Noted = at.Fill
		return ""
	})
}
