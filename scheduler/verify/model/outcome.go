package model

// answer is the end of a callback. The callback takes up to 2 s, and succeeds or fails. A node
// that froze meanwhile may take a success for a failure.
func (h *hand) answer() {
	v := h.now.checkSuccess(h.sc, &h.task)
	over := h.now.Now >= h.task.FencedAt+limit
	next := *h.now
	next.Succeeded |= h.sc.bit(h.task.Version, h.task.Pop)
	own := &next.Tasks[h.n][h.shard]
	own.Phase, own.Outcome = telling, succeeded
	h.end(&next, over, v, "2xx")
	if h.now.Now > h.task.FencedAt+limit {
		own.Outcome = failed
		h.end(&next, true, v, "2xx, but timed out for the node")
	}
	if h.now.Failures > 0 {
		next = *h.now
		next.Failures--
		own.Phase, own.Outcome = telling, failed
		if h.sc.Attempts > 0 && h.task.Attempt >= h.sc.Attempts {
			own.Phase, own.Outcome = lettering, givenUp
		}
		h.end(&next, over, "", "callback fails")
	}
}

func (h *hand) end(next *state, urgent bool, v Violation, what string) {
	h.add(next, "%s, v%d pop %d", what, h.task.Version, h.task.Pop)
	h.last().urgent = urgent
	h.blame(v)
}

// letter writes the dead letter on the leased copy's shard, with the token, before any copy
// gets the outcome.
func (h *hand) letter() {
	next := *h.now
	if !h.mine {
		h.drop(&next, "dead letter refused")
		return
	}
	v := h.now.checkLetter(h.sc, &h.task, h.shard)
	next.Letters[h.task.Version-1] |= 1 << h.shard
	next.Tasks[h.n][h.shard].Phase = telling
	h.add(&next, "writes the dead letter")
	h.blame(v)
	if h.mayLose() {
		next.Tasks[h.n][h.shard] = task{}
		h.lost(&next, "writes the dead letter, stops")
	}
}

// outcome is the state for the copy of this rank (rule "tell every copy the outcome").
func (h *hand) outcome(rank int8) written {
	last := h.task.Pop >= h.sc.pops(h.task.Version)
	w := written{kind: live, version: h.task.Version, pop: h.task.Pop, rank: rank, why: asOutcome, epoch: h.task.Epoch, rev: h.task.Rev,
		hastened: h.task.Since > 0, again: h.task.Again}
	retry := h.now.Now + h.sc.Retry
	switch {
	case h.task.Outcome == failed && (last || retry < h.now.due(h.sc, h.task.Version, h.task.Pop+1, 0)):
		w.attempt, w.score = h.task.Attempt, retry+rank*h.sc.Skew
	case last:
		w.kind, w.score, w.why = tombstone, forever, asDone
	default:
		w.pop++
		w.score = h.now.due(h.sc, h.task.Version, w.pop, rank)
		if h.sc.Rules.OverdueFromNow {
			w.score = max(w.score, h.now.Now+rank*h.sc.Skew)
		}
	}
	return w
}

func (w *written) String() string {
	switch {
	case w.why == asDone:
		return "done"
	case w.attempt > 0:
		return "again"
	default:
		return "next pop"
	}
}

// tell merges the outcome into the other copies, one at a time.
func (h *hand) tell() {
	if now := h.now.Changing.Epochs[h.n]; h.task.Asked == 0 && now >= counting && h.task.Epoch < counting {
		h.task.Epoch = now
	}
	next := *h.now
	own := &next.Tasks[h.n][h.shard]
	own.Epoch = h.task.Epoch
	o, more := h.unheard()
	if !more {
		own.Phase = settling
		if w := h.outcome(0); h.sc.Rules.EndsLast && w.kind == tombstone && h.task.Missed != 0 {
			h.keepEnd(&next)
		}
		h.add(&next, "the outcome has missed %b", h.task.Missed)
		return
	}
	own.Asked |= 1 << o
	if h.stillSilent(o) {
		skipped := next
		skipped.Tasks[h.n][h.shard].Missed |= 1 << o
		h.add(&skipped, "outcome misses S%d, taken for silent", o)
	}
	if !h.now.reach(h.n, o) || !h.sc.Rules.Tell {
		own.Missed |= 1 << o
		h.add(&next, "outcome misses S%d", o)
		return
	}
	w := h.outcome(h.rank(o))
	if w.kind == live && h.now.Copies[o].Kind == absent && h.owner(o) && h.sc.Rules.RestoreAfterSettle {
		own.Missing |= 1 << o
		h.add(&next, "outcome to S%d: no copy", o)
		return
	}
	if c := &h.now.Copies[o]; w.kind == live && c.Kind == live && c.Version == w.version && c.Rev < w.rev && h.owner(o) {
		own.Missing |= 1 << o
		w.rev = c.Rev
	}
	changed := next.merge(h.sc, o, w)
	h.add(&next, "outcome (%s) to S%d: %v", &w, o, changed)
	if h.mayLose() {
		own.Missed |= 1 << o
		h.lost(&next, "outcome (%s) to S%d", &w, o)
	}
}

// keepEnd has all owners that know of a done keep a tombstone, because another owner has
// missed the done.
func (h *hand) keepEnd(next *state) {
	for o := range h.sc.Shards {
		if o != h.shard && h.task.Missed&(1<<o) == 0 && h.owner(o) && h.now.reach(h.n, o) {
			w := h.outcome(h.rank(o))
			w.why = asDelete
			next.merge(h.sc, o, w)
		}
	}
}
