package model

// take is rule "take the better copy first": the better copies are taken in rank order,
// and only if none can be had does the node go on with its own.
func (h *hand) take() {
	o, found := h.better()
	if h.sc.Change != NoChange {
		o, found = h.betterPlace()
	}
	if !found {
		next := *h.now
		own := &next.Tasks[h.n][h.shard]
		own.Phase, own.Asked, own.Noted = asking, 0, 0
		h.add(&next, "nothing better, own copy")
		return
	}
	c := &h.now.Copies[o]
	behind := max(1, h.task.Rank-c.Rank) * h.sc.Skew
	switch {
	case h.now.silent(h.n, o):
		h.skip(o, "silent")
	case !h.now.reach(h.n, o):
		h.putOff(h.now.Now+1, "better S%d slow, looks again", o)
	case c.Kind == absent:
		h.skip(o, "missing")
	case c.order() > h.task.order() && !h.fires(c):
		h.adopt(o, "better S%d newer, adopts", o)
	case c.Kind == tombstone:
		h.skip(o, "an old tombstone")
	case c.Score > h.now.Now && h.outranked(o):
		h.promote(o)
	case c.Score > h.now.Now:
		h.putOff(c.Score+behind, "better S%d leased or not due, put off to %d", o, c.Score+behind)
	case h.now.Tasks[h.n][o].Phase != idle:
		h.putOff(h.now.Now+1, "has a task on S%d itself", o)
	case h.sc.Variants.Yield:
		h.putOff(h.now.Now+behind, "yields to S%d, looks again at %d", o, h.now.Now+behind)
	default:
		h.takeOver(o, h.now.Now+behind)
	}
}

// better is the next copy to take: of a better rank, or of the same rank at home
// when this one is away.
func (h *hand) better() (int8, bool) {
	if !h.sc.Rules.Take {
		return 0, false
	}
	for rank := range min(h.task.Rank+1, h.sc.Homes) {
		ahead := rank < h.task.Rank
		if rank != h.shard && (ahead || !h.home(h.shard)) && h.task.Asked&(1<<rank) == 0 {
			return rank, true
		}
		for o := h.sc.Homes; o < h.sc.Shards; o++ {
			c := &h.now.Copies[o]
			if h.knowsAway() && o != h.shard && ahead && c.Kind == live && c.Rank == rank && h.task.Asked&(1<<o) == 0 {
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

// adopt makes one's own copy what another shard holds, and ends the task.
func (h *hand) adopt(o int8, format string, args ...any) {
	next := *h.now
	if h.mine || !h.sc.Rules.LeasedAdoption && h.now.reach(h.n, h.shard) {
		next.adopt(h.sc, h.epoch(), h.shard, o, h.ownRank())
	}
	h.drop(&next, format, args...)
}

// takeOver leases the better copy and puts one's own off.
func (h *hand) takeOver(o, score int8) {
	next := *h.now
	next.lease(h.sc, h.n, o)
	if h.mine {
		next.Copies[h.shard].Score = score
		next.Copies[h.shard].Token = noToken
	}
	next.Tasks[h.n][h.shard] = task{}
	lost := next
	phase := asking
	if !h.home(o) && !h.sc.Variants.AwayAsBackup {
		phase = held
	}
	c := &h.now.Copies[o]
	next.Tasks[h.n][o] = h.taskOf(h.n, c, phase)
	h.add(&next, "takes S%d v%d pop %d", o, c.Version, c.Pop)
	if h.mayLose() {
		lost.Copies[o].Token = lostToken
		if h.mine {
			lost.Copies[h.shard].Score = h.now.Now + 1
		}
		h.lost(&lost, "takes S%d, looks again", o)
	}
}
