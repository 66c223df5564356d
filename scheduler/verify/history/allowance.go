package history

import (
	"slices"
	"time"
)

const (
	backoffBase   = time.Second
	backoffCap    = time.Minute
	maxRetryAfter = time.Hour
)

// allowance is how late a callback may be that should start at due, or somewhat before that, but not before from. Without
// faults that is 250 ms (Limits.Late). A fault of a shard counts for the timers that it owns, and each until its delays are
// over. What can have shown by then adds up:
//
//   - nodes that died or froze since: the hold time and 1 s each, for the callback may have been under way; 1.5 s in all
//     for those that died before, within a lease of it, or have come back since: who took it over may have died since
//   - faulty shards: one skew for each, the silence (1 s) and 0.5 s; if a link was cut, or answers or data were lost,
//     also the hold time and 1 s, since an outcome could not be told, or is not known any more
//   - faults of the shard that nodes ask about a timer of one copy, beside the owner (witness): the silence and 0.5 s
//   - what the faults themselves name (LateMs), and every jump of an owner's clock since the write
//
// On top of these comes one skew for each copy that may be missing (absent), or waits as the backup that it was before the
// shards changed, since it was leased too early to be told (leasedAhead), and what may have shifted the timer (shifted).
//
// If as many owners were faulty at once as there are copies, it is late until 15 s (Limits.Recover) after these faults,
// and those of the next time if that begins by then.
func (r *run) allowance(w *write, from, due time.Duration) time.Duration {
	return r.allowanceOver(w, from, due, r.l.Late)
}

// allowanceOver is the allowance where so much is known to be allowed.
func (r *run) allowanceOver(w *write, from, due, least time.Duration) time.Duration {
	more := time.Duration(r.absent(w, from))*w.skew + r.leasedAhead(w, from, due) + r.shifted(w, due)
	allowed := least + r.steps(w, due) + more
	for {
		until := later(due, allowed)
		sum := max(r.allowanceUntil(w, from, due, until), least) + r.steps(w, until) + more
		if sum <= allowed {
			break
		}
		allowed = sum
	}
	outages := r.outages(w.timer(), r.copies(w, later(due, allowed)))
	for o := range overlapping(outages, from, later(due, allowed)) {
		allowed = max(allowed, o.ended-due+r.l.Recover)
	}
	return allowed
}

// absent is how many of the better copies may not be there from an instant on: those that the answer says were not reached,
// and those on shards that lost data since the write and were not said to be repaired, though the loss delays nothing itself any
// more.
func (r *run) absent(w *write, from time.Duration) int {
	var lost []string
	for _, f := range r.windows {
		if f.Class == ShardLost && f.RepairedNs == 0 && f.ended(r.end) >= w.invoked && later(f.ended(r.end), r.delays(f.Fault)) < from && !slices.Contains(lost, f.Shard) &&
			r.owns(f.Shard, w.timer(), w.invoked, from) {
			lost = append(lost, f.Shard)
		}
	}
	return w.unreached + len(lost)
}

func (r *run) allowanceUntil(w *write, from, due, until time.Duration) time.Duration {
	var waiting, underWay, links, named, asked time.Duration
	var shards []string
	held := r.h.Header.hold() + r.l.NodeUnderWay
	for f := range r.during(from, until) {
		if f.started() > until || later(f.ended(r.end), r.delays(f.Fault)) < from {
			continue
		}
		if !r.hurtsTimer(f.Fault, w.timer(), from, until) {
			if f.ofShard() && r.witness(f.Fault, w, from, until) {
				asked = r.l.Silence + r.l.ShardMargin
			}
			continue
		}
		if f.from <= due {
			named += ms(f.LateMs)
		}
		switch {
		case f.ofNode() && f.started() >= from:
			underWay += held
		case f.ofNode() && (f.started()+held >= from || f.ended(r.end) <= until):
			waiting = r.l.NodeWaiting
		case f.ofShard() && !slices.Contains(shards, f.Shard):
			shards = append(shards, f.Shard)
		}
		if f.ofLink() || f.Class == ShardLost {
			links = held
		}
	}
	sum := waiting + underWay + links + named
	if len(shards) > 0 {
		sum += time.Duration(len(shards))*w.skew + r.l.Silence + r.l.ShardMargin
		asked = 0
	}
	return sum + asked
}

// shifted is how late pops may be since an owner was hurt after the write (Limits.Shift).
func (r *run) shifted(w *write, until time.Duration) time.Duration {
	for f := range r.during(w.invoked, until) {
		if r.l.Shift > 0 && (f.ofShard() || f.Class == Slow) && f.started() <= until && f.ended(r.end) >= w.invoked &&
			r.hurtsTimer(f.Fault, w.timer(), w.invoked, until) {
			return r.l.Shift
		}
	}
	return 0
}

