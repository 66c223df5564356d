// Package docs_test checks the project's Markdown documents.
package docs_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestTablesHaveEvenColumns reads every Markdown file of the project: a row
// with a missing cell shows its figures under the wrong heading.
func TestTablesHaveEvenColumns(t *testing.T) {
	t.Parallel()
	rows := 0
	for _, path := range documents(t) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		read, uneven := tableRows(string(text))
		rows += read
		for _, problem := range uneven {
			t.Errorf("%s:%s", path, problem)
		}
	}
	if rows < 100 {
		t.Errorf("read %d table rows; the documents have hundreds", rows)
	}
}

// TestUnevenTablesAreFound shows tableRows tables with and without a fault.
func TestUnevenTablesAreFound(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"even":             {"| a | b |\n|---|---|\n| 1 | 2 |\n", nil},
		"missing cell":     {"| a | b |\n|---|---|\n| 1 |\n", []string{"3: 1 cells, 2 in the heading"}},
		"extra cell":       {"text\n\n| a |\n|---|\n| 1 | 2 |\n", []string{"5: 2 cells, 1 in the heading"}},
		"short rule":       {"| a | b |\n|---|\n", []string{"2: 1 cells, 2 in the heading"}},
		"escaped bar":      {"| a | b |\n|---|---|\n| x \\| y | 2 |\n", nil},
		"bar in code":      {"| a | b |\n|---|---|\n| `x|y` | 2 |\n", []string{"3: 3 cells, 2 in the heading"}},
		"two tables":       {"| a |\n|---|\n\n| a | b |\n|---|---|\n", nil},
		"inside of a list": {"- item\n  | a | b |\n  |---|---|\n  | 1 |\n", []string{"4: 1 cells, 2 in the heading"}},
		"output of redis":  {"```\n| a | b |\n| 1 |\n```\n", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, got := tableRows(c.text)
			if !slices.Equal(got, c.want) {
				t.Errorf("uneven rows are %q; want %q", got, c.want)
			}
		})
	}
}

// documents returns the paths of the project's Markdown files.
func documents(t *testing.T) []string {
	t.Helper()
	paths := sources(t, ".md")
	if !slices.Contains(paths, filepath.Join("..", "README.md")) {
		t.Fatalf("README.md is not among the documents: %v", paths)
	}
	return paths
}

// tableRows counts the rows of all tables outside of code blocks. tableRows describes every row whose
// number of cells differs from its table's heading.
func tableRows(text string) (rows int, uneven []string) {
	heading, code := 0, false
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "```") {
			code = !code
		}
		if code || !strings.HasPrefix(line, "|") {
			heading = 0
			continue
		}
		rows++
		cells := strings.Count(line, "|") - strings.Count(line, `\|`) - 1
		if heading == 0 {
			heading = cells
		}
		if cells != heading {
			uneven = append(uneven, fmt.Sprintf("%d: %d cells, %d in the heading", i+1, cells, heading))
		}
	}
	return rows, uneven
}
