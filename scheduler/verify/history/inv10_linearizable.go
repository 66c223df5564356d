package history

import (
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
)

// linearizable is invariant 10: some order of a timer's operations explains the results of its GETs. In this order,
// every operation takes effect between its invocation and its return. A write with an unknown outcome takes effect
// within 3 s (Limits.TakesEffect) of its invocation, or never. A GET without an answer says nothing.
//
// A timer also ends by firing: a GET may say 404 from when the last pop of the write may have been due, or a callback
// was answered 410. The sequence number in a GET must belong to a pop, and the pops before must have been due.
//
// The invariant holds only while fewer owners are faulty than the timer has copies. A GET at another time is left
// out. A write at another time counts as unknown, and afterwards the timer may be in any state. A write that an
// earlier change may overrule (overruled) counts as unknown, too.
//
// A write with a condition takes effect only in a state that meets the condition. A condition on a version that no
// answer and no callback tells is not judged. Nor is a condition while another write misses an owner, or an owner loses
// data: the first owner can't know of every write then.
//
// If no order is found within Limits.Linearize, the run is unknown.
func linearizable(r *run, f *Finding) {
	undecided := 0
	for _, t := range r.timers {
		if !slices.ContainsFunc(t.ops, func(op *Operation) bool { return op.Kind == Get || op.If != "" }) {
			continue
		}
		r.counts.LinearKeys++
		for i, ops := range r.segments(t) {
			switch porcupine.CheckOperationsTimeout(modelOf(i > 0), ops, r.l.Linearize) {
			case porcupine.Ok:
			case porcupine.Illegal:
				f.violation("timer %s: no order of its %d operations from %s on explains what was read",
					t.key, len(ops), time.Duration(ops[0].Call))
			case porcupine.Unknown:
				undecided++
			}
		}
	}
	if undecided > 0 {
		r.problem("invariant 10: %d timers could not be decided in %s each", undecided, r.l.Linearize)
	}
}

// The states of a timer besides the indexes of its writes. The indexes of its revisions follow those of its writes.
const (
	absent   = -1
	whatever = -2 // any state, until a read or write
	present  = -3 // of a condition alone: any write
)

// step is the effect of an operation on a timer, or the state that the operation found.
type step struct {
	read  bool
	maybe bool // may never take effect
	// found is the index of the write that was written or read, absent for a DELETE and a 404, whatever if no write
	// asked for the timer that was read.
	found int
	// overs are the writes whose timers may have ended by firing by the time of a 404, or of a write that asks for the
	// absence of the timer.
	overs []int
	// asks is the condition of a write: absent, present, or the index of a write; whatever without a condition.
	asks int
	// base is the state that a PATCH has read; whatever for all other steps.
	base int
}

func modelOf(anyStart bool) porcupine.Model {
	first := absent
	if anyStart {
		first = whatever
	}
	model := porcupine.NondeterministicModel{
		Init: func() []any { return []any{first} },
		Step: func(state, input, _ any) (next []any) {
			current, is := state.(int)
			s, known := input.(step)
			if !is || !known {
				return nil
			}
			if s.maybe {
				next = append(next, current)
			}
			if possible, after := s.apply(current); possible {
				next = append(next, after)
			}
			return next
		},
	}
	return model.ToModel()
}

// apply tells whether the step is possible in a state, and names the state after the step.
func (s step) apply(state int) (possible bool, next int) {
	switch {
	case !s.read:
		return s.met(state), s.found
	case s.found == whatever:
		return false, state
	case state == whatever, state == s.found:
		return true, s.found
	case s.found == absent && slices.Contains(s.overs, state):
		return true, absent
	}
	return false, state
}

// met tells whether the condition of a write may hold in a state.
func (s step) met(state int) bool {
	if s.base != whatever && s.base != state && state != whatever {
		return false
	}
	switch s.asks {
	case whatever:
		return true
	case present:
		return state != absent
	case absent:
		return state == absent || state == whatever || slices.Contains(s.overs, state)
	}
	return state == s.asks || state == whatever
}

// segments cuts a timer's operations where too many shards were faulty.
func (r *run) segments(t *timer) [][]porcupine.Operation {
	var segments [][]porcupine.Operation
	var loose []porcupine.Operation // writes that may take effect later
	dark := r.dark(t.key, r.copiesOf(t))
	next := 0
	var current []porcupine.Operation
	for i, op := range t.ops {
		for next < len(dark) && dark[next].from <= op.invoked() {
			segments = append(segments, current)
			current = slices.Clone(loose)
			next++
		}
		from, to := op.invoked(), r.done(t, op)
		s := r.stepOf(t, op)
		w := t.byOp[op]
		s.maybe = op.writes() && op.uncertain() && (w == nil || !w.ok) || w != nil && w.before != nil
		unlit := slices.ContainsFunc(dark, func(l level) bool { return l.from <= to && from <= l.to })
		switch {
		case op.Kind == Get && (op.Outcome != OK || unlit):
			continue
		case unlit, op.writes() && r.overruled(t, op):
			to, s.maybe = never, true
		}
		o := porcupine.Operation{ClientId: i, Input: s, Call: int64(from), Return: int64(to)}
		if current = append(current, o); to == never {
			loose = append(loose, o)
		}
	}
	segments = append(segments, current)
	return segments
}

