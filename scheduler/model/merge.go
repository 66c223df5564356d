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
	predecessor := c.Kind == live && c.Version == w.version && c.Pop == w.pop
	if w.why == asDone && mark == 0 && (predecessor || !sc.Rules.DoneTombstone) {
		s.Copies[shard] = stored{}
	}
	return true
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

// wake carries out what a paused shard was sent meanwhile (rule "no late writes").
func (s *state) wake(sc *Scenario, shard int8) {
	b := s.Buffered
	if b.On == 0 || b.Shard != shard {
		return
	}
	s.Buffered = buffered{}
	if sc.Rules.NotAfter && b.Delete == 0 && s.Now > b.NotAfter {
		return
	}
	if b.Delete != 0 {
		s.merge(sc, shard, written{
			kind: tombstone, version: b.Version, score: forever, rank: b.Rank, why: asDelete, epoch: s.Op.Epoch,
		})
		return
	}
	w := written{
		kind: live, version: b.Version, pop: 1, score: s.due(sc, b.Version, 1, b.Rank), rank: b.Rank, why: asCreate,
		epoch: s.Op.Epoch,
	}
	if sc.Change != NoChange {
		w.why = asState
	}
	s.merge(sc, shard, w)
}