// delays is how long after its end a fault may make a callback late: until the next poll of a shard that is taken for healed,
// or a lease of which nobody knows has run out, or a Redis that restarted or lost data fires again.
func (r *run) delays(f *Fault) time.Duration {
	quiet := time.Duration(0)
	if until := r.quietUntil(f); until > f.ended(r.end) {
		quiet = until + r.horizon() - f.ended(r.end)
	}
	switch {
	case f.RepairedNs != 0:
		return quiet
	case f.ofLink(), f.ofNode(), f.Class == ShardLost:
		return r.h.Header.hold() + r.l.NodeUnderWay
	}
	return max(r.l.Hurt+r.horizon(), quiet)
}

// bound is when pop n must have started at the latest, for the first time. A pop before it that was held up holds it up too.
// It is never for a write of which it isn't known when it was done.
func (r *run) bound(w *write, n int) time.Duration {
	if !w.ok {
		return never
	}
	for k := len(w.bounds) + 1; k <= n; k++ {
		due := max(w.latest(k), w.busyUntil)
		bound := later(due, r.allowance(w, w.earliest(k), due))
		if k > 1 {
			bound = max(bound, later(w.bounds[k-2], r.l.Settle))
		}
		w.bounds = append(w.bounds, bound)
	}
	return w.bounds[n-1]
}

// held is until when callbacks of earlier pops hold a timer.
type held struct {
	settled time.Duration // their outcomes are known
	leased  time.Duration // the pop behind one whose node died or froze must have started
}

func (h held) and(o held) held { return held{max(h.settled, o.settled), max(h.leased, o.leased)} }

// holds is until when a callback holds its timer. If its node died or froze before the outcome was settled, the lease must end
// first: the pop behind the callback, or the retry, is as late as the callback itself might be if it comes again.
func (r *run) holds(w *write, c *Callback) held {
	from, h := c.arrived()-r.l.Settle, held{settled: later(c.over(r.h.Header.limit()), r.l.Settle)}
	for f := range r.during(from, h.settled) {
		if f.ofNode() && (f.Node == c.Node || c.Node == "") && f.overlaps(from, h.settled, 0) {
			h.leased = later(c.arrived(), r.allowanceOver(w, from, c.arrived(), r.h.Header.hold()+r.l.NodeUnderWay))
			break
		}
	}
	return h
}

// boundAfter is when pop n must have started at the latest if callbacks of earlier pops held the timer.
func (r *run) boundAfter(w *write, n int, h held) time.Duration {
	by := max(r.bound(w, n), h.leased)
	if h.settled > max(w.latest(n), w.busyUntil) {
		by = max(by, later(h.settled, r.allowance(w, w.earliest(n), h.settled)))
	}
	return by
}

// boundHeld is when pop n must have started at the latest, given the callbacks of earlier pops: one that came by then held
// the timer until it was over.
func (r *run) boundHeld(w *write, n int) time.Duration {
	by := r.bound(w, n)
	for _, c := range w.calls {
		if c.Seq < n && c.arrived() <= by {
			by = max(by, r.boundAfter(w, n, r.holds(w, c)))
		}
	}
	return by
}

// retryBy is when the next callback after c, the given attempt, must have arrived if there is one: after the full backoff or
// what we asked for, the time that it is left to other nodes, and what the faults, and changes of the shards (outranked), allow.
// A node that died meanwhile has put nothing down: see holds.
func (r *run) retryBy(w *write, c *Callback, attempt int) time.Duration {
	wait := max(backoff(attempt), min(ms(c.RetryAfterMs), maxRetryAfter))
	over := c.over(r.h.Header.limit())
	at := over + wait + r.l.OtherNode
	return max(later(at, r.allowance(w, over, at))+r.outranked(w, c.arrived(), at), r.holds(w, c).leased)
}

// outranked is how much later a retry may come if the shards change meanwhile: it was put down for a backup, behind all that were
// better, that is the first now.
func (r *run) outranked(w *write, from, to time.Duration) time.Duration {
	if r.changing(from, to) {
		return time.Duration(w.rf-1) * w.skew
	}
	return 0
}

// changing tells whether the shards changed, or were swept after that, at some time within [from, to].
func (r *run) changing(from, to time.Duration) bool { return r.meanwhile(TopologyChange, from, to) }

// meanwhile tells whether there was a fault of the class at some time within [from, to].
func (r *run) meanwhile(class Class, from, to time.Duration) bool {
	return slices.ContainsFunc(r.h.Faults, func(f Fault) bool {
		return f.Class == class && f.started() <= to && f.ended(r.end) >= from
	})
}

