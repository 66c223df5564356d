package model

// settle is the outcome on the leased copy, with the token, after all other copies.
func (h *hand) settle() {
	next := *h.now
	if !h.now.reach(h.n, h.shard) {
		h.drop(&next, "own copy can't be reached")
		return
	}
	if !h.mine {
		h.drop(&next, "settle refused")
		return
	}
	w := h.outcome(h.rank(h.shard))
	next.Copies[h.shard] = h.settled(&w)
	next.noteMissed(h.sc, h.task.Missed)
	own := &next.Tasks[h.n][h.shard]
	switch {
	case w.kind == live && h.task.Missing != 0 && h.sc.Rules.RestoreAfterSettle:
		own.Phase, own.Asked, own.FencedAt = restoring, h.task.Missing, h.now.Now
		h.add(&next, "settles (%s)", &w)
	case w.kind == live && h.leaves():
		own.Phase, own.FencedAt = leaving, h.now.Now
		h.add(&next, "settles (%s)", &w)
	default:
		h.drop(&next, "settles (%s)", &w)
	}
	if h.mayLose() {
		*own = task{}
		h.lost(&next, "settles (%s)", &w)
	}
}

// settled is what the leased copy becomes.
func (h *hand) settled(w *written) stored {
	c, owner := &h.now.Copies[h.shard], h.owner(h.shard)
	if w.kind == live {
		next := stored{Kind: live, Version: w.version, Pop: w.pop, Attempt: w.attempt, Score: w.score, Rank: c.Rank, Rev: c.Rev}
		if !owner {
			next.Score += h.sc.halfSkew()
		}
		return next
	}
	grave := stored{Kind: tombstone, Version: w.version, Score: h.now.tombstoneEnd(h.sc)}
	if !owner {
		grave.Rank = c.Rank
	}
	end := h.now.youngEnd(h.sc, w)
	switch {
	case !h.now.sameRevision(h.sc, c, w):
	case h.task.Missed == 0 && owner && end > 0:
		grave.Score = end
	case h.task.Missed == 0 || owner && !h.sc.Rules.DoneTombstone:
		return stored{}
	}
	return grave
}

// restore makes the missing copies of owners again, within a second of the settle.
func (h *hand) restore() {
	for o := range h.sc.Shards {
		if h.task.Asked&(1<<o) == 0 {
			continue
		}
		next := *h.now
		own := &next.Tasks[h.n][h.shard]
		own.Asked &^= 1 << o
		if own.Asked == 0 {
			if own.Phase = leaving; !h.leaves() {
				*own = task{}
			}
		}
		w := h.outcome(h.rank(o))
		changed := w.kind == live && h.now.reach(h.n, o) && h.now.Now <= h.task.FencedAt+1 && next.merge(h.sc, o, w)
		h.add(&next, "restores S%d: %v", o, changed)
		return
	}
}

// leaves reports whether leftovers may be removed, because every copy has the outcome.
func (h *hand) leaves() bool {
	if h.sc.Change == NoChange || h.task.Missed != 0 {
		return false
	}
	for o := range h.sc.Shards {
		if !h.owner(o) && h.now.Copies[o].Kind == live && (o == h.shard || h.looks(o)) {
			return true
		}
	}
	return false
}

// leave removes leftovers with an outcome. A timer with a short interval comes due too often
// for the sweep.
func (h *hand) leave() {
	next := *h.now
	w := h.outcome(h.rank(h.shard))
	for o := range h.sc.Shards {
		if !h.owner(o) && h.now.reach(h.n, o) && (o == h.shard || h.looks(o)) && h.now.Now <= h.task.FencedAt+1 {
			next.leave(h.sc, o, w.order())
		}
	}
	next.Tasks[h.n][h.shard] = task{}
	h.add(&next, "removes the leftovers")
}

// leave removes exactly this state, if the copy has neither a lease nor a firing mark.
func (s *state) leave(sc *Scenario, shard int8, order int) bool {
	c := &s.Copies[shard]
	if sc.Rules.LeaveExact && (c.Kind == absent || c.order() != order || c.Token != noToken || c.Mark > s.Now) {
		return false
	}
	*c = stored{}
	return true
}
