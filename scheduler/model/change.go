package model

// Change is what happens to the shards, once in a run.
type Change int8

// The changes. Each has the homes of the timer move as the product's ranking would:
// a shard that comes takes the rank of one home, and of those that stay none
// becomes worse.
const (
	NoChange Change = iota
	Joins           // a shard behind the homes comes, and takes the rank Moves
	Drains          // shard 0 takes timers no more, and nobody its place: each other home is one rank better
	GivesUp         // shard 0 is away and given up: the same, but the shard behind the homes is the last home
)

// What a node knows of the change. No node is further than a step behind another,
// but with Announce off.
const (
	before    int8 = iota
	announced      // what is about to count is looked at too
	counting       // it counts; where timers belonged before is looked at too
	forgotten      // no longer, since all is swept
)

// changing is how far the change is.
type changing struct {
	Epoch    int8        // the furthest that some node knows
	Epochs   [nodes]int8 // what each knows
	Since    int8        // when the first knew it; 0 when all do
	SteadyAt int8        // when all know it for long enough; 0 when that is past
	Swept    uint8       // shards on which all was found in place since all know what counts
	Sweeps   [nodes]carried
}

// rank is that of the copy that a shard has, or would have, for who knows this much.
func (sc *Scenario) rank(epoch, shard int8) int8 {
	switch {
	case sc.Change == Joins && shard == sc.Homes:
		return sc.Moves
	case sc.Change == GivesUp && shard == sc.Homes:
		return sc.Homes - 1
	case (sc.Change == Drains || sc.Change == GivesUp) && epoch >= counting:
		return max(shard-1, 0)
	default:
		return shard
	}
}

// home reports whether a copy belongs on the shard for who knows this much.
func (sc *Scenario) home(epoch, shard int8) bool {
	switch {
	case sc.Change == Joins && epoch >= counting:
		return shard <= sc.Homes && shard != sc.Moves
	case (sc.Change == Drains || sc.Change == GivesUp) && epoch >= counting:
		return shard > 0
	default:
		return shard < sc.Homes
	}
}

// looks reports whether operations, asks and outcomes go to the shard: to homes,
// to substitutes that are known, and while the shards change to where timers
// belonged before, and where they are about to.
func (sc *Scenario) looks(epoch, shard int8, knowAway bool) bool {
	switch {
	case sc.home(epoch, shard):
		return true
	case sc.Change == NoChange:
		return knowAway
	case sc.out(epoch, shard) && !sc.Variants.OutTold:
		return false
	default:
		return sc.Rules.Others && (epoch == announced || epoch == counting)
	}
}

// knows reports whether the shard is one at all for who knows this much.
func (sc *Scenario) knows(epoch, shard int8) bool {
	return sc.Change != Joins || epoch > before || shard < sc.Homes
}

// out reports whether the shard is given up: nobody asks or tells it anything, and
// nothing fires there.
func (sc *Scenario) out(epoch, shard int8) bool {
	return sc.Change == GivesUp && epoch >= counting && shard == 0
}

// learnt reports whether all nodes that live know how far the change is.
func (s *state) learnt() bool {
	for n := range nodes {
		if s.Nodes[n] != crashed && s.Changing.Epochs[n] != s.Changing.Epoch {
			return false
		}
	}
	return true
}

// steady reports whether the next step may follow, and a sweep.
func (s *state) steady() bool { return s.learnt() && s.Now >= s.Changing.SteadyAt }

// change is what may happen to the shards, and by the sweep of it.
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
			x.moves[len(x.moves)-1].urgent = x.now.Now >= x.now.Changing.Since+x.sc.learnIn()
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

// toCreate reports whether the timer has yet to be created.
func (s *state) toCreate(sc *Scenario) bool { return sc.Start == Later && s.Create.Phase != answered }

// createLater is a POST through either node, in one step, to the homes of the time.
func (x *stepper) createLater() {
	for n := range int8(nodes) {
		if !x.now.awake(n) {
			continue
		}
		next := *x.now
		stored := false
		epoch := x.now.Changing.Epochs[n]
		for shard := range x.sc.Shards {
			if rank := x.sc.rank(epoch, shard); x.sc.home(epoch, shard) && x.now.reach(n, shard) {
				stored = next.merge(x.sc, shard, written{
					kind: live, version: 1, pop: 1, score: next.due(x.sc, 1, 1, rank), rank: rank, why: asCreate, epoch: epoch,
				}) || stored
			}
		}
		if stored {
			next.Create.Phase = answered
			x.maybe(&next, "create through N%d", n)
			x.moves[len(x.moves)-1].urgent = x.now.Now >= x.sc.Interval-4
		}
	}
}

// homeless reports whether an operation has told no copy that is at home, and none
// that it found elsewhere: it is not acknowledged then.
func (x *stepper) homeless(op *operation) bool {
	found := foundElsewhere
	if x.sc.Variants.ToldLive {
		found = foundLive
	}
	if x.sc.Change == NoChange || op.Found&found != 0 && !x.sc.Variants.OwnersTold {
		return false
	}
	for shard := range x.sc.Shards {
		if x.sc.home(op.Epoch, shard) && op.Told&^op.Untold&(1<<shard) != 0 {
			return false
		}
	}
	return true
}

