package history

import "slices"

// revision is a PATCH without timing: a write keeps its pops, and further callbacks come to the URL and the body of
// the PATCH. The write's invariants take the callbacks of all revisions together.
type revision struct {
	op     *Operation
	of     *write    // the first of all repeats
	before *revision // what the PATCH has read; nil for the write itself
}

// indexRevisions finds the write that each PATCH has read. A PATCH that has read nothing had no effect.
func (r *run) indexRevisions() {
	r.revisions = make(map[string]*revision)
	var all []*revision
	for i := range r.h.Operations {
		if op := &r.h.Operations[i]; op.Kind == Patch && op.Base != nil {
			v := &revision{op: op}
			all, r.revisions[op.Timer.place()] = append(all, v), v
		}
	}
	for _, v := range all {
		v.before = r.revisions[v.op.Base.place()]
	}
	for _, v := range all {
		first := v
		for range all { // a PATCH reads what was there before
			if first.before == nil {
				break
			}
			first = first.before
		}
		if v.of = r.finder.exact[first.op.Base.place()]; v.of == nil {
			r.problem("a PATCH at %s has read a timer that no write asked for: %s", v.op.invoked(), first.op.Base.URL)
		}
		if t := r.byKey[v.op.about()]; t != nil && v.of != nil && !v.op.refused() {
			t.revisions = append(t.revisions, v)
		}
	}
}

// place names what a timer calls, as a callback does.
func (a *Asked) place() string { return a.URL + "\n" + a.BodyHash }

// find is the write of a callback, and the revision, nil for the write itself. write is nil if neither matches.
func (r *run) find(c *Callback) (*write, *revision) {
	if v := r.revisions[c.URL+"\n"+c.BodyHash]; v != nil && v.of != nil {
		return v.of, v
	}
	return r.finder.find(c.URL, c.BodyHash), nil
}

// asksOf is what the callback should have called.
func (w *write) asksOf(c *Callback) *Asked {
	if c.revision != nil {
		return c.revision.op.Timer
	}
	return w.asked
}

// certainlyAfter tells whether the PATCH is certainly newer than what a callback of the write called.
func (r *run) certainlyAfter(v *revision, w *write, c *Callback) bool {
	switch {
	case w.root() != v.of || c.revision == nil:
		return true
	case c.revision == v:
		return false
	}
	for b := v.before; b != nil; b = b.before {
		if b == c.revision {
			return true
		}
	}
	return c.revision.op.done(r.l.TakesEffect) < v.op.invoked()
}

// revisionOf is the revision that a PATCH made; nil for all other operations.
func (t *timer) revisionOf(op *Operation) *revision {
	if i := slices.IndexFunc(t.revisions, func(v *revision) bool { return v.op == op }); i >= 0 {
		return t.revisions[i]
	}
	return nil
}
