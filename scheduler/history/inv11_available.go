package history

import (
	"net/http"
	"slices"
	"time"
)

// available is invariant 11: of the requests made while fewer than rf shards were faulty, at least 99.9 %
// (Limits.Availability) had an answer below 500, and no node had to be restarted to work again. Not counted are requests
// to a node in the window of its own death or freeze, and a GET that only a shard that was faulty could answer (unknowable).
func available(r *run, f *Finding) {
	var example *Operation
	for i := range r.h.Operations {
		op := &r.h.Operations[i]
		to := r.end
		if op.ReturnNs != -1 {
			to = time.Duration(op.ReturnNs)
		}
		if r.faulty(op.invoked(), to, r.h.Header.RF) || r.downFor(op) || r.unknowable(op, to) {
			continue
		}
		r.counts.Requests++
		if op.Status == 0 || op.Status >= http.StatusInternalServerError {
			r.counts.Unanswered++
			example = op
		}
	}
	if n := r.counts.Requests; n > 0 && float64(n-r.counts.Unanswered) < r.l.Availability*float64(n) {
		f.violation("%d of %d requests had no answer below 500, among them a %s to %s at %s",
			r.counts.Unanswered, n, example.Kind, example.Node, example.invoked())
	}
	for _, node := range r.h.End.Stuck {
		f.violation("node %s had to be restarted", node)
	}
}

// downFor tells whether the operation's node was in the window of a fault of its own.
func (r *run) downFor(op *Operation) bool {
	return r.explained(op.invoked(), op.invoked(), func(f *Fault) bool { return f.ofNode() && f.Node == op.Node })
}

// unknowable tells whether op is a GET that was refused, of a timer that was over, which leaves nothing on the shards that
// could be asked: a live copy may have been on the one that could not.
func (r *run) unknowable(op *Operation, to time.Duration) bool {
	t := r.byKey[op.about()]
	return op.Kind == Get && op.Status == http.StatusServiceUnavailable && t != nil && r.faulty(op.invoked(), to, 1) &&
		slices.ContainsFunc(t.writes, func(w *write) bool { return r.overBy(w, to) != nil })
}
