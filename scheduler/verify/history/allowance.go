package history

import (
	"cmp"
	"slices"
	"time"
)

const maxRetryAfter = time.Hour

// allowance is how late a callback may be. The callback should start at due or somewhat earlier, but not before from.
// Without faults, the allowance is 250 ms (Limits.Late). A fault of a shard counts for the timers that the shard
// owns. Every fault counts until its delays are over (delays). The allowances of all faults that may show until the
// callback add up:
//
//   - Nodes that died or froze since from: the hold time and 1 s per fault, for the callback may have been under way.
//   - Nodes that died or froze before: 1.5 s in all, if within a lease before from, or if a node has come back since.
//     A node that took a timer over may have died since.
//   - If shards change meanwhile, after either of the two: the skews, and the lease of a claim (apart).
//   - Faulty shards: one skew per shard, the silence (1 s), and 0.5 s.
//   - Cut links, lost answers and lost data: in addition the hold time and 1 s, since an outcome could not be
//     propagated, or is forgotten.
//   - Faults of the shard that nodes ask about a one-copy timer, beside the owner (witness): the silence and 0.5 s.
//   - Faults of shards and links, for a timer with a longer timeout: the time by which the timeout is longer. The shards
//     are asked, and the pop is left to other nodes, for so much longer.
//   - The delays that the faults themselves name (LateMs), and all jumps of an owner's clock since the write.
//
// A shard whose clock was put back is quiet (quietUntil), so a callback may come until the next poll after the quiet.
//
// Two more delays are added: one skew for every copy that may be missing (absent), and the delay of a timer that a
// fault may have shifted (shifted).
//
// If as many owners were faulty at once as the timer has copies, the callback may come until 15 s (Limits.Recover)
// after these faults. If the next outage begins by then, the callback may come until 15 s after the next outage.
func (r *run) allowance(w *write, from, due time.Duration) time.Duration {
	return r.allowanceOver(w, from, due, r.l.Late)
}

// allowanceOver is the allowance if at least the delay least is allowed.
func (r *run) allowanceOver(w *write, from, due, least time.Duration) time.Duration {
	more := time.Duration(r.absent(w, from))*w.skew + r.shifted(w, due)
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
	for f := range r.during(from, later(due, allowed)) {
		if f.putBack() && r.hurtsTimer(f.Fault, w.timer(), from, later(due, allowed)) {
			allowed = max(allowed, r.quietUntil(f.Fault)+r.horizon()-due)
		}
	}
	return allowed
}

// absent is how many better copies may be missing from an instant on. There are three reasons:
//
//   - By the answer, the write did not reach these copies.
//   - The shards of these copies lost data since the write. A loss counts if no repair is recorded.
//   - The shards became owners by a change that is not over, and were away meanwhile: outcomes did not reach them (missed).
//
// A fault counts once the fault itself delays nothing any more.
func (r *run) absent(w *write, from time.Duration) int {
	var shards []string
	for _, f := range r.windows {
		if f.ofShard() && f.RepairedNs == 0 && f.ended(r.end) >= w.invoked && later(f.ended(r.end), r.delays(f.Fault)) < from && !slices.Contains(shards, f.Shard) &&
			(f.Class == ShardLost && r.owns(f.Shard, w.timer(), w.invoked, from) || r.missed(f.Fault, w, from)) {
			shards = append(shards, f.Shard)
		}
	}
	return w.unreached + len(shards)
}

// missed tells whether a shard that a change made an owner of the timer may have missed the timer's outcomes because
// of a fault during the change. The change must still be under way at the instant from.
func (r *run) missed(f *Fault, w *write, from time.Duration) bool {
	return slices.ContainsFunc(r.h.Faults, func(change Fault) bool {
		before := change.started() - windowBefore
		return change.Class == TopologyChange && change.started() <= f.ended(r.end) && change.ended(r.end) >= max(f.started(), from) &&
			r.owns(f.Shard, w.timer(), before, from) && !r.owns(f.Shard, w.timer(), before, before)
	})
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
	if links > 0 || len(shards) > 0 {
		sum += max(w.limit-r.h.Header.limit(), 0)
	}
	if waiting+underWay > 0 {
		sum += r.apart(w, from, until)
	}
	if len(shards) > 0 {
		sum += time.Duration(len(shards))*w.skew + r.l.Silence + r.l.ShardMargin
		asked = 0
	}
	return sum + asked
}

// shifted is how much later pops may be if a fault hurt an owner after the write (Limits.Shift).
func (r *run) shifted(w *write, until time.Duration) time.Duration {
	for f := range r.during(w.invoked, until) {
		if r.l.Shift > 0 && (f.ofShard() || f.Class == Slow) && f.started() <= until && f.ended(r.end) >= w.invoked &&
			r.hurtsTimer(f.Fault, w.timer(), w.invoked, until) {
			return r.l.Shift
		}
	}
	return 0
}

