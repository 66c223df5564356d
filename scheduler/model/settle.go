package model

// settle is the outcome on the leased copy, by its token, last of all.
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
	w := h.outcome(h.ownRank())
	next.Copies[h.shard] = h.settled(&w)
	if h.sc.Variants.MissedNoted && h.sc.Life > 0 {
		next.noteMissed(h.task.Untold)
	}
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
	c := &h.now.Copies[h.shard]
	home := h.home(h.shard)
	switch {
	case w.kind == live && !home && h.sc.Variants.AwayAsBackup && !h.sc.Variants.AwayUpdated:
		return stored{}
	case w.kind == live && !home:
		return stored{
			Kind: live, Version: w.version, Pop: w.pop, Attempt: w.attempt,
			Score: w.score + h.sc.Variants.AwayLater, Rank: c.Rank, Named: c.Named,
		}
	case w.kind == live:
		return stored{Kind: live, Version: w.version, Pop: w.pop, Attempt: w.attempt, Score: w.score, Rank: c.Rank, Named: c.Named}
	case h.task.Untold == 0 && home && h.now.young(h.sc, w.version):
		return stored{Kind: tombstone, Version: w.version, Score: h.now.youngEnd(h.sc)}
	case h.task.Untold == 0 || home && !h.sc.Rules.DoneTombstone:
		return stored{}
	}
	grave := stored{Kind: tombstone, Version: w.version, Score: h.now.tombstoneEnd(h.sc), Named: c.Named}
	if !home {
		grave.Rank = c.Rank
	}
	if (home || h.sc.Change != NoChange) && h.sc.Rules.TellOwed {
		grave.Owed = h.task.Untold
	}
	return grave
}

// restore restores the homes that lacked their copy, within a second of the settle.
func (h *hand) restore() {
	for o := range h.sc.Shards {
		if h.task.Asked&(1<<o) == 0 {
			continue
		}
		next := *h.now
		own := &next.Tasks[h.n][h.shard]
		own.Asked &^= 1 << o
		if own.Asked == 0 {
			h.restored(own)
		}
		w := h.outcome(h.rank(o))
		changed := w.kind == live && h.now.reach(h.n, o) && !h.lossSeen() && h.now.Now <= h.task.FencedAt+1 && next.merge(h.sc, o, w)
		h.add(&next, "restores S%d: %v", o, changed)
		return
	}
}

// lossSeen reports whether a shard lost its data less than 3 s ago.
func (x *stepper) lossSeen() bool {
	return x.sc.Variants.RestoreWaits && x.now.WipedAt != 0 && x.now.Now < x.now.WipedAt-1+sweepWait
}
