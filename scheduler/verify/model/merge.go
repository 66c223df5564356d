package model

// why is the purpose of a written state.
type why int8

const (
	asState   why = iota // a create, a PUT or a copy
	asOutcome            // a next pop or a retry
	asDone
	asDelete
	asPatch
)

// written is a state to be merged.
type written struct {
	kind, version, pop, attempt int8
	score, rank                 int8
	why                         why
	epoch                       int8 // what the writer knows of the change
	rev                         int8
	hastened, again             bool // an end: the pop was hastened, or came by a retry
}

func (w *written) order() int { return order(w.kind, w.version, w.pop, w.attempt) }

// merge has the shard become this state if the state is newer (rules "order of states" and
// "merge keeps the firing mark"), and reports whether the shard has changed.
func (s *state) merge(sc *Scenario, shard int8, w written) bool {
	c := s.Copies[shard]
	if s.join(sc, &c, &w) {
		return s.patch(sc, shard, w)
	}
	if w.why == asPatch && c.Kind == absent {
		return false
	}
	if c.Kind != absent && (c.order() == w.order() || sc.Rules.NewerOnly && c.order() > w.order()) {
		return false
	}
	owner := sc.owner(w.epoch, shard)
	if !owner && !sc.mayMake(&c, &w) {
		return false
	}
	var mark int8
	if c.Mark > s.Now && sc.Rules.MarkKept {
		mark = c.Mark
	}
	if w.kind == live {
		if !owner {
			w.score += sc.halfSkew()
		}
		if !owner && c.Kind != absent { // the copy keeps its rank
			w.score += (c.Rank - w.rank) * sc.Skew
			w.rank = c.Rank
		}
		s.Copies[shard] = stored{
			Kind: live, Version: w.version, Pop: w.pop, Attempt: w.attempt, Score: w.score, Mark: mark, Rank: w.rank, Rev: w.rev,
		}
		return true
	}
	next := stored{Kind: tombstone, Version: w.version, Score: s.tombstoneEnd(sc), Mark: mark}
	if !owner {
		next.Rank, next.Score = c.Rank, s.Now+leftoverLife
	}
	if w.why == asDone {
		next = s.ended(sc, &c, &w, next, owner)
	}
	s.Copies[shard] = next
	return true
}

// mayMake reports whether a shard that is no owner takes the state (rule "look wherever a copy
// may be"). A write changes only a live copy there. An end also changes a tombstone.
func (sc *Scenario) mayMake(c *stored, w *written) bool {
	if sc.Rules.OntoLive {
		return c.Kind == live || c.Kind == tombstone && w.kind == tombstone
	}
	return c.Kind != absent || w.why != asOutcome
}

// ended is the state after a done (rule "done removes only its predecessor"). If the predecessor
// or no copy was there, nothing remains, except for a young version. In all other cases a
// tombstone remains.
func (s *state) ended(sc *Scenario, c *stored, w *written, grave stored, owner bool) stored {
	needless := c.Kind == absent && (owner || sc.Rules.OntoLive) || c.Kind == live && c.Version == w.version && c.Pop == w.pop && s.sameRevision(sc, c, w)
	if owner && needless {
		if end := s.youngEnd(sc, w); end > 0 {
			grave.Score = end
			return grave
		}
	}
	if grave.Mark == 0 && (needless || !sc.Rules.DoneTombstone) {
		return stored{}
	}
	return grave
}

// youngEnd is the end of the tombstone that a done leaves in any case, because
// another write may be on its way. 0: no such tombstone.
func (s *state) youngEnd(sc *Scenario, w *written) int8 {
	version := w.version
	switch {
	case sc.Variants.OutKept && sc.Change == GivesUp && w.epoch >= counting:
		return forever
	case w.rev > 0 && sc.Rules.YoungEnds && s.Now < s.revised(w.rev).Began+youngFor:
		return s.Now + youngLife
	case w.hastened && sc.Rules.HastenedEnds, w.again && sc.Rules.RetriedEnds:
		return s.Now + youngLife
	case sc.pops(version) > 1 && sc.Rules.RecurringEnds:
		return s.Now + youngLife
	case version == 1 && sc.Rules.FreshEnds && sc.Start == Creating && s.Now < freshFor:
		return s.Now + freshFor
	case version > 1 && sc.Rules.YoungEnds && s.Now < s.op(sc, version).Began+youngFor:
		return s.Now + youngLife
	}
	return 0
}

// tombstoneEnd is how long a tombstone made now is kept.
func (s *state) tombstoneEnd(sc *Scenario) int8 {
	if sc.Life == 0 || sc.Variants.OutKept && sc.Change == GivesUp {
		return forever
	}
	return s.Now + sc.Life
}

// adopt gives the shard the state of another shard, by what counts in the epoch.
func (s *state) adopt(sc *Scenario, epoch, shard, from, rank int8) {
	w := written{kind: tombstone, version: s.Copies[from].Version, score: forever, rank: rank, why: asDelete}
	if s.Copies[from].Kind == live {
		w = s.copied(sc, &s.Copies[from], rank)
	}
	w.epoch = epoch
	s.merge(sc, shard, w)
}

// copied is the state of a copy as written for another rank.
func (s *state) copied(sc *Scenario, c *stored, rank int8) written {
	score := s.due(sc, c.Version, c.Pop, rank)
	if c.Attempt > 0 {
		score = c.Score + (rank-c.Rank)*sc.Skew
	}
	return written{kind: live, version: c.Version, pop: c.Pop, attempt: c.Attempt, score: score, rank: rank, why: asState, rev: c.Rev}
}
