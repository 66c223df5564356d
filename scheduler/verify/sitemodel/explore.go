package sitemodel

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Result is the outcome of [Explore].
type Result struct {
	States int
	Counts map[Violation]int
	ways   map[Violation][]string
}

// origin is how a state was met first.
type origin struct {
	from  int32
	now   int8
	site  int8
	label string
}

// Explore walks all states of the scenario, breadth first. Two counts of one violation are two moves, or two ends.
func Explore(sc Scenario) *Result {
	r := &Result{Counts: map[Violation]int{}, ways: map[Violation][]string{}}
	start := initial(&sc)
	seen := map[state]struct{}{start: {}}
	origins := []origin{{from: -1, site: -1}}
	note := func(v Violation, way func() []string) {
		if v == "" {
			return
		}
		if r.Counts[v]++; r.Counts[v] == 1 {
			r.ways[v] = way()
		}
	}
	x := stepper{sc: &sc}
	at := int32(0)
	for level := []state{start}; len(level) > 0; {
		var following []state
		for i := range level {
			s := &level[i]
			moves := x.successors(s)
			for j := range moves {
				m := &moves[j]
				came := origin{at, s.Now, m.site, m.label}
				note(m.violation, func() []string { return way(append(origins, came), int32(len(origins))) })
				if _, met := seen[m.next]; !met {
					seen[m.next] = struct{}{}
					origins = append(origins, came)
					following = append(following, m.next)
				}
			}
			if s.Now >= sc.End && !slices.ContainsFunc(moves, func(m move) bool { return m.urgent }) {
				note(s.checkEnd(&sc), func() []string { return way(origins, at) })
			}
			at++
		}
		level = following
	}
	r.States = len(origins)
	return r
}

// way is the shortest way to a state. The ticks are left out.
func way(origins []origin, at int32) []string {
	names := [...]string{london: "London", newYork: "New York"}
	var lines []string
	for ; at > 0; at = origins[at].from {
		switch o := origins[at]; {
		case o.label == "":
		case o.site < 0:
			lines = append(lines, fmt.Sprintf("%d: %s", o.now, o.label))
		default:
			lines = append(lines, fmt.Sprintf("%d: %s %s", o.now, names[o.site], o.label))
		}
	}
	slices.Reverse(lines)
	return lines
}

// Way returns the shortest way to a violation, a line per move; nil without such a violation.
func (r *Result) Way(v Violation) []string { return r.ways[v] }

// Broken returns the violations, sorted.
func (r *Result) Broken() []Violation { return slices.Sorted(maps.Keys(r.Counts)) }

// String is one line: the states, and the count of each violation.
func (r *Result) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d states", r.States)
	for _, v := range r.Broken() {
		fmt.Fprintf(&b, "; %s %d", v, r.Counts[v])
	}
	return b.String()
}
