package history

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// noDuplicates is invariant 6: no pop has two callbacks that were certainly answered 2xx in time (the limit less
// Limits.AnswerMargin). Two causes explain a duplicate:
//
//   - A fault that explains duplicates hurt the timer (repeats).
//   - The clock of an owner was put so far ahead that the lease of the first callback was over (cutShort).
//
// If the repeated callback fails, retries follow. The first callback after the answered callback needs the explanation.
//
// Explained duplicates are counted and must be few: 1 in 1,000 callbacks (Limits.Duplicates), or 1 in 200 if links
// were cut or answers lost (Limits.DuplicatesCut). Duplicates of a NetSplit do not count for the share.
func noDuplicates(r *run, f *Finding) {
	for _, w := range r.writes {
		before, again := make(map[int]*Callback), make(map[int]*Callback)
		for _, c := range w.calls {
			first := before[c.Seq]
			if first != nil && again[c.Seq] == nil {
				again[c.Seq] = c
			}
			if !c.succeeded(r.l.AnswerMargin) {
				continue
			}
			if first != nil {
				r.judgeRepeat(f, w, first, again[c.Seq])
			}
			before[c.Seq], again[c.Seq] = c, nil
		}
	}
	share := r.l.Duplicates
	for i := range r.h.Faults {
		if f := &r.h.Faults[i]; f.ofLink() || f.Class == HeldUp {
			share = r.l.DuplicatesCut
		}
	}
	most := max(r.l.FewDuplicates, int(share*float64(r.counts.Callbacks)))
	if n := r.counts.ExplainedDuplicates - r.counts.Duplicates[NetSplit]; n > most {
		f.violation("%d duplicates in %d callbacks, %d at most are allowed whatever explains them: %s", n, r.counts.Callbacks, most, strings.Join(r.duplicates, "; "))
	}
}

func (r *run) judgeRepeat(f *Finding, w *write, first, c *Callback) {
	switch fault := r.repeats(w, first, c); {
	case fault != nil:
		r.counts.Duplicates[fault.Class]++
	case r.cutShort(first, c):
		r.counts.Duplicates[ClockStep]++
	default:
		f.violation("%s by %s: %s had answered %d at %s before", c, c.Node, first.Node, first.Status, first.over())
		return
	}
	r.counts.ExplainedDuplicates++
	r.duplicates = append(r.duplicates, fmt.Sprintf("%s by %s after %s by %s", c, c.Node, first.over(), first.Node))
}

// repeats is the fault because of which a copy of the timer may not have heard of a callback, and called again; nil
// if there is none. The fault hurt an owner of the timer, or a node that called or wrote the timer. In addition, one
// of these holds:
//
//   - The second callback was under way within the fault, or 3 s (Limits.Hurt) after the fault, or at the first poll
//     after the quiet of a Redis that restarted.
//   - The first callback was under way then. The second callback came no later than a node finds the end of the first
//     lease (Limits.NodeUnderWay). A node that stood still takes its callback for failed once the node wakes, and while
//     the shards change the retry waits longer (apart).
//   - No owner remembered the first callback (allForgot).
//   - A shard got back a copy that the sweep had moved on (broughtBack).
func (r *run) repeats(w *write, before, c *Callback) *Fault {
	held := r.h.Header.hold() + r.l.NodeUnderWay
	for i := range r.h.Faults {
		f := &r.h.Faults[i]
		lease := c.arrived() <= before.over()+held
		if f.Class == NodeFreeze && f.Node == before.Node && !lease {
			lease = c.arrived() <= later(f.ended(r.end), held+r.apart(w, before.arrived(), c.arrived()))
		}
		if f.explainsDuplicates() && (r.under(f, c) || lease && r.under(f, before)) && r.hurtsCalls(f, w, before, c) || r.allForgot(f, w, before, c) || r.broughtBack(f, w, c) {
			return f
		}
	}
	return nil
}

// allForgot tells whether an owner lost the outcome of the first callback, with all data or with the last writes, while
// every other copy was faulty, too: no shard knew of the callback any more. An owner that is only announced has no copy
// yet. The second callback comes when a copy that was away is due, or when the lease has ended that the owner went back to.
func (r *run) allForgot(f *Fault, w *write, before, c *Callback) bool {
	if f.Class != ShardLost || f.started() < before.arrived() || f.started() > c.arrived() {
		return false
	}
	owners := r.owners(w.timer(), f.started(), f.started())
	if f.BackMs > 0 && f.started()-ms(f.BackMs) > before.over()+r.l.Settle || f.BackMs == 0 && len(owners) == 1 {
		return false
	}
	return slices.Contains(owners, f.Shard) && r.faulty(w.timer(), f.started(), f.started(), r.fewest(len(owners), f.started(), f.started()))
}

// broughtBack tells whether a shard that lost its last writes may have got back a copy that the sweep had moved on to
// other owners: the shards were changing, and the shard owned the timer, within the time that was undone. The copy is
// there, and no owner tells the copy of an end, until the sweep finds the copy.
func (r *run) broughtBack(f *Fault, w *write, c *Callback) bool {
	if f.Class != ShardLost || f.BackMs == 0 || c.arrived() < f.started() {
		return false
	}
	undone := f.started() - ms(f.BackMs)
	if !r.changing(undone, f.started()) || r.owners(w.timer(), undone, f.started()) == nil || !r.owns(f.Shard, w.timer(), undone, f.started()) {
		return false
	}
	for o := range r.during(c.arrived(), c.arrived()) {
		if o.Fault == f {
			return true
		}
	}
	return false
}

// under tells whether the callback was under way within the fault, or up to Limits.Hurt after the fault. The copies of a
// Redis that restarted wait for the first poll after the quiet (quietUntil).
func (r *run) under(f *Fault, c *Callback) bool {
	after := r.l.Hurt
	if quiet := r.quietUntil(f); quiet > 0 {
		after = max(after, quiet+r.horizon()-time.Duration(f.EndNs))
	}
	return f.overlaps(c.arrived(), c.over()+r.l.Settle, after)
}

// cutShort tells whether the clock of an owner was put ahead during a callback. The jump must be so large that the
// lease of the callback may have been over when the next callback of the pop came.
func (r *run) cutShort(before, next *Callback) bool {
	var ahead time.Duration
	from, to := before.arrived()-r.l.Settle, before.over()+r.l.Settle
	for w := range r.during(from, to) {
		if w.Class == ClockStep && w.started() >= from && w.started() <= to && r.owns(w.Shard, before.Key, from, to) {
			ahead += ms(max(w.StepMs, 0))
		}
	}
	return ahead > 0 && next.arrived()-before.arrived()+ahead+r.l.Settle >= r.h.Header.hold()
}
