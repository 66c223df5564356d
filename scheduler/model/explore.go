package model

import (
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
	"strings"
)

// Result is what [Explore] found.
type Result struct {
	States  int  // that were met
	Ends    int  // of them at the end of the run
	Cut     bool // the bound on states was met before all were seen
	LastNow int8 // how far the run got, in ticks
	// Counts has how many moves or ends broke what.
	Counts map[Violation]int
	traces map[Violation]trace
	walk   *walk
}

// trace is where a violation was first met: a state, and the move out of it, or
// -1 when the state is an end.
type trace struct{ at, move int32 }

// walk is the search: of every state met its hash and whence it was met. The
// states themselves are kept only until their successors were seen.
type walk struct {
	sc     Scenario
	seed   maphash.Seed
	seen   map[uint64]struct{}
	hashes []uint64
	parent []int32
}

// Explore walks all states of the scenario, breadth first, but no more than the
// bound. Of a state it keeps a hash of 64 bits: with 10 million states the chance
// that two of them are taken for one is below 1 in 100,000.
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

// meet notes a state, and reports whether it is new.
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

// judge judges a state by what may follow.
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

// Broken returns the violations that no fault excuses, sorted.
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

// String is one line: states, ends, and how often what was broken.
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

// Trace returns the shortest way to a violation, a line per move, by walking the
// states anew; nil if there was none.
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