// leasedAhead is how much later a pop may come if the shards change, where nodes lease copies further ahead of their time than a
// backup waits for the better ones: what is leased so can't be told that it is the first now. That takes polls that are longer
// than a node's may be, as simulations have them.
func (r *run) leasedAhead(w *write, from, to time.Duration) time.Duration {
	if r.horizon() <= w.skew {
		return 0
	}
	return r.outranked(w, from, to)
}

// horizon is how far ahead of its time a copy may be leased.
func (r *run) horizon() time.Duration { return ms(r.h.Header.PollMs)*5/4 + 25*time.Millisecond }

// backoff is the longest wait after the given attempt.
func backoff(attempt int) time.Duration {
	wait := backoffBase
	for ; attempt > 1 && wait < backoffCap; attempt-- {
		wait *= 2
	}
	return min(wait, backoffCap)
}

// givenUp tells whether it is our own receiver's doing, or a mute node's (swallowed), that pop n was not delivered: the
// attempts are used up (those that a fault took with it count: a fence counts one before anything is sent, and a node may
// die then, or its answer be lost), the next attempt may be yet to come by until, or it would come no sooner than the next
// pop and so may have been dropped.
func (r *run) givenUp(w *write, n int, until time.Duration) bool {
	calls := w.pops[n]
	if len(calls) == 0 {
		return r.allSwallowed(w, n)
	}
	last, attempts := calls[len(calls)-1], 0
	for _, c := range calls {
		attempts = max(attempts, c.Attempt)
	}
	retryBy := r.retryBy(w, last, attempts)
	attempts += r.swallowed(last.arrived(), retryBy)
	for f := range r.during(calls[0].arrived(), retryBy) {
		if f.explainsDuplicates() && !f.Mute && r.hurtsTimer(f.Fault, w.timer(), calls[0].arrived(), retryBy) {
			attempts++
		}
	}
	retryBy = r.retryBy(w, last, attempts)
	return attempts >= r.h.Header.Attempts || retryBy > until || n < w.asked.Pops && retryBy >= w.earliest(n+1)
}

// allSwallowed tells whether mute nodes may have made all attempts at pop n.
func (r *run) allSwallowed(w *write, n int) bool {
	last := r.bound(w, n)
	for attempt := 1; attempt < r.h.Header.Attempts; attempt++ {
		last = later(last, r.h.Header.limit()+backoff(attempt)+r.l.OtherNode)
	}
	return r.swallowed(w.earliest(n), last) >= r.h.Header.Attempts
}

// swallowed is how many attempts at a pop mute nodes may have made within [from, to]: one that was under way, and one more
// for each time that a node leaves its retry to the others, who may look too seldom to find it.
func (r *run) swallowed(from, to time.Duration) (attempts int) {
	for f := range r.during(from, to) {
		if span := min(to, f.ended(r.end)) - max(from, f.started()); f.Mute && span >= 0 {
			attempts += 1 + int(span/r.l.OtherNode)
		}
	}
	return attempts
}

// gapExplained tells whether pop n may have been left out in favour of a later one: a fault may have held it up until the
// next was due, or a callback of an earlier pop ran until then.
func (r *run) gapExplained(w *write, n int) bool {
	return r.heldUp(w, n) || slices.ContainsFunc(w.calls, func(c *Callback) bool { return c.Seq < n && r.ranInto(w, c, n) })
}

// heldUp tells whether faults may have held pop n up until the next one was due, perhaps after a callback had.
func (r *run) heldUp(w *write, n int) bool {
	next := w.earliest(n + 1)
	return r.boundHeld(w, n) >= next && (w.interval <= r.l.Gap || r.explained(w.earliest(n)-r.l.Recover, next, (*Fault).explainsGaps))
}

// ranInto tells whether a callback ran until the pop after pop n was due, or so long that who found the timer found it then.
// That is the next poll: of the shard where the timer belongs, if it moved with its outcome since the shards change, or of
// another node, if the one that called was stopping and took nothing any more.
func (r *run) ranInto(w *write, c *Callback, n int) bool {
	over := c.over(r.h.Header.limit()) + r.l.Settle
	if found := later(over, ms(r.h.Header.PollMs)); r.changing(c.arrived(), found) || r.meanwhile(NodeStop, c.arrived(), over) {
		over = found
	}
	return over >= w.earliest(n+1)
}

// surely is within what time an answer to a callback was certainly in time.
func (r *run) surely() time.Duration { return r.h.Header.limit() - r.l.AnswerMargin }
