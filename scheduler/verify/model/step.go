package model

import (
	"fmt"
	"slices"
)

// move is a possible next event.
type move struct {
	next      state
	urgent    bool
	violation Violation
	label     string
}

// stepper collects the possible next moves of a state.
type stepper struct {
	sc      *Scenario
	now     *state
	moves   []move
	tracing bool // whether moves get labels
}

// successors returns the possible next moves. The clock moves only if nothing is urgent.
func (x *stepper) successors(s *state) []move {
	x.now, x.moves = s, x.moves[:0]
	x.create()
	for n := range int8(nodes) {
		if s.awake(n) {
			x.node(n)
		}
	}
	for i := range x.now.Ops {
		x.client(i)
	}
	for i := range x.now.Repairs {
		x.repair(i)
	}
	x.arriveAgain()
	x.links()
	x.shards()
	x.sweep()
	x.change()
	if !slices.ContainsFunc(x.moves, func(m move) bool { return m.urgent }) && s.Now < x.sc.End {
		x.tick()
	}
	return x.moves
}

// node adds the possible moves of a node: work on every shard, failures, a client's write.
func (x *stepper) node(n int8) {
	for shard := range x.sc.Shards {
		x.removeTombstone(n, shard)
		h := hand{stepper: x, n: n, shard: shard, task: x.now.Tasks[n][shard]}
		if h.task.Phase == idle {
			x.claim(n, shard)
			continue
		}
		h.mine = x.now.holds(n, shard)
		h.work()
	}
	x.nodeFaults(n)
	x.begin(n)
}

// hand is a node's task on one shard.
type hand struct {
	*stepper
	n, shard int8
	task     task
	mine     bool // the lease is still the node's
}

func (h *hand) work() {
	switch h.task.Phase {
	case held:
		h.yield()
	case asking:
		h.fire()
	case sent:
		h.answer()
	case lettering:
		h.letter()
	case telling:
		h.tell()
	case settling:
		h.settle()
	case restoring:
		h.restore()
	case leaving:
		h.leave()
	}
}

// owner reports whether a copy belongs on the shard, by what the task knows.
func (h *hand) owner(shard int8) bool { return h.sc.owner(h.task.Epoch, shard) }

// rank is the rank of the copy on a shard, by what the task knows.
func (h *hand) rank(shard int8) int8 { return h.sc.rank(h.task.Epoch, shard) }

// looks reports whether the task deals with the copy of a shard.
func (h *hand) looks(o int8) bool {
	if h.now.single(h.sc, h.task.Version) && o != h.shard {
		return h.task.Phase == asking && h.sc.Rules.AskTwo
	}
	return h.sc.looks(h.task.Epoch, o)
}

// add notes a move of the node. The move is urgent and breaks nothing.
func (h *hand) add(next *state, format string, args ...any) {
	h.urgent(next, "N%d S%d: "+format, append([]any{h.n, h.shard}, args...)...)
}

// lost notes the same move with a lost answer.
func (h *hand) lost(next *state, format string, args ...any) {
	next.Budget--
	h.maybe(next, "N%d S%d: "+format+", ANSWER LOST", append([]any{h.n, h.shard}, args...)...)
}

// drop ends the task.
func (h *hand) drop(next *state, format string, args ...any) {
	next.Tasks[h.n][h.shard] = task{}
	before, after := h.now.Copies[h.shard], next.Copies[h.shard]
	h.add(next, format, args...)
	if after.Kind == live && after.Token == noToken && after.Score <= h.now.Now &&
		before.Token != noToken && after.order() == before.order() && after.Rev == before.Rev {
		h.blame(Stuck)
	}
}

// putOff returns the lease. The copy is looked at again at the score.
func (h *hand) putOff(score int8, format string, args ...any) {
	next := *h.now
	if h.mine {
		next.Copies[h.shard].Score = score
		next.Copies[h.shard].Token = noToken
	}
	h.drop(&next, format, args...)
}

// mayLose reports whether an answer may be lost.
func (x *stepper) mayLose() bool { return x.fault(Lost) }

func (x *stepper) fault(kind Fault) bool { return x.now.Budget > 0 && x.sc.Faults&kind != 0 }

// urgent notes a move that happens before the clock moves.
func (x *stepper) urgent(next *state, format string, args ...any) {
	x.moves = append(x.moves, move{next: *next, urgent: true, label: x.label(format, args)})
}

// maybe notes a move that may happen now, later or never.
func (x *stepper) maybe(next *state, format string, args ...any) {
	x.moves = append(x.moves, move{next: *next, label: x.label(format, args)})
}

// last is the move just noted.
func (x *stepper) last() *move { return &x.moves[len(x.moves)-1] }

// blame marks the move just noted as a violation.
func (x *stepper) blame(v Violation) { x.last().violation = v }

func (x *stepper) label(format string, args []any) string {
	if !x.tracing {
		return ""
	}
	// A copy, so that args needn't be on the heap when nothing is traced.
	return fmt.Sprintf(format, slices.Clone(args)...)
}
