package history

import (
	"net/http"
	"slices"
	"time"
)

// available is invariant 11: at least 99.9 % (Limits.Availability) of the requests had a good answer within 1 s
// (Limits.Answer). Good answers are 2xx, and 4xx other than 408 and 429. Requests count if fewer shards were faulty
// than the timer has copies, and fewer than half of the shards while nodes agree on a change. Requests to a node that died or stood still meanwhile do not count. A write with a condition,
// a PATCH and a delay need every owner, a fire needs the first owner that answers to be up to date. They count only if the
// answer is good.
//
// In addition, no node had to be restarted to work again.
func available(r *run, f *Finding) {
	var example *Operation
	for i := range r.h.Operations {
		op := &r.h.Operations[i]
		to := min(op.returned(), r.end)
		if r.hurtShards(op.invoked(), to) >= r.tooMany(op, to) || r.downFor(op, to) {
			continue
		}
		if (op.If != "" || op.Kind == Patch || op.moves()) && !op.answeredWell() {
			continue
		}
		r.counts.Requests++
		if !op.answeredWell() || op.returned()-op.invoked() > r.l.Answer {
			r.counts.Unanswered++
			example = op
		}
	}
	if n := r.counts.Requests; r.counts.Unanswered > 0 && float64(n-r.counts.Unanswered) < r.l.Availability*float64(n) {
		f.violation("%d of %d requests had no good answer in time, among them a %s to %s at %s, answered %d after %s",
			r.counts.Unanswered, n, example.Kind, example.Node, example.invoked(), example.Status, example.returned()-example.invoked())
	}
	for _, node := range r.h.End.Stuck {
		f.violation("node %s had to be restarted", node)
	}
}

func (o *Operation) answeredWell() bool {
	switch o.Status {
	case http.StatusRequestTimeout, http.StatusTooManyRequests:
		return false
	}
	return o.Status >= http.StatusOK && o.Status < http.StatusMultipleChoices ||
		o.Status >= http.StatusBadRequest && o.Status < http.StatusInternalServerError
}

// downFor tells whether the operation's node died or stood still during the operation.
func (r *run) downFor(op *Operation, to time.Duration) bool {
	for f := range r.during(op.invoked(), to) {
		if f.ofNode() && f.Node == op.Node && f.overlaps(op.invoked(), to, 0) {
			return true
		}
	}
	return false
}

// hurtShards is how many shards were faulty within [from, to], or up to Limits.Hurt before.
func (r *run) hurtShards(from, to time.Duration) int {
	shards := make(map[string]bool)
	for f := range r.during(from, to) {
		if f.ofShard() && f.overlaps(from, to, r.l.Hurt) {
			shards[f.Shard] = true
		}
	}
	return len(shards)
}

// tooMany is how many shards must be faulty before a request may fail: as many as the timer has copies, or as shards
// took timers. Half of the shards is enough while nodes may refuse writes because they don't know yet which shards
// count.
func (r *run) tooMany(op *Operation, to time.Duration) int {
	copies := r.h.Header.RF
	if op.Timer != nil && op.Timer.RF > 0 {
		copies = op.Timer.RF
	}
	if t := r.byKey[op.about()]; t != nil {
		for _, w := range t.writes {
			copies = min(copies, w.copies)
		}
	}
	active := r.activeShards(op.invoked(), to)
	if r.agreeing(op.invoked(), to) {
		return min(copies, (active+1)/2)
	}
	return min(copies, active)
}

// agreeing tells whether the nodes may not have agreed yet on a change at some time within [from, to]: up to
// Limits.Agree after its start, and as long as a fault lasts that hurt a shard meanwhile.
func (r *run) agreeing(from, to time.Duration) bool {
	return slices.ContainsFunc(r.h.Faults, func(c Fault) bool {
		if c.Class != TopologyChange || c.started() > to || c.ended(r.end) < from {
			return false
		}
		first, last := c.started(), c.started()+r.l.Agree
		return from <= last || r.explained(first, last, func(f *Fault) bool {
			return f.ofShard() && f.overlaps(first, last, 0) && f.overlaps(from, to, r.l.Hurt)
		})
	})
}

// activeShards is the smallest number of shards that took timers within [from, to]: after the last change before, or
// in a change within.
func (r *run) activeShards(from, to time.Duration) int {
	before, since, fewest := len(r.h.Header.Shards), time.Duration(-1), len(r.h.Header.Shards)+len(r.h.Faults)
	for i := range r.h.Faults {
		f := &r.h.Faults[i]
		switch ended := f.ended(r.end); {
		case f.Class != TopologyChange || f.Active == 0 || f.started() > to:
		case ended >= from:
			fewest = min(fewest, f.Active)
		case ended > since:
			before, since = f.Active, ended
		}
	}
	return min(fewest, before)
}
