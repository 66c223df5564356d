package model

// look is the look of copies away from owners, which the product makes no more at a copy away from home, before that is due: home
// has it, then it removes itself; home lacks it, then it is brought home; home is silent, then
// it fires. It reports whether there was anything to do.
func (h *hand) look() bool {
	if h.home(h.shard) || !h.sc.Rules.Look || h.sc.Variants.AwayAsBackup || h.task.Noted&homeSilent != 0 {
		return false
	}
	home := h.task.Rank
	at := &h.now.Copies[home]
	switch {
	case h.now.reach(h.n, home) && at.Kind != absent && at.order() > h.task.order():
		next := *h.now
		if h.mine {
			next.adopt(h.sc, h.epoch(), h.shard, home, h.task.Rank)
		}
		h.drop(&next, "away: S%d has newer, removes itself", home)
	case h.now.reach(h.n, home) && at.Kind != absent && at.order() == h.task.order():
		h.leaveHome(home)
	case h.now.reach(h.n, home):
		h.bring(home)
	case !h.now.silent(h.n, home):
		h.putOff(h.now.Now+1, "away: home S%d slow, looks again", home)
	case h.now.Now < h.now.due(h.sc, h.task.Version, h.task.Pop, h.task.Rank):
		h.putOff(h.now.due(h.sc, h.task.Version, h.task.Pop, h.task.Rank), "away: home S%d silent, waits for due", home)
	default:
		next := *h.now
		next.Tasks[h.n][h.shard].Noted |= homeSilent
		h.add(&next, "away: home S%d silent, goes on", home)
	}
	return true
}

// leaveHome removes the copy away from home, since home has the same.
func (h *hand) leaveHome(home int8) {
	next := *h.now
	c := &next.Copies[h.shard]
	if h.mine && c.Mark > h.now.Now {
		*c = stored{Kind: tombstone, Version: c.Version, Score: h.now.tombstoneEnd(h.sc), Mark: c.Mark, Rank: c.Rank}
	} else if h.mine {
		*c = stored{}
	}
	h.drop(&next, "away: home S%d has it, removes itself", home)
}

// bring brings the copy home, in two steps that a lease holds together.
func (h *hand) bring(home int8) {
	next := *h.now
	own := &next.Tasks[h.n][h.shard]
	if h.sc.Rules.RenewThenBring && h.task.Noted&sawHomeLacks == 0 {
		own.Noted |= sawHomeLacks
		h.add(&next, "away: home S%d lacks it", home)
		return
	}
	if h.sc.Rules.RenewThenBring && h.task.Noted&renewed == 0 {
		if !h.mine {
			h.drop(&next, "away: lease is gone")
			return
		}
		next.Copies[h.shard].Score = h.now.Now + grace
		own.Noted |= renewed
		own.AskedAt = h.now.Now
		h.add(&next, "away: lease renewed")
		return
	}
	if h.sc.Rules.NotAfter && h.task.Noted&renewed != 0 && h.now.Now > h.task.AskedAt+1 {
		h.drop(&next, "away: too late to bring it home")
		return
	}
	next.merge(h.sc, home, written{
		kind: live, version: h.task.Version, pop: h.task.Pop, attempt: h.task.Attempt,
		score: h.now.due(h.sc, h.task.Version, h.task.Pop, h.task.Rank), rank: h.task.Rank, why: asState,
	})
	own.Phase = bringing
	h.add(&next, "away: brought home to S%d", home)
	if h.mayLose() {
		if h.mine {
			next.Copies[h.shard].Score = h.now.Now + 1
			next.Copies[h.shard].Token = noToken
		}
		*own = task{}
		h.lost(&next, "away: brought home to S%d", home)
	}
}

// brought removes the copy that was brought home.
func (h *hand) brought() {
	next := *h.now
	if h.mine {
		next.Copies[h.shard] = stored{}
	}
	h.drop(&next, "away: removes itself after bringing home")
}