// copiesOf is the smallest number of copies of the timer, by the answers and by the number of shards that took
// timers.
func (r *run) copiesOf(t *timer) int {
	copies := r.h.Header.RF
	for _, op := range t.ops {
		if op.writes() && op.Outcome == OK {
			copies = min(copies, r.told(op))
		}
	}
	for _, w := range t.writes {
		if w.ok { // maybe by the answer to a repeat
			copies = min(copies, r.copies(w, t.ops[len(t.ops)-1].invoked()))
		}
	}
	return copies
}

func (r *run) stepOf(t *timer, op *Operation) step {
	unheard := r.unheard(t, op)
	s := step{read: op.Kind == Get, found: absent, asks: whatever, base: whatever}
	if !unheard {
		s.asks = t.asks(op)
	}
	if s.read && op.Read == nil || s.asks == absent {
		s.overs = r.oversBy(t, op)
	}
	switch {
	case op.Kind == Patch:
		if s.found = t.stateAt(op.Timer); !unheard {
			s.base = t.stateAt(op.Base)
		}
	case op.Timer != nil:
		root := t.byOp[op].root()
		s.found = slices.IndexFunc(t.writes, func(w *write) bool { return w.root() == root })
	case s.read && op.Read != nil:
		s.found = r.writeRead(t, op)
	}
	return s
}

// unheard tells whether another write at the same time missed an owner, or an owner lost data then.
func (r *run) unheard(t *timer, op *Operation) bool {
	if op.Kind != Patch && op.If == "" {
		return false
	}
	from, to := op.invoked(), op.returned()
	return r.lost(t.key, from, to, 1) || slices.ContainsFunc(t.ops, func(o *Operation) bool {
		return o != op && o.Answer != nil && o.Answer.Unreached > 0 && o.invoked() <= to && o.returned() >= from
	})
}

// oversBy are the writes whose timers may have ended by firing when the operation returned.
func (r *run) oversBy(t *timer, op *Operation) (overs []int) {
	for i, w := range t.writes {
		last := w.earliest(w.asked.Pops) - r.steps(w, op.returned())
		if op.returned() >= min(last, w.goneAt()) {
			overs = append(overs, i)
			for k, v := range t.revisions {
				if v.of == w.root() {
					overs = append(overs, len(t.writes)+k)
				}
			}
		}
	}
	return overs
}

// asks is the condition of an operation as a step has the condition.
func (t *timer) asks(op *Operation) int {
	switch op.If {
	case "":
		return whatever
	case "absent":
		return absent
	case "present":
		return present
	}
	i := slices.IndexFunc(t.writes, func(w *write) bool {
		return w.op.Answer != nil && w.op.Answer.Version == op.If || w.version() == op.If
	})
	if i < 0 {
		if i = slices.IndexFunc(t.revisions, func(v *revision) bool { return v.op.Answer != nil && v.op.Answer.Version == op.If }); i < 0 {
			return whatever
		}
		return len(t.writes) + i
	}
	return i
}

// stateAt is the state in which a timer calls what was asked for; whatever if no write asked for it.
func (t *timer) stateAt(asked *Asked) int {
	at := func(a *Asked) bool { return a.place() == asked.place() }
	if i := slices.IndexFunc(t.writes, func(w *write) bool { return at(w.asked) }); i >= 0 {
		return i
	}
	if i := slices.IndexFunc(t.revisions, func(v *revision) bool { return at(v.op.Timer) }); i >= 0 {
		return len(t.writes) + i
	}
	return whatever
}

// writeRead is the index of the write that a GET read, whatever if the GET can have read no write then.
func (r *run) writeRead(t *timer, op *Operation) int {
	i := t.stateAt(&Asked{URL: op.Read.URL, BodyHash: op.Read.BodyHash})
	if i < 0 {
		return whatever
	}
	of := i
	if i >= len(t.writes) {
		root := t.revisions[i-len(t.writes)].of
		of = slices.IndexFunc(t.writes, func(w *write) bool { return w.root() == root })
	}
	w, seq := t.writes[of], op.Read.Seq
	due := w.invoked
	if seq > 1 {
		due = w.earliest(seq - 1)
	}
	if seq < 1 || seq > w.asked.Pops || due-r.steps(w, op.returned()) > op.returned() {
		return whatever
	}
	return i
}
