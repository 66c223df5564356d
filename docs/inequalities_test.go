package docs_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestNeededInequalitiesAreChecked finds inequalities that a rule needs but the table lacks.
// Config.Validate checks the table's lines. A line has an inequality if the line names everything in
// the inequality.
func TestNeededInequalitiesAreChecked(t *testing.T) {
	t.Parallel()
	var table [][]string
	for line := range strings.SplitSeq(read(t, "../scheduler/settings/inequalities.go"), "\n") {
		table = append(table, regexp.MustCompile(`\w+`).FindAllString(line, -1))
	}
	needed := 0
	for item := range strings.SplitSeq(read(t, protocol), "\n- ") {
		if !strings.HasPrefix(item, "Needs:") {
			continue
		}
		for _, names := range inequalitiesOf(strings.Split(item, "\n\n")[0]) {
			needed++
			if !slices.ContainsFunc(table, func(line []string) bool {
				return !slices.ContainsFunc(names, func(name string) bool { return !slices.Contains(line, name) })
			}) {
				t.Errorf("%s needs an inequality of %q; no line of the table has it", protocol, names)
			}
		}
	}
	if needed < 30 {
		t.Errorf("the page needs %d inequalities; want dozens", needed)
	}
}

// TestInequalitiesAreRead shows how inequalities are written.
func TestInequalitiesAreRead(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][][]string{
		"`A` (1 s) ≥ 2 × `B` (0.1 s) + `C`, and so": {{"A", "B", "C"}},
		"`A` < `B` (0.2 s, or 3 s) < `C.D`: so":     {{"A", "B"}, {"B", "D"}},
		"`A`. `B` > `C`\n  (1 s) for `D`; `E`":      {{"B", "C", "D"}},
		"`A` (2 s), then `B`":                       nil,
	} {
		if got := inequalitiesOf(text); !slices.EqualFunc(got, want, slices.Equal) {
			t.Errorf("%q has %q; want %q", text, got, want)
		}
	}
}

// inequalitiesOf returns the names on the two sides of every sign, without text in parentheses.
func inequalitiesOf(text string) (all [][]string) {
	text = regexp.MustCompile(`\([^)]*\)`).ReplaceAllString(text, "")
	for clause := range slices.Values(regexp.MustCompile(`[.,:;](?:\s|$)`).Split(text, -1)) {
		sides := regexp.MustCompile(`[<>≤≥]`).Split(clause, -1)
		for i := range sides[1:] {
			var names []string
			for _, m := range regexp.MustCompile("`(?:\\w+\\.)?(\\w+)`").FindAllStringSubmatch(sides[i]+sides[i+1], -1) {
				names = append(names, m[1])
			}
			all = append(all, names)
		}
	}
	return all
}
