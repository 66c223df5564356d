package sitemodel

// Kinds of a record.
const (
	absent int8 = iota
	live
	tombstone
)

// record is the copy of the timer in a site.
type record struct {
	Kind, Version, Pop, Home int8
	Look                     int8 // when a node looks at a live copy; when a tombstone's life is over
}

// newer reports whether the state of r comes after the state of other.
func (r record) newer(other record) bool {
	switch {
	case r.Kind == absent || other.Kind == absent:
		return r.Kind != absent && other.Kind == absent
	case r.Version != other.Version:
		return r.Version > other.Version
	case r.Kind != other.Kind:
		return r.Kind == tombstone
	}
	return r.Pop > other.Pop
}

// same reports whether two records have one state. The instants are no part of the state.
func (r record) same(other record) bool { return !r.newer(other) && !other.newer(r) }

// Phases of a node's work on its site's copy.
const (
	idle    int8 = iota
	cleared      // nothing speaks against the callback
	calling
)

// task is the work on the copy of a site.
type task struct {
	Phase, Version, Pop, Since int8 // Since: of the callback, or of what speaks for the callback
	Known                      bool // another callback of the pop was over, or under way, when this one was decided
}

// outcome is what the home still has to tell the other site: the callback of this pop is over.
type outcome struct{ Version, Pop, Age int8 }

// Kinds of a mark.
const (
	noMark      int8 = iota
	popMark          // the other site may lack the outcome of a pop
	versionMark      // the other site may lack the version
)

// Steps of a fill.
const (
	unfilled    int8 = iota
	fillBegun        // the shards say that a fill has begun
	fillRead         // Told holds what the fill has read
	fillWritten      // the site has what was read
)

// site is one site: shards that hold at most one copy of the timer, and nodes.
type site struct {
	Copy    record
	Mark    int8 // the other site may lack the state of the copy: the version, or only the pop
	Young   bool // the mark was made within this tick
	Unsure  bool // at the home: the other site may have a mark for the version of the copy
	Told    record
	Telling bool // the other site has merged Told; the mark is still there
	Heard   int8 // how long ago the site read of no mark for itself; beyond heardFor: not in touch
	Task    task
	Out     outcome // none: version 0

	Lost    bool
	Stopped int8 // how long the nodes have stood still, plus 1; 0: they run
	Dead    bool // the nodes don't come back
	Fill    int8 // the number of the site's fill
	Noted   int8 // the other site's number, as this site knows it
	Empty   int8 // how long ago the site lost data, plus 1, at most fillAfter + 1; 0: the site is whole
	Filling int8 // of an empty site

	Held uint8 // the versions that this site has had
}

// lastVersion is the highest version of a run.
const lastVersion int8 = 6

// Phases of a client's write.
const (
	notBegun int8 = iota
	begun
	answered
	refused
)

// operation is a client's write under way.
type operation struct {
	Phase, Version, Home, Due int8
	Merged                    uint8 // the sites that have the write
	Confirmed                 uint8 // the sites that had the write at the answer
	At                        int8  // of the answer
}

// state is everything at one moment.
type state struct {
	Now    int8
	Sites  [sites]site
	Cut    uint8 // the sites that don't reach the other site
	Joined int8  // how long the sites have heard each other, at most calmAfter; below 0: how long they have not
	Calm   int8  // how long nothing has been wrong, at most calmAfter
	Ops    [2]operation
	Budget int8

	Called    uint32 // pops whose callback has started, by place
	Gone      uint8  // versions that an empty site lacked when the other site lost its data
	Calmly    uint32 // pops whose callback has started, without a fault since
	Settled   uint32 // pops whose outcome a site has, and no site has lost data since
	Avoidable uint32 // pops whose callback has started although another was known
	Excused   uint32 // pops whose callback started before a loss of data
	CutCalled uint32 // pops whose callback has started in the present cut
	HighestOf [lastVersion + 1]int8
}

