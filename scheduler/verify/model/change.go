package model

// Change is the change of the shards, once in a run.
type Change int8

// The changes. The owners move as by the product's ranking: the last of all shards takes the place
// of a primary that goes, and a primary whose place is taken becomes the last. All other shards
// keep their order.
const (
	NoChange Change = iota
	Joins           // a shard behind the owners comes, and takes the rank Moves from its owner
	Drains          // the primary's shard takes no timers any more, and the last owner becomes the primary
	GivesUp         // the primary's shard is silent and given up, and the shard behind the owners becomes the primary
	Grows           // the last shard comes as the primary, and all shards are owners; the former primary becomes the last
)

// Steps of the change, as known to a node. No node is more than a step behind, unless Announce
// is off.
const (
	before    int8 = iota
	announced      // nodes look at coming owners, too
	counting       // the change counts; nodes look at former owners, too
	forgotten      // all is swept; nodes look at owners alone
)

// changing is how far the change is.
type changing struct {
	Epoch    int8        // the furthest step that a node knows
	Epochs   [nodes]int8 // what each node knows
	Since    int8        // when the first node knew; 0 when all know
	SteadyAt int8        // when all have known for long enough; 0 when that is past
	Swept    uint8       // shards where every copy was in place since all nodes know what counts
	Sweeps   [nodes]carried
}

// rank is the rank of the copy on a shard, by what a node in the epoch knows.
func (sc *Scenario) rank(epoch, shard int8) int8 {
	switch {
	case sc.Change == Joins && shard == sc.Factor:
		return sc.Moves
	case sc.Change == GivesUp && shard == sc.Factor:
		return 0
	case sc.Change == Drains && epoch >= counting && shard == sc.Factor-1:
		return 0
	case sc.Change == Grows && shard == sc.Factor-1:
		return 0
	case sc.Change == Grows && epoch >= counting && shard == 0:
		return sc.Factor - 1
	default:
		return shard
	}
}

// owner reports whether a copy belongs on the shard, by what a node in the epoch knows.
func (sc *Scenario) owner(epoch, shard int8) bool {
	switch {
	case sc.Change == Joins && epoch >= counting:
		return shard <= sc.Factor && shard != sc.Moves
	case (sc.Change == Drains || sc.Change == GivesUp) && epoch >= counting:
		return shard > 0
	case sc.Change == Grows && epoch < counting:
		return shard < sc.Factor-1
	default:
		return shard < sc.Factor
	}
}

// looks reports whether writes, comparisons and outcomes go to the shard: to owners, and
// during a change to former and coming owners.
func (sc *Scenario) looks(epoch, shard int8) bool {
	switch {
	case sc.owner(epoch, shard):
		return true
	case sc.Change == NoChange || sc.out(epoch, shard) && !sc.Rules.OutTold:
		return false
	default:
		return sc.Rules.Others && (epoch == announced || epoch == counting)
	}
}

// knows reports whether the shard exists, by what a node in the epoch knows.
func (sc *Scenario) knows(epoch, shard int8) bool {
	return epoch > before || sc.Change != Joins && sc.Change != Grows || sc.owner(before, shard)
}

// out reports whether the shard is given up, by what a node in the epoch knows: nothing fires
// there.
func (sc *Scenario) out(epoch, shard int8) bool {
	return sc.Change == GivesUp && epoch >= counting && shard == 0
}

// learnt reports whether all live nodes know how far the change is.
func (s *state) learnt() bool {
	for n := range nodes {
		if s.Nodes[n] != crashed && s.Changing.Epochs[n] != s.Changing.Epoch {
			return false
		}
	}
	return true
}

// steady reports whether the next step, and a sweep, may follow.
func (s *state) steady() bool { return s.learnt() && s.Now >= s.Changing.SteadyAt }

// change is what may happen to the list of shards, and the sweep of the change.
func (x *stepper) change() {
	if x.sc.Change == NoChange {
		return
	}
	for n := range int8(nodes) {
		if !x.now.awake(n) {
			continue
		}
		if x.now.Changing.Epochs[n] != x.now.Changing.Epoch {
			next := *x.now
			next.learn(n)
			x.maybe(&next, "N%d learns %d", n, next.Changing.Epoch)
			x.last().urgent = x.now.Now >= x.now.Changing.Since+x.sc.learnIn()
		}
		x.carry(n)
	}
	c := &x.now.Changing
	all := uint8(1)<<x.sc.Shards - 1
	if x.sc.Change == GivesUp {
		all &^= 1
		if c.Epoch == before && x.now.Shards[0] == up {
			return
		}
	}
	if c.Epoch == forgotten || !x.now.steady() || c.Epoch == counting && c.Swept != all || c.Epoch == before && x.now.Now > x.sc.ChangeBy {
		return
	}
	for n := range int8(nodes) {
		if x.now.awake(n) {
			next := *x.now
			if next.Changing.Epoch++; !x.sc.Rules.Announce && c.Epoch == before {
				next.Changing.Epoch = counting
			}
			next.Changing.Since = x.now.Now
			next.learn(n)
			x.maybe(&next, "N%d takes the step to %d", n, next.Changing.Epoch)
		}
	}
}

// learnIn is how long a node that is not frozen takes to hear of a step.
func (sc *Scenario) learnIn() int8 {
	if sc.LearnIn > 0 {
		return sc.LearnIn
	}
	return learnIn
}

// learn has a node know how far the change is.
func (s *state) learn(n int8) {
	s.Changing.Epochs[n] = s.Changing.Epoch
	if s.Changing.SteadyAt = 0; s.learnt() {
		s.Changing.Since, s.Changing.SteadyAt = 0, s.Now+stepTakes
	}
}