// delays is how long after its end a fault may make a callback late. The delay lasts until a shard that counts as
// healed is polled, an unknown lease has run out, or a Redis that restarted or lost data fires again. The answers that
// are under way when a slow shard is well again are still slow (Limits.ShardMargin).
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
	slow := time.Duration(0)
	if f.LateMs > 0 {
		slow = r.l.ShardMargin
	}
	return max(r.l.Hurt+slow+r.horizon(), quiet)
}

// bound is the latest instant at which pop n must have started for the first time. An earlier pop that was held up
// holds up pop n, too. If nobody knows when the write was done, bound is the constant never.
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

// held is the time until which callbacks of earlier pops hold a timer.
type held struct {
	settled time.Duration // the outcomes of the callbacks are known
	leased  time.Duration // the pop after a callback whose node died or froze must have started
}

func (h held) and(o held) held { return held{max(h.settled, o.settled), max(h.leased, o.leased)} }

// holds is the time until which a callback holds its timer. If the node died or froze before the outcome was settled,
// the lease must end first. The next pop or the retry may then be as late as a repeat of the callback itself. The lease
// of a callback with a longer timeout is renewed until the node dies or freezes.
func (r *run) holds(w *write, c *Callback) held {
	from, h := c.arrived()-r.l.Settle, held{settled: later(c.over(), r.l.Settle)}
	for f := range r.during(from, h.settled) {
		if f.ofNode() && (f.Node == c.Node || c.Node == "") && f.overlaps(from, h.settled, 0) {
			leased := c.arrived()
			if w.limit > r.h.Header.limit() {
				leased = max(leased, f.started())
			}
			h.leased = later(leased, r.allowanceOver(w, from, leased, r.h.Header.hold()+r.l.NodeUnderWay))
			break
		}
	}
	return h
}

// boundAfter is the latest instant at which pop n must have started if callbacks of earlier pops held the timer.
func (r *run) boundAfter(w *write, n int, h held) time.Duration {
	by := max(r.bound(w, n), h.leased)
	if h.settled > max(w.latest(n), w.busyUntil) {
		by = max(by, later(h.settled, r.allowance(w, w.earliest(n), h.settled)))
	}
	return by
}

// boundHeld is the latest instant at which pop n must have started, given the callbacks of earlier pops. A callback
// that came by the bound held the timer until the callback was over.
func (r *run) boundHeld(w *write, n int) time.Duration {
	by := r.bound(w, n)
	for _, c := range w.calls {
		if c.Seq < n && c.arrived() <= by {
			by = max(by, r.boundAfter(w, n, r.holds(w, c)))
		}
	}
	return by
}

// retryBy is when the next callback after c must have arrived, if another callback comes; c counts as the given
// attempt. The delays are the full backoff or a longer Retry-After, the time for other nodes (Limits.OtherNode), and
// the allowances for faults and for changes of the shards (outranked). A node that died meanwhile has settled
// nothing: see holds.
func (r *run) retryBy(w *write, c *Callback, attempt int) time.Duration {
	wait := max(w.asked.Retry.backoff(attempt), min(ms(c.RetryAfterMs), maxRetryAfter))
	over := c.over()
	at := over + wait + r.l.OtherNode
	behind := r.outranked(w, c.arrived(), at)
	if behind > 0 && r.overlap(w) { // the lease of the backup begins ahead of the backup's time
		behind = r.apart(w, c.arrived(), at) + r.horizon()
	}
	return max(later(at, r.allowance(w, over, at))+behind, r.holds(w, c).leased)
}

// overlap reports whether a retry's first copy and its backup may be claimed at the same time without a fault: the
// first copy is left to other nodes for a while (Limits.OtherNode), and the backup is claimed ahead of its time. Polls as
// in production are too frequent for an overlap.
func (r *run) overlap(w *write) bool { return r.l.OtherNode+2*r.horizon() >= w.skew }

// outranked is how much later a pop may come if the shards change while the timer is held by an earlier callback, or
// waits for a retry. The pop may wait for the turn of a backup, behind all better copies, although the backup is the
// primary now.
func (r *run) outranked(w *write, from, to time.Duration) time.Duration {
	if r.changing(from, to) {
		return time.Duration(w.rf-1) * w.skew
	}
	return 0
}

// apart is how much later a pop may come if a node died or froze while the shards change, or if the claims of two copies
// overlap. Nodes, and claims of one node, that are a step of the change apart take either copy for the better one. Each copy waits for the end of the other
// copy's lease, and then for the turn of a backup.
func (r *run) apart(w *write, from, to time.Duration) time.Duration {
	behind := r.outranked(w, from, to)
	if behind == 0 {
		return 0
	}
	return behind + max(time.Second, 5*ms(r.h.Header.PollMs))
}

// changing tells whether the shards changed, or were swept after the change, at some time within [from, to].
func (r *run) changing(from, to time.Duration) bool { return r.meanwhile(TopologyChange, from, to) }