// epoch is what counts for the task.
func (h *hand) epoch() int8 { return h.task.Epoch }

// relocate has what counts now count for the task, before the others are told.
func (h *hand) relocate() {
	if now := h.now.Changing.Epochs[h.n]; h.task.Asked == 0 && now >= counting && h.task.Epoch < counting {
		h.task.Epoch = now
	}
}

// looks reports whether the task deals with the copy of a shard.
func (h *hand) looks(o int8) bool {
	if h.now.single(h.sc, h.task.Version) && o != h.shard {
		return h.task.Phase == asking && h.sc.Variants.AskTwo
	}
	named := h.task.Version > 1 && h.now.op(h.sc, h.task.Version).Away&(1<<o) != 0
	return h.sc.looks(h.epoch(), o, h.knowsAway()) || named
}

// knowsAway reports whether the task knows of the substitute.
func (h *hand) knowsAway() bool {
	return h.sc.Rules.KnowAway && (h.sc.Start != Meeting || h.task.Named || h.shard == h.sc.Homes)
}

func (h *hand) home(shard int8) bool { return h.sc.home(h.epoch(), shard) }

func (h *hand) rank(shard int8) int8 { return h.sc.rank(h.epoch(), shard) }

// ownRank is that of the copy that the task is about.
func (h *hand) ownRank() int8 {
	if h.sc.Change == NoChange {
		return h.task.Rank
	}
	return h.rank(h.shard)
}

// betterPlace is the next copy to take where shards change: of a better rank, or of
// the same rank at home when this one is away.
func (h *hand) betterPlace() (int8, bool) {
	if !h.sc.Rules.Take {
		return 0, false
	}
	own, at := h.ownRank(), h.home(h.shard)
	for _, homes := range []bool{true, false} {
		for o := range h.sc.Shards {
			if o == h.shard || h.task.Asked&(1<<o) != 0 || h.home(o) != homes || !h.looks(o) {
				continue
			}
			if rank := h.rank(o); rank < own || rank == own && homes && !at {
				return o, true
			}
		}
	}
	return 0, false
}

// outranked reports whether a better copy waits as the backup that it was.
func (h *hand) outranked(o int8) bool {
	c := &h.now.Copies[o]
	return h.sc.Change != NoChange && h.sc.Rules.Others && h.epoch() != forgotten && c.Token == noToken && c.Mark <= h.now.Now &&
		c.Attempt == 0 && c.order() == h.task.order() && h.now.due(h.sc, c.Version, c.Pop, h.rank(o)) < c.Score
}

// fires reports whether a better copy that is further on has been fenced, or is to be
// again: it is waited for, and the state it has now is no other copy's yet.
func (h *hand) fires(c *stored) bool {
	return h.sc.Change != NoChange && c.Kind == live && c.Version == h.task.Version
}

// promote gives it the rank that it has now.
func (h *hand) promote(o int8) {
	next := *h.now
	c := &next.Copies[o]
	c.Rank, c.Score = h.rank(o), h.now.due(h.sc, c.Version, c.Pop, h.rank(o))
	h.add(&next, "better S%d gets rank %d", o, c.Rank)
}

// awayFirst is the next copy to tell: one away from home, else the first.
func (h *hand) awayFirst(first int8) int8 {
	for o := range h.sc.Shards {
		if o != h.shard && h.task.Asked&(1<<o) == 0 && !h.home(o) && h.looks(o) {
			return o
		}
	}
	return first
}

// leaves reports whether copies where none belong may go, now that the outcome has
// been told to all.
func (h *hand) leaves() bool {
	if h.sc.Change == NoChange || h.task.Untold != 0 {
		return false
	}
	for o := range h.sc.Shards {
		if !h.home(o) && h.now.Copies[o].Kind == live && (o == h.shard || h.looks(o)) {
			return true
		}
	}
	return false
}

// restored ends the restoring.
func (h *hand) restored(own *task) {
	if !h.leaves() {
		*own = task{}
		return
	}
	own.Phase = leaving
}

// leave removes the copies from where none belong: what comes due too often for the
// sweep moves with its outcomes.
func (h *hand) leave() {
	next := *h.now
	w := h.outcome(h.ownRank())
	for o := range h.sc.Shards {
		if !h.home(o) && h.now.reach(h.n, o) && (o == h.shard || h.looks(o)) && h.now.Now <= h.task.FencedAt+1 {
			next.leave(h.sc, o, order(w.kind, w.version, w.pop, w.attempt))
		}
	}
	next.Tasks[h.n][h.shard] = task{}
	h.add(&next, "removes the copies that are away from home")
}

// leave removes exactly this state, where nobody is at it.
func (s *state) leave(sc *Scenario, shard int8, order int) bool {
	c := &s.Copies[shard]
	if sc.Rules.LeaveExact && (c.Kind == absent || c.order() != order || c.Token != noToken || c.Mark > s.Now) {
		return false
	}
	*c = stored{}
	return true
}
