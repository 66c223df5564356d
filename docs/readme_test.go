package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const readme = "../README.md"

// TestReadmeIsShort bounds README: README is for the first quarter of an hour, and the pages in docs
// have the rest.
func TestReadmeIsShort(t *testing.T) {
	t.Parallel()
	const most = 200
	if n := strings.Count(read(t, readme), "\n"); n > most {
		t.Errorf("README has %d lines; want %d at most", n, most)
	}
}

// TestEveryPageIsLinkedFromReadme finds pages that a reader of README does not find.
func TestEveryPageIsLinkedFromReadme(t *testing.T) {
	t.Parallel()
	linked := links(readme, read(t, readme))
	pages, err := filepath.Glob("*.md")
	if err != nil {
		t.Fatal(err)
	}
	if len(pages) < 10 {
		t.Fatalf("found the pages %q; want more", pages)
	}
	for _, page := range pages {
		if !slices.ContainsFunc(linked, func(l link) bool { return l.target == filepath.Join("..", "docs", page) }) {
			t.Errorf("README does not link docs/%s", page)
		}
	}
}

// TestCitedPagesExist finds pages that code, comments and other files of the project name, but that do
// not exist.
func TestCitedPagesExist(t *testing.T) {
	t.Parallel()
	page := regexp.MustCompile(`\bdocs/[\w/-]+\.md\b`)
	paths := []string{"../Makefile", "../.golangci.yaml"}
	for _, extension := range []string{".go", ".lua", ".yaml", ".md"} {
		paths = append(paths, sources(t, extension)...)
	}
	cited := 0
	for _, path := range paths {
		for _, name := range page.FindAllString(read(t, path), -1) {
			cited++
			if _, err := os.Stat(filepath.Join("..", name)); err != nil {
				t.Errorf("%s names %s: %v", path, name, err)
			}
		}
	}
	if cited < 10 {
		t.Errorf("found %d names of pages; want dozens", cited)
	}
}

// TestArchitectureNamesEveryPackage finds packages that the table of docs/architecture.md lacks, and rows of packages
// that are gone. The module loadtest has a few rows for all of its packages.
func TestArchitectureNamesEveryPackage(t *testing.T) {
	t.Parallel()
	var named []string
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z][\\w/-]*)` \\|").FindAllStringSubmatch(read(t, "architecture.md"), -1) {
		named = append(named, row[1])
	}
	packages := map[string]bool{}
	for _, path := range sources(t, ".go") {
		if dir := strings.TrimPrefix(filepath.Dir(path), "../"); !strings.HasPrefix(dir, "loadtest") {
			packages[dir] = true
		}
	}
	if len(packages) < 50 {
		t.Fatalf("found only %d packages", len(packages))
	}
	for name := range packages {
		if !slices.Contains(named, name) {
			t.Errorf("docs/architecture.md lacks %s", name)
		}
	}
	for _, name := range named {
		if !packages[name] && !strings.HasPrefix(name, "loadtest") {
			t.Errorf("docs/architecture.md names the package %s, which does not exist", name)
		}
	}
}
