package model

// fire is rule "compare before firing": compare, fence, send.
func (h *hand) fire() {
	if o, more := h.unheard(); more && h.sc.Rules.Ask {
		h.ask(o)
		if h.sc.Rules.AskThenFence || h.task.Fence == fenced {
			return
		}
	}
	if h.task.Fence != fenced {
		h.fence()
		return
	}
	h.send()
}

// unheard is the first other shard with which the task has not dealt.
func (h *hand) unheard() (int8, bool) {
	for o := range h.sc.Shards {
		if o != h.shard && h.task.Asked&(1<<o) == 0 && h.looks(o) {
			return o, true
		}
	}
	return 0, false
}

func (h *hand) ask(o int8) {
	c := &h.now.Copies[o]
	next := *h.now
	own := &next.Tasks[h.n][h.shard]
	if h.task.Asked == 0 {
		own.AskedAt = h.now.Now
	}
	own.Asked |= 1 << o
	if h.stillSilent(o) {
		h.add(&next, "asks S%d: taken for silent, skipped", o)
	}
	switch {
	case h.otherReaches(o):
		h.putOff(h.now.Now+1, "asks S%d: no answer, leaves the pop to the other node", o)
	case !h.now.reach(h.n, o):
		if h.sc.Budget > 1 {
			own.Skipped |= 1 << o
		}
		h.add(&next, "asks S%d: no answer, skipped", o)
	case c.Kind != absent && order(c.Kind, c.Version, c.Pop, 0) > order(live, h.task.Version, h.task.Pop, 0):
		h.adopt(o, "asks S%d: newer, adopts, doesn't send", o)
	case h.sc.Rules.PatchAsked && c.revisedSince(h.task.Version, h.task.Rev):
		h.adopt(o, "asks S%d: patched, adopts, doesn't send", o)
	case c.Mark > h.now.Now && (c.Kind != live || c.Version <= h.task.Version):
		h.putOff(c.Mark, "asks S%d: firing, waits to %d", o, c.Mark)
	case h.sc.Rules.LeaseAsked && c.Fired && c.Token != noToken && c.Score > h.now.Now:
		h.putOff(c.Score, "asks S%d: leased, waits to %d", o, c.Score)
	default:
		h.add(&next, "asks S%d: nothing newer", o)
	}
}

// stillSilent reports whether the node may not know yet that the shard is back.
func (h *hand) stillSilent(o int8) bool {
	return h.sc.Variants.SkipSilent && h.now.reach(h.n, o) && h.now.Back[h.n][o] > h.now.Now
}

// fence counts the attempt and sets the firing mark, if the node still has the lease.
func (h *hand) fence() {
	next := *h.now
	c, own := &next.Copies[h.shard], &next.Tasks[h.n][h.shard]
	switch {
	case !h.mine:
		h.drop(&next, "fence refused or without answer")
		return
	case h.sc.Attempts > 0 && h.task.Fence == unfenced && c.Attempt >= h.sc.Attempts:
		own.Phase, own.Outcome, own.FencedAt, own.Asked = lettering, givenUp, h.now.Now, 0
		h.add(&next, "attempts used up")
		return
	case h.task.Fence == unfenced:
		h.count(c)
		own.Pop, own.Attempt, own.FencedAt = c.Pop, c.Attempt, h.now.Now
	}
	own.Fence = fenced
	h.add(&next, "fence passed v%d pop %d attempt %d", c.Version, c.Pop, c.Attempt)
	if ahead := h.sc.Variants.AskAhead; ahead > 0 && h.now.Now < own.AskedAt+ahead {
		h.last().urgent = false
	}
	if h.mayLose() && h.task.Fence == unfenced {
		own.Fence = fenceUnknown
		h.lost(&next, "fence")
	}
}

// count is the fence on the copy. A pop that had an attempt is left for the next pop, if the next
// pop is overdue, too (rule "make up for overdue pops").
func (h *hand) count(c *stored) {
	overdue := func() bool {
		return c.Pop < h.sc.pops(c.Version) && h.now.due(h.sc, c.Version, c.Pop+1, c.Rank) <= h.now.Now
	}
	for overdue() && (h.sc.Variants.LatestOnly || c.Attempt > 0) {
		c.Pop, c.Attempt = c.Pop+1, 0
	}
	c.Attempt++
	c.Mark = h.now.Now + limit
	c.Score = h.now.Now + h.sc.Hold
	c.Fired = true
}

// send starts the callback, if the 2 s for that are not over.
func (h *hand) send() {
	next := *h.now
	from := h.task.FencedAt
	if h.sc.Rules.LimitFromAsk {
		from = h.task.AskedAt
	}
	if h.sc.Rules.Limit && h.now.Now >= from+limit {
		h.drop(&next, "2 s are over, doesn't send")
		return
	}
	own := &next.Tasks[h.n][h.shard]
	own.Phase, own.Asked, own.Fence, own.AskedAt = sent, 0, unfenced, 0
	v := next.noteSend(h.sc, &h.task)
	h.add(&next, "SENDS v%d pop %d attempt %d", h.task.Version, h.task.Pop, h.task.Attempt)
	h.blame(v)
	h.last().urgent = !h.sc.Variants.SlowSend
}
