package model

// yield is rule "yield to the better copy": a backup looks at the better copies in rank
// order. The node fires its own copy only if no better copy can be had.
func (h *hand) yield() {
	o, found := h.better()
	if !found {
		next := *h.now
		own := &next.Tasks[h.n][h.shard]
		own.Phase, own.Asked, own.AskedAt = asking, 0, h.now.Now
		h.add(&next, "nothing better, own copy")
		return
	}
	c := &h.now.Copies[o]
	behind := max(1, h.task.Rank-c.Rank) * h.sc.Skew
	switch {
	case h.otherReaches(o):
		h.putOff(h.now.Now+1, "better S%d silent, leaves the pop to the other node", o)
	case h.now.silent(h.n, o):
		h.skip(o, "silent")
	case !h.now.reach(h.n, o):
		h.putOff(h.now.Now+1, "better S%d slow, looks again", o)
	case c.Kind == absent:
		h.skip(o, "missing")
	case c.order() > h.task.order() && !h.fires(c):
		h.adopt(o, "better S%d newer, adopts", o)
	case c.Version < h.task.Version:
		h.skip(o, "of an older version")
	case c.Score > h.now.Now && h.outranked(o):
		h.promote(o)
	case c.Score > h.now.Now:
		h.putOff(c.Score+behind, "better S%d leased or not due, put off to %d", o, c.Score+behind)
	default:
		h.putOff(h.now.Now+behind, "yields to S%d, looks again at %d", o, h.now.Now+behind)
	}
}

// better is the next copy to look at: of a better rank, or of the same rank on an owner when
// the task's own shard is no owner. Owners come first.
func (h *hand) better() (int8, bool) {
	if !h.sc.Rules.Yield {
		return 0, false
	}
	own, at := h.rank(h.shard), h.owner(h.shard)
	for _, owners := range []bool{true, false} {
		for o := range h.sc.Shards {
			if o == h.shard || h.task.Asked&(1<<o) != 0 || h.owner(o) != owners || !h.looks(o) {
				continue
			}
			if rank := h.rank(o); rank < own || rank == own && owners && !at {
				return o, true
			}
		}
	}
	return 0, false
}

func (h *hand) skip(o int8, reason string) {
	next := *h.now
	next.Tasks[h.n][h.shard].Asked |= 1 << o
	h.add(&next, "better S%d %s, goes on", o, reason)
}

// adopt gives the node's own copy the state of another shard, and ends the task.
func (h *hand) adopt(o int8, format string, args ...any) {
	next := *h.now
	if h.mine || !h.sc.Rules.LeasedAdoption && h.now.reach(h.n, h.shard) {
		next.adopt(h.sc, h.task.Epoch, h.shard, o, h.rank(h.shard))
	}
	h.drop(&next, format, args...)
}

// outranked reports whether a better copy waits though the turn of its rank has passed. The turn of a
// retry is not known: it has passed if the own copy is due by a rank that the own copy has lost.
func (h *hand) outranked(o int8) bool {
	c := &h.now.Copies[o]
	if h.sc.Rules.HastenSpreads && h.sc.fires() && c.Token == noToken && c.Version == h.task.Version && c.Attempt == 0 && c.order() < h.task.order() {
		return true // only a pop that was hastened passes a copy that is not due
	}
	if !h.sc.Rules.Promote || c.Token != noToken || c.Mark > h.now.Now || c.order() != h.task.order() {
		return false
	}
	if c.Attempt == 0 && h.task.Since > 0 {
		return h.sc.Rules.HastenSpreads
	}
	if c.Attempt > 0 {
		return !h.owner(h.shard) || h.task.Rank < h.rank(h.shard)
	}
	return h.now.due(h.sc, c.Version, c.Pop, h.rank(o)) < c.Score
}

// fires reports whether a better copy that is further on has had an attempt at its pop: its node tells
// the outcome, or the copy waits for a retry. During a change the node waits for the better copy,
// because no further copy has its state yet.
func (h *hand) fires(c *stored) bool {
	return h.sc.Change != NoChange && c.Kind == live && c.Version == h.task.Version && c.Attempt > 0
}

// promote gives a better copy the rank that it has now.
func (h *hand) promote(o int8) {
	next := *h.now
	c := &next.Copies[o]
	if c.Rank, c.Score = h.rank(o), h.now.Now; c.Attempt == 0 && h.task.Since == 0 && c.order() == h.task.order() {
		c.Score = h.now.due(h.sc, c.Version, c.Pop, h.rank(o))
	}
	h.add(&next, "better S%d gets rank %d", o, c.Rank)
}

// dueSince is when the pop came due.
func (h *hand) dueSince() int8 {
	if h.task.Since > 0 {
		return h.task.Since
	}
	return h.now.due(h.sc, h.task.Version, h.task.Pop, 0)
}

// otherReaches reports whether the other node can work on the node's shard, and reaches a shard
// that the node does not reach. From 5 s after a pop is due, this counts no more.
func (h *hand) otherReaches(o int8) bool {
	other := 1 - h.n
	if !h.sc.Rules.AskOthers || h.now.reach(h.n, o) || !h.now.awake(other) || !h.now.reach(other, o) || !h.now.reach(other, h.shard) ||
		h.now.Now >= h.dueSince()+leftFor {
		return false
	}
	return true
}
