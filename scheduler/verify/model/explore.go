package model

import (
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
	"strings"
)

// Result is the outcome of [Explore].
type Result struct {
	States  int  // all states
	Ends    int  // states at the end of the run
	Cut     bool // the bound ended the walk
	LastNow int8 // how far the walk got, in ticks
	// Counts has the number of moves or ends for each violation.
	Counts map[Violation]int
	traces map[Violation]trace
	walk   *walk
}

// trace is the first place of a violation: a state and the move out of the state, or -1 at an
// end.
type trace struct{ at, move int32 }

// walk is the search. For every state it keeps a hash and the parent. A state itself is kept only
// until its successors are known.
type walk struct {
	sc     Scenario
	seed   maphash.Seed
	seen   map[uint64]struct{}
	hashes []uint64
	parent []int32
}

// Explore walks all states of the scenario, breadth first, up to the bound. A hash of 64 bits
// stands for a state. With 10 million states the chance of two equal hashes is below 1 in 100,000.
func Explore(sc Scenario, bound int) *Result {
	w := &walk{sc: sc, seed: maphash.MakeSeed(), seen: map[uint64]struct{}{}}
	r := &Result{Counts: map[Violation]int{}, traces: map[Violation]trace{}, walk: w}
	start := initial(&sc)
	w.meet(&start, -1)
	x := stepper{sc: &w.sc}
	at := int32(0)
	for level := []state{start}; len(level) > 0; {
		var following []state
		for i := range level {
			s := &level[i]
			if len(w.hashes) >= bound {
				r.Cut, r.LastNow, r.States = true, s.Now, len(w.hashes)
				return r
			}
			moves := x.successors(s)
			for j := range moves {
				r.note(moves[j].violation, at, int32(j))
				if w.meet(&moves[j].next, at) {
					following = append(following, moves[j].next)
				}
			}
			r.judge(&w.sc, s, moves, at)
			at++
		}
		level = following
	}
	r.States, r.LastNow = len(w.hashes), sc.End
	return r
}

// meet notes a state, and reports whether the state is new.
func (w *walk) meet(s *state, from int32) bool {
	hash := maphash.Comparable(w.seed, *s)
	if _, met := w.seen[hash]; met {
		return false
	}
	w.seen[hash] = struct{}{}
	w.hashes = append(w.hashes, hash)
	w.parent = append(w.parent, from)
	return true
}

// judge checks a state at the end of the run.
func (r *Result) judge(sc *Scenario, s *state, moves []move, at int32) {
	urgent := slices.ContainsFunc(moves, func(m move) bool { return m.urgent })
	if s.Now < sc.End || urgent {
		return
	}
	r.Ends++
	r.note(s.checkEnd(sc), at, -1)
}

func (r *Result) note(v Violation, at, move int32) {
	if v == "" {
		return
	}
	r.Counts[v]++
	if _, met := r.traces[v]; !met {
		r.traces[v] = trace{at, move}
	}
}

// Broken returns the violations without an excuse, sorted.
func (r *Result) Broken() []Violation {
	var broken []Violation
	for v := range r.Counts {
		if !v.Excused() {
			broken = append(broken, v)
		}
	}
	slices.Sort(broken)
	return broken
}

// String is one line: states, ends, and the count of each violation.
func (r *Result) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d states, %d ends", r.States, r.Ends)
	if r.Cut {
		fmt.Fprintf(&b, " (bound met at tick %d)", r.LastNow)
	}
	for _, v := range slices.Sorted(maps.Keys(r.Counts)) {
		fmt.Fprintf(&b, "; %s %d", v, r.Counts[v])
	}
	return b.String()
}

// Trace returns the shortest way to a violation, a line per move; nil without such a violation.
// Trace walks the states of the way again.
func (r *Result) Trace(v Violation) []string {
	found, ok := r.traces[v]
	if !ok {
		return nil
	}
	var way []uint64
	for at := found.at; at > 0; at = r.walk.parent[at] {
		way = append(way, r.walk.hashes[at])
	}
	slices.Reverse(way)
	x := stepper{sc: &r.walk.sc, tracing: true}
	s := initial(&r.walk.sc)
	var lines []string
	for _, hash := range way {
		moves := x.successors(&s)
		i := slices.IndexFunc(moves, func(m move) bool { return maphash.Comparable(r.walk.seed, m.next) == hash })
		lines = append(lines, fmt.Sprintf("[%2d] %s", s.Now, moves[i].label))
		s = moves[i].next
	}
	if found.move < 0 {
		return append(lines, fmt.Sprintf("[%2d] end: %+v  <== %s", s.Now, s.Copies, v))
	}
	return append(lines, fmt.Sprintf("[%2d] %s  <== %s", s.Now, x.successors(&s)[found.move].label, v))
}
