package sitemodel

// write adds the moves of a client's write.
func (x *stepper) write(k int) {
	w, op := &x.sc.Writes[k], &x.now.Ops[k]
	if w.Kind == NoWrite {
		return
	}
	switch {
	case op.Phase == notBegun && x.now.Now >= w.From && x.now.Now <= w.By && x.now.works(x.sc, w.Site):
		x.begin(k)
	case op.Phase == begun:
		x.mergeOwn(k)
		x.mergeOther(k)
		x.answer(k)
	case op.Phase == answered && x.now.Now <= op.At+1:
		x.mergeOther(k)
	}
}

// begin adds the begin of a write. While the sites don't hear each other, a clock may be behind.
func (x *stepper) begin(k int) {
	w := x.sc.Writes[k]
	other := x.now.Ops[1-k]
	label := [...]string{Put: "begins a PUT", Delete: "begins a DELETE"}[w.Kind]
	start := func(version int8) {
		x.add(w.Site, label, anyTime, func(n *state) Violation {
			copied := n.Sites[w.Site].Copy
			home := w.Site
			if copied.Kind != absent && !x.sc.Rules.HomeMoves {
				home = copied.Home
			}
			n.Ops[k] = operation{Phase: begun, Version: version, Home: home, Due: n.Now + w.In}
			return ""
		})
	}
	if other.Version == 0 {
		start(3)
		return
	}
	start(4)
	if x.now.Cut != 0 && x.now.Sites[w.Site].Copy.Version < other.Version && x.now.Now <= x.now.writtenAt(x.sc, other.Version)+clocksApart {
		start(2)
	}
}

// written is the record of a write at a site.
func (x *stepper) written(k int, i int8) record {
	op := x.now.Ops[k]
	r := record{Kind: live, Version: op.Version, Pop: 1, Home: op.Home}
	if x.sc.Writes[k].Kind == Delete {
		r.Kind, r.Pop = tombstone, 0
	}
	if !x.sc.Rules.HomeAlike {
		r.Home = i
	}
	return r
}

func (x *stepper) mergeOwn(k int) {
	own := x.sc.Writes[k].Site
	if x.now.Ops[k].Merged&(1<<own) != 0 {
		return
	}
	if !x.now.works(x.sc, own) {
		x.refuse(k, "refuses the write")
		return
	}
	if x.now.Sites[own].Copy.Version > x.now.Ops[k].Version {
		x.renew(k)
		return
	}
	x.add(own, "writes its own copy", atOnce, func(n *state) Violation {
		n.Ops[k].Merged |= 1 << own
		n.merge(x.sc, own, x.written(k, own))
		return ""
	})
}

// mergeOther adds the write to the other site, in time or late.
func (x *stepper) mergeOther(k int) {
	op, own := &x.now.Ops[k], x.sc.Writes[k].Site
	other := 1 - own
	waits := x.sc.Rules.OwnFirst && op.Merged&(1<<own) == 0
	if waits || op.Merged&(1<<other) != 0 || !x.now.answers(x.sc, own) {
		return
	}
	if x.now.Sites[other].Copy.Version > op.Version {
		if op.Phase == begun {
			x.renew(k)
		}
		return
	}
	x.add(own, "writes the copy of the other site", anyTime, func(n *state) Violation {
		n.Ops[k].Merged |= 1 << other
		n.merge(x.sc, other, x.written(k, other))
		return ""
	})
}

// renew adds that a write that met a newer write gets a version above the newer write.
func (x *stepper) renew(k int) {
	above := max(x.now.Ops[0].Version, x.now.Ops[1].Version) + 1
	if above > lastVersion {
		x.refuse(k, "gives up")
		return
	}
	x.add(x.sc.Writes[k].Site, "renews the version of the write", atOnce, func(n *state) Violation {
		n.Ops[k].Version, n.Ops[k].Merged = above, 0
		return ""
	})
}

func (x *stepper) refuse(k int, label string) {
	x.add(x.sc.Writes[k].Site, label, atOnce, func(n *state) Violation {
		n.Ops[k].Phase = refused
		return ""
	})
}

// answer adds the answer of a write: confirmed by both sites, or by the own site alone.
func (x *stepper) answer(k int) {
	op, own := &x.now.Ops[k], x.sc.Writes[k].Site
	if op.Merged&(1<<own) == 0 {
		return
	}
	if !x.now.works(x.sc, own) {
		x.refuse(k, "gives no answer")
		return
	}
	say := func(label string, marked bool, cost int8) {
		x.add(own, label, atOnce, func(n *state) Violation {
			op := &n.Ops[k]
			op.Phase, op.At, op.Confirmed = answered, n.Now, op.Merged
			n.Budget -= cost
			if marked {
				n.Sites[own].mark(x.sc, versionMark)
			}
			return ""
		})
	}
	switch {
	case op.Merged == 1<<sites-1:
		say("answers for both sites", false, 0)
		return
	case x.sc.Rules.MarkFirst:
		say("marks the copy and answers for one site", true, 0)
	default:
		say("answers for one site", false, 0)
	}
	if x.sc.Faults&MarkFails != 0 && x.now.Budget > 0 && x.sc.Rules.MarkFirst {
		if x.sc.Rules.MarkOrRefuse {
			x.refuse(k, "can't mark the copy and refuses")
		} else {
			say("can't mark the copy and answers for one site", false, 1)
		}
	}
}