// meanwhile tells whether a fault of the class lasted at some time within [from, to].
func (r *run) meanwhile(class Class, from, to time.Duration) bool {
	return slices.ContainsFunc(r.h.Faults, func(f Fault) bool {
		return f.Class == class && f.started() <= to && f.ended(r.end) >= from
	})
}

// horizon is how far ahead of its time a copy may be leased.
func (r *run) horizon() time.Duration { return ms(r.h.Header.PollMs)*5/4 + 25*time.Millisecond }

// backoff is the longest wait after the given attempt.
func (r Retry) backoff(attempt int) time.Duration {
	first, factor := cmp.Or(ms(r.FirstMs), time.Second), cmp.Or(r.Factor, 2)
	longest := cmp.Or(ms(r.LongestMs), max(time.Minute, first))
	wait := float64(first)
	for ; attempt > 1 && wait < float64(longest); attempt-- {
		if wait *= factor; factor == 1 {
			break
		}
	}
	return min(time.Duration(wait), longest)
}

// givenUp tells whether our own receiver, or a mute node (swallowed), is the reason why pop n was not delivered.
// There are three cases:
//
//   - The attempts are used up. Attempts that a fault took count: a fence counts an attempt before anything is sent,
//     and then the node may die, or the answer of the fence may be lost.
//   - The next attempt may still come after until, or after the pop has expired.
//   - The next attempt would come no sooner than the next pop, and so may have been dropped.
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
	attempts += r.swallowed(w, last.arrived(), retryBy)
	for f := range r.during(calls[0].arrived(), retryBy) {
		if f.explainsDuplicates() && !f.Mute && r.hurtsTimer(f.Fault, w.timer(), calls[0].arrived(), retryBy) {
			attempts++
		}
	}
	retryBy = r.retryBy(w, last, attempts)
	return attempts >= w.attempts || r.expiresBy(w, n, retryBy) || retryBy > until || n < w.asked.Pops && retryBy >= w.onGrid(n+1)
}

// allSwallowed tells whether mute nodes may have made all attempts at pop n.
func (r *run) allSwallowed(w *write, n int) bool {
	last := r.bound(w, n)
	for attempt := 1; attempt < w.attempts; attempt++ {
		last = later(last, w.limit+w.asked.Retry.backoff(attempt)+r.l.OtherNode)
	}
	return r.swallowed(w, w.earliest(n), last) >= w.attempts
}

// swallowed is how many attempts at a pop mute nodes may have made within [from, to], or nodes whose calls take longer
// than the timer's limit. Such a node may make an attempt under way, and a further attempt after every
// Limits.OtherNode. The node leaves its retry to other nodes for so long, but other nodes may look too seldom to find
// the retry.
func (r *run) swallowed(w *write, from, to time.Duration) (attempts int) {
	for f := range r.during(from, to) {
		mute := f.Mute || f.CallMs > 0 && ms(f.CallMs) >= w.limit
		if span := min(to, f.ended(r.end)) - max(from, f.started()); mute && span >= 0 {
			attempts += 1 + int(span/r.l.OtherNode)
		}
	}
	return attempts
}

// gapExplained tells whether pop n may have been left out in favour of a later pop. A fault may have held pop n up
// until the next pop was due, or a callback of an earlier pop ran until then.
func (r *run) gapExplained(w *write, n int) bool {
	return r.heldUp(w, n) || slices.ContainsFunc(w.calls, func(c *Callback) bool { return c.Seq < n && r.ranInto(w, c, n) })
}

// heldUp tells whether faults may have held pop n up until the next pop was due, or until pop n had expired, perhaps
// after a callback held pop n up.
func (r *run) heldUp(w *write, n int) bool {
	next := w.onGrid(n + 1)
	return r.expiresBy(w, n, r.boundHeld(w, n)) || r.boundHeld(w, n) >= next && (w.interval <= r.l.Gap || r.explained(w.earliest(n)-r.l.Recover, next, (*Fault).explainsGaps))
}

// ranInto tells whether a callback held the timer until the pop after pop n was due. The callback holds the timer
// until the outcome is settled (Limits.Settle). In two cases, only the next poll finds the timer:
//
//   - The timer moved with its outcome since the shards change: a poll of the shard where the timer belongs finds the
//     timer.
//   - The node that called was stopping and took nothing any more: a poll of another node finds the timer.
func (r *run) ranInto(w *write, c *Callback, n int) bool {
	over := c.over() + r.l.Settle
	if found := later(over, ms(r.h.Header.PollMs)); r.changing(c.arrived(), found) || r.meanwhile(NodeStop, c.arrived(), over) {
		over = found
	}
	return over >= w.onGrid(n+1)
}

// expiresBy tells whether pop n may have expired by then.
func (r *run) expiresBy(w *write, n int, by time.Duration) bool {
	return w.expires != never && by > later(w.earliest(n), w.expires)-r.steps(w, by)
}