// place is the bit of a pop.
func place(version, pop int8) uint32 { return 1 << ((version-1)*3 + pop - 1) }

// initial has the timer in both sites, or in none.
func initial(sc *Scenario) state {
	s := state{Joined: calmAfter, Calm: calmAfter, Budget: sc.Budget}
	if sc.Pops > 0 {
		for i := range sites {
			s.Sites[i].Copy = record{Kind: live, Version: 1, Pop: 1, Home: london}
			s.Sites[i].Copy.Look = s.turn(sc, i, s.Sites[i].Copy)
			s.Sites[i].Held = 1 << 1
		}
	}
	return s
}

// due is when a pop is due.
func (s *state) due(sc *Scenario, version, pop int8) int8 {
	first := sc.Due
	for k := range s.Ops {
		if version > 1 && s.Ops[k].Version == version {
			first = s.Ops[k].Due
		}
	}
	return first + (pop-1)*sc.Interval
}

// writtenAt is when a version was written.
func (s *state) writtenAt(sc *Scenario, version int8) int8 {
	for k := range s.Ops {
		if version > 1 && s.Ops[k].Version == version {
			return s.Ops[k].Due - sc.Writes[k].In
		}
	}
	return -never
}

// turn is when a site looks at a record.
func (s *state) turn(sc *Scenario, i int8, r record) int8 {
	switch {
	case r.Kind == tombstone:
		return s.Now + sc.Life
	case sc.Rules.Delay && r.Home != i:
		return s.due(sc, r.Version, r.Pop) + siteDelay
	}
	return s.due(sc, r.Version, r.Pop)
}

// merge writes a state to the copy of a site.
func (s *state) merge(sc *Scenario, i int8, r record) {
	at := &s.Sites[i]
	if r.Kind == absent || sc.Rules.Newest && !r.newer(at.Copy) {
		return
	}
	if at.Copy.Version != r.Version && !sc.Rules.MarkStays {
		at.unmark()
	}
	r.Look = s.turn(sc, i, r)
	at.Unsure = r.Home == i && r.Kind == live && (at.Unsure || at.Copy.Version != r.Version)
	at.Copy = r
	at.Held |= 1 << r.Version
}

// works reports whether nodes of the site call back and answer clients.
func (s *state) works(sc *Scenario, i int8) bool {
	at := &s.Sites[i]
	return !at.Lost && at.Stopped == 0 && (at.Empty == 0 || !sc.Rules.FillQuiet)
}

// reaches reports whether the site reaches the shards of the other site.
func (s *state) reaches(i int8) bool { return s.Cut&(1<<i) == 0 && !s.Sites[1-i].Lost }

// answers reports whether the shards of the other site answer this site.
func (s *state) answers(sc *Scenario, i int8) bool {
	return s.reaches(i) && (s.Sites[1-i].Empty == 0 || !sc.Rules.FillQuiet)
}

// inTouch reports whether the home knows that no write elsewhere has missed the home.
func (s *state) inTouch(sc *Scenario, i int8) bool {
	return !sc.Rules.InTouch || s.Sites[i].Heard <= heardFor
}

// alike removes the marks of both sites, after a comparison that left both alike.
func (s *state) alike(sc *Scenario) {
	if sc.Rules.CompareClears {
		for i := range s.Sites {
			s.Sites[i].unmark()
			s.sure(sc, int8(i))
		}
	}
}

// sure notes that the home has seen no mark. The mark of a write of this tick may still come.
func (s *state) sure(sc *Scenario, i int8) {
	at := &s.Sites[i]
	at.Unsure = at.Unsure && s.writtenAt(sc, at.Copy.Version) >= s.Now
}

// mark notes that the other site may lack the state of the copy.
func (at *site) mark(sc *Scenario, kind int8) {
	at.Young = at.Young || at.Mark == noMark || !sc.Rules.MarkAges
	at.Mark = max(at.Mark, kind)
}

func (at *site) unmark() { at.Mark, at.Young = noMark, false }
