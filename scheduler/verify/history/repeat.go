package history

import (
	"cmp"
	"slices"
)

// A create with an Idempotency-Key that is sent again is the same write, since some copy knows of the first create.
// If all copies may have been lost between the two, the second create may have created the timer once more, with
// another version. Then the second create is a write of its own, after the write before (write.before). Callbacks may
// belong to either write.

// createsAgain tells whether a repeat of a create may have found no copy of the timer. As many owners as the timer
// had copies were faulty at once, and an owner lost data since the create was sent. A write that was never
// acknowledged may have had one copy.
func (r *run) createsAgain(w *write, op *Operation) bool {
	from, to := w.invoked, op.done(r.l.TakesEffect)
	key, copies := cmp.Or(w.key, op.about()), 1
	if w.ok {
		copies = r.copies(w, to)
	}
	return !op.refused() && slices.ContainsFunc(r.h.Faults, func(f Fault) bool {
		return f.Class == ShardLost && f.started() <= to && f.ended(r.end) >= from && r.owns(f.Shard, key, from, to) &&
			r.lost(key, max(f.started(), from), min(f.ended(r.end), to), copies)
	})
}

// shareKeys gives the timer's key to all writes of one Idempotency-Key, if a write knows the key.
func shareKeys(writes []*write) {
	for _, w := range writes {
		if w.before != nil {
			w.key = cmp.Or(w.key, w.before.key)
		}
	}
	for _, w := range slices.Backward(writes) {
		if w.before != nil {
			w.before.key = cmp.Or(w.before.key, w.key)
		}
	}
}

// root is the first write of the same Idempotency-Key.
func (w *write) root() *write {
	for w.before != nil {
		w = w.before
	}
	return w
}

// share gives callbacks, in order of arrival, to the writes of one Idempotency-Key, in the order of the writes. All
// callbacks of a version go to one write. If there are fewer versions than writes, a version goes to the latest write
// for which no callback is early.
func (r *run) share(writes []*write, calls []*Callback) {
	var versions []string
	of := make(map[string][]*Callback)
	for _, c := range calls {
		if of[c.Version] == nil {
			versions = append(versions, c.Version)
		}
		of[c.Version] = append(of[c.Version], c)
	}
	next := 0
	for i, version := range versions {
		at := max(min(next, len(writes)-1), len(writes)-(len(versions)-i))
		for at > next && r.tooEarly(writes[at], of[version]) {
			at--
		}
		for _, c := range of[version] {
			writes[at].take(c)
		}
		next = at + 1
	}
	for _, w := range writes {
		slices.SortStableFunc(w.calls, func(a, b *Callback) int { return cmp.Compare(a.ArriveNs, b.ArriveNs) })
	}
}

func (r *run) tooEarly(w *write, calls []*Callback) bool {
	return slices.ContainsFunc(calls, func(c *Callback) bool { return w.earliest(c.Seq)-c.arrived() > r.l.Early+r.steps(w, c.arrived()) })
}

// heard is the write whose callbacks may belong to w. If w was not called, heard is the last write before w that was
// called, since w may have found the timer of that write.
func (w *write) heard() *write {
	for o := w; o != nil; o = o.before {
		if len(o.calls) > 0 {
			return o
		}
	}
	return w
}
