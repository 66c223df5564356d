package model

// Why a state is merged: what a shard does with it depends on that.
type why int8

const (
	asState   why = iota // created at home, put, copied
	asOutcome            // a next pop or a retry
	asDone
	asDelete
	asCreate // wherever it is
)

// written is a state to be merged.
type written struct {
	kind, version, pop, attempt int8
	score, rank                 int8
	why                         why
	epoch                       int8 // what who writes it knows of the shards
	named                       bool // the record that is copied names the substitute
}

// merge has the shard become this state if it is newer (rules "order of states" and "merge
// keeps the firing mark"). It reports whether the shard changed.
func (s *state) merge(sc *Scenario, shard int8, w written) bool {
	c := s.Copies[shard]
	if !sc.Rules.NewerOnly && c.Kind != absent && c.order() == order(w.kind, w.version, w.pop, w.attempt) {
		return false
	}
	if sc.Rules.NewerOnly && c.Kind != absent && c.order() >= order(w.kind, w.version, w.pop, w.attempt) {
		return false
	}
	var mark int8
	if c.Mark > s.Now && sc.Rules.MarkKept {
		mark = c.Mark
	}
	home := sc.home(w.epoch, shard)
	ends := sc.Change != NoChange && w.kind == tombstone // which is to be known where the timer may be brought
	if made, done := s.mergeElsewhere(sc, shard, w, mark); done {
		return made
	}
	if !home && w.why != asCreate && !ends && (c.Kind == absent || !sc.Variants.AwayUpdated) {
		return s.mergeAway(sc, shard, w, mark)
	}
	if !home && w.why != asCreate && !ends { // it keeps its rank
		w.score += (c.Rank-w.rank)*sc.Skew + sc.Variants.AwayLater
		w.rank = c.Rank
	}
	if w.kind == live {
		s.Copies[shard] = stored{
			Kind: live, Version: w.version, Pop: w.pop, Attempt: w.attempt,
			Score: w.score, Mark: mark, Rank: w.rank, Named: c.Named || w.named,
		}
		return true
	}
	s.Copies[shard] = stored{Kind: tombstone, Version: w.version, Score: s.tombstoneEnd(sc), Mark: mark, Named: c.Named || w.named}
	if !home {
		s.Copies[shard].Rank = c.Rank
		if sc.Change != NoChange {
			s.Copies[shard].Score = s.Now + strayLife
		}
	}
	needless := c.Kind == live && c.Version == w.version && c.Pop == w.pop || c.Kind == absent && !sc.Rules.DoneOnNothing
	if needless && w.why == asDone && home && s.young(sc, w.version) {
		s.Copies[shard].Score = s.youngEnd(sc)
		return true
	}
	if w.why == asDone && mark == 0 && (needless || !sc.Rules.DoneTombstone) {
		s.Copies[shard] = stored{}
	}
	return true
}

// young reports whether a version was made so lately that a copy of what it replaced may
// still be on its way.
func (s *state) young(sc *Scenario, version int8) bool {
	if version == 1 {
		return sc.Variants.YoungEnds && sc.Start == Creating && s.Now < youngFor
	}
	return sc.Variants.YoungEnds && s.Now < s.op(sc, version).Began+youngFor
}

// youngEnd is how long the tombstone of such a version stays.
func (s *state) youngEnd(sc *Scenario) int8 {
	if sc.Change == NoChange {
		return s.tombstoneEnd(sc)
	}
	return s.Now + youngFor
}

// mergeElsewhere is merge at a former or coming place, under the variants that say
// what a write makes there. The second result is false where the common rules apply.
func (s *state) mergeElsewhere(sc *Scenario, shard int8, w written, mark int8) (changed, decided bool) {
	c := &s.Copies[shard]
	if sc.Change == NoChange || sc.home(w.epoch, shard) {
		return false, false
	}
	if w.kind == tombstone {
		ends := w.why == asDelete && sc.Variants.EndsOntoLive || w.why == asDone && sc.Variants.DoneOntoLive
		return false, ends && c.Kind == absent
	}
	if sc.Variants.OntoLive && c.Kind == tombstone && w.why != asCreate {
		return false, true
	}
	if !sc.Variants.Union || c.Kind != absent || w.epoch != announced && w.epoch != counting {
		return false, false
	}
	*c = stored{
		Kind: live, Version: w.version, Pop: w.pop, Attempt: w.attempt,
		Score: w.score + sc.Variants.AwayLater, Mark: mark, Rank: w.rank,
	}
	return true, true
}

// mergeAway is merge on a copy away from home, where nothing new is written: it
// is removed, or buried when it has been deleted or its version ended while firing.
func (s *state) mergeAway(sc *Scenario, shard int8, w written, mark int8) bool {
	c := s.Copies[shard]
	if c.Kind == absent {
		return false
	}
	ended := w.kind == tombstone || w.version > c.Version
	if mark > 0 && ended || w.why == asDelete {
		grave := stored{Kind: tombstone, Version: w.version, Score: s.tombstoneEnd(sc), Mark: mark, Rank: c.Rank}
		if w.kind == live {
			grave.Version = c.Version
		}
		s.Copies[shard] = grave
		return true
	}
	s.Copies[shard] = stored{}
	return true
}

// adopt makes the shard what another holds, by what counts in the epoch.
func (s *state) adopt(sc *Scenario, epoch, shard, from, rank int8) {
	c := s.Copies[from]
	if c.Kind == tombstone {
		s.merge(sc, shard, written{
			kind: tombstone, version: c.Version, pop: s.Copies[shard].Pop, score: forever, rank: rank, why: asDelete, epoch: epoch,
			named: c.Named,
		})
		if sc.Change == NoChange && !sc.home(epoch, shard) && s.Copies[shard].Kind == tombstone && s.Copies[shard].Mark <= s.Now {
			s.Copies[shard] = stored{}
		}
		return
	}
	w := s.copied(sc, &c, rank)
	w.epoch = epoch
	s.merge(sc, shard, w)
}

// copied is the state of a copy as it is written for another rank.
func (s *state) copied(sc *Scenario, c *stored, rank int8) written {
	score := s.due(sc, c.Version, c.Pop, rank)
	if c.Attempt > 0 {
		score = c.Score + (rank-c.Rank)*sc.Skew
	}
	return written{
		kind: live, version: c.Version, pop: c.Pop, attempt: c.Attempt,
		score: score, rank: rank, why: asState, named: c.Named,
	}
}
