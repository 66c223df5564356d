package docs_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

const protocol = "../docs/protocol.md"

// TestNamedTestsExist finds test names in documents that belong to no test. A name that ends in "…"
// stands for all tests with this beginning.
func TestNamedTestsExist(t *testing.T) {
	t.Parallel()
	tests := testNames(t)
	named := 0
	for _, path := range documents(t) {
		if filepath.Base(path) == "CHANGELOG.md" {
			continue // the document tells of its time
		}
		for _, name := range inCode(read(t, path), `\b(?:Test|Fuzz|Benchmark)[A-Z]\w*…?`) {
			named++
			prefix, isPrefix := strings.CutSuffix(name, "…")
			if !slices.ContainsFunc(tests, func(test string) bool { return test == name || isPrefix && strings.HasPrefix(test, prefix) }) {
				t.Errorf("%s names %s, which no test is called", path, name)
			}
		}
	}
	if named < 100 {
		t.Errorf("the documents name %d tests; want hundreds", named)
	}
}

// TestModelSwitchesAreNamed compares the model's switches on the protocol's page with the existing
// switches: every rule of the model stands on the page.
func TestModelSwitchesAreNamed(t *testing.T) {
	t.Parallel()
	switches := modelSwitches(t)
	named := inCode(read(t, protocol), `\b(?:Rules|Variants)\.\w+`)
	for _, name := range named {
		if !slices.Contains(switches, name) {
			t.Errorf("%s names %s, which the model doesn't have", protocol, name)
		}
	}
	for _, name := range switches {
		if strings.HasPrefix(name, "Rules.") && !slices.Contains(named, name) {
			t.Errorf("%s does not name the model's %s", protocol, name)
		}
	}
}

// TestSiteRulesAreTold compares the table of the rules between sites on the protocol's page, and the rules that the sections name,
// with the switches of the model for sites.
func TestSiteRulesAreTold(t *testing.T) {
	t.Parallel()
	page := read(t, protocol)
	_, sections, _ := strings.Cut(page, "\n## Rules between sites\n")
	sections, table, found := strings.Cut(sections, "\n## The shortest way to a violation between sites\n")
	if !found {
		t.Fatalf("%s has no sections about sites", protocol)
	}
	table, _, _ = strings.Cut(table, "\n## ")
	switches := switchesOf(t, "../scheduler/verify/sitemodel/rules.go")
	if len(switches) < 20 {
		t.Fatalf("the model for sites has the switches %q; want dozens", switches)
	}
	rows := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| `(\\w+)`: ").FindAllStringSubmatch(table, -1) {
		name := "Rules." + row[1]
		if rows[name] = true; !slices.Contains(switches, name) {
			t.Errorf("the table has the rule %s, which the model doesn't have", row[1])
		}
	}
	for _, name := range switches {
		if !rows[name] {
			t.Errorf("the table lacks the model's %s", name)
		}
	}
	for line := range strings.SplitSeq(sections, "\n- ") {
		if !strings.HasPrefix(line, "Model:") {
			continue
		}
		for _, name := range inCode(strings.Split(line, "\n\n")[0], `\w+`) {
			if !slices.Contains(switches, "Rules."+name) {
				t.Errorf("a rule between sites names %s, which the model doesn't have", name)
			}
		}
	}
}

// TestNamedCodeExists finds files, constants and fields on the protocol's page that do not exist.
func TestNamedCodeExists(t *testing.T) {
	t.Parallel()
	page := read(t, protocol)
	for _, file := range inCode(page, `\b(?:\w+/)+\w+\.(?:go|lua)\b`) {
		if _, err := os.Stat(filepath.Join("..", file)); err != nil {
			t.Errorf("%s names %s: %v", protocol, file, err)
		}
	}
	words := map[string]bool{}
	for _, path := range sources(t, ".go") {
		for word := range strings.FieldsFuncSeq(read(t, path), func(r rune) bool { return r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
			words[word] = true
		}
	}
	constants := 0
	for line := range strings.SplitSeq(page, "\n- ") {
		if !strings.HasPrefix(line, "Needs:") {
			continue
		}
		for _, name := range inCode(line, `\b[A-Za-z][a-z]+[A-Z]\w*`) {
			constants++
			if !words[name] {
				t.Errorf("%s needs %s, which no code has", protocol, name)
			}
		}
	}
	if constants < 20 {
		t.Errorf("the page needs %d constants; want dozens", constants)
	}
}

// TestCitedRulesExist finds rules, cited in comments and documents, without a heading on the protocol's
// page. The test also finds rules without a citation in a comment.
func TestCitedRulesExist(t *testing.T) {
	t.Parallel()
	rules := ruleNames(read(t, protocol))
	if len(rules) < 10 {
		t.Fatalf("the page has the rules %q; want more", rules)
	}
	cited := map[string]bool{}
	check := func(path, text string) {
		for _, name := range citations(text) {
			cited[name] = true
			if !slices.Contains(rules, name) {
				t.Errorf("%s cites the rule %q; the page has %q", path, name, rules)
			}
		}
	}
	for _, path := range documents(t) {
		check(path, read(t, path))
	}
	clear(cited) // only comments count
	for _, path := range sources(t, ".go") {
		check(path, goComments(t, path))
	}
	for _, path := range sources(t, ".lua") {
		check(path, luaComments(read(t, path)))
	}
	for _, name := range rules {
		if !cited[name] {
			t.Errorf("no comment cites the rule %q", name)
		}
	}
}

// TestCitationsAreRead shows the forms of a citation.
func TestCitationsAreRead(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		`See rule "no late writes".`:                           {"no late writes"},
		"Rule \"no late\nwrites\": a write":                    {"no late writes"},
		`(rules "order of states" and "versions rise") and so`: {"order of states", "versions rise"},
		`rules "a", "b" and "c"`:                               {"a", "b", "c"},
		`the ruler "Thor"`:                                     nil,
		`rule by "name"`:                                       nil,
	} {
		if got := citations(text); !slices.Equal(got, want) {
			t.Errorf("%q cites %q; want %q", text, got, want)
		}
	}
}

// TestLinksLeadSomewhere follows all links between the documents: to files, and to headings in files.
func TestLinksLeadSomewhere(t *testing.T) {
	t.Parallel()
	followed := 0
	for _, path := range documents(t) {
		for _, l := range links(path, read(t, path)) {
			followed++
			text, err := os.ReadFile(l.target)
			if info, statErr := os.Stat(l.target); statErr == nil && info.IsDir() {
				err = nil
			}
			switch {
			case err != nil:
				t.Errorf("%s links %s: %v", path, l.text, err)
			case l.anchor != "" && !slices.Contains(anchors(string(text)), l.anchor):
				t.Errorf("%s links %s: no heading has this anchor", path, l.text)
			}
		}
	}
	if followed < 100 {
		t.Errorf("followed %d links; the documents have hundreds", followed)
	}
}

// TestLinksAreRead shows the forms of a link.
func TestLinksAreRead(t *testing.T) {
	t.Parallel()
	const page = "../pages/a.md"
	for text, want := range map[string][]link{
		"[b](b.md)":                            {{"b.md", "../pages/b.md", ""}},
		"[`b`](../lua/b.md#keys)":              {{"../lua/b.md#keys", "../lua/b.md", "keys"}},
		"[here](#here), ![c](c.svg)":           {{"#here", page, "here"}, {"c.svg", "../pages/c.svg", ""}},
		"[far](https://example.com/a.md)":      nil,
		"`[code](b.md)`":                       nil,
		"```\n[block](b.md)\n```\n[d](d.md)\n": {{"d.md", "../pages/d.md", ""}},
	} {
		if got := links(page, text); !slices.Equal(got, want) {
			t.Errorf("%q has the links %q; want %q", text, got, want)
		}
	}
}

// TestDesignsAreShort bounds the files about the design of a package: the reasons of the past are in
// decisions.
func TestDesignsAreShort(t *testing.T) {
	t.Parallel()
	const most = 150
	for _, path := range documents(t) {
		if n := strings.Count(read(t, path), "\n"); filepath.Base(path) == "DESIGN.md" && n > most {
			t.Errorf("%s has %d lines; want %d at most", path, n, most)
		}
	}
}

// TestDecisionsAreListed compares the index of the decisions with their files.
func TestDecisionsAreListed(t *testing.T) {
	t.Parallel()
	index := read(t, "../docs/decisions/README.md")
	for _, path := range documents(t) {
		name := filepath.Base(path)
		if filepath.Base(filepath.Dir(path)) != "decisions" || name == "README.md" {
			continue
		}
		for line := range strings.SplitSeq(read(t, path), "\n") {
			title, is := strings.CutPrefix(line, "## ")
			if is && !strings.Contains(index, fmt.Sprintf("(%s#%s)", name, anchor(title))) {
				t.Errorf("the index lacks %q of %s", title, name)
			}
		}
	}
}

// link is a link to a file, or to a heading in a file.
type link struct{ text, target, anchor string }

// links returns the links of a document to files of the project.
func links(path, text string) (all []link) {
	written := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	for _, m := range written.FindAllStringSubmatch(withoutCode(text), -1) {
		if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
			continue
		}
		file, anchor, _ := strings.Cut(m[1], "#")
		target := path
		if file != "" {
			target = filepath.Join(filepath.Dir(path), file)
		}
		all = append(all, link{m[1], target, anchor})
	}
	return all
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// sources returns the paths of the project's files with this extension.
func sources(t *testing.T, extension string) (paths []string) {
	t.Helper()
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := entry.Name()
		if entry.IsDir() && (name == "node_modules" || strings.HasPrefix(name, ".") && name != "..") {
			return fs.SkipDir
		}
		if !entry.IsDir() && filepath.Ext(name) == extension {
			paths = append(paths, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

// testNames returns the names of all tests, fuzz targets and benchmarks.
func testNames(t *testing.T) (names []string) {
	t.Helper()
	declared := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark)\w*)\(`)
	for _, path := range sources(t, ".go") {
		if strings.HasSuffix(path, "_test.go") {
			for _, m := range declared.FindAllStringSubmatch(read(t, path), -1) {
				names = append(names, m[1])
			}
		}
	}
	return names
}

// modelSwitches returns the fields of the model's Rules and Variants, as Rules.Ask.
func modelSwitches(t *testing.T) (names []string) {
	t.Helper()
	if names = switchesOf(t, "../scheduler/verify/model/rules.go"); len(names) < 20 {
		t.Fatalf("the model has the switches %q; want dozens", names)
	}
	return names
}

// switchesOf returns the fields of the types in a file, as Type.Field.
func switchesOf(t *testing.T, path string) (names []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(node ast.Node) bool {
		spec, is := node.(*ast.TypeSpec)
		if !is {
			return true
		}
		if fields, is := spec.Type.(*ast.StructType); is {
			for _, field := range fields.Fields.List {
				for _, name := range field.Names {
					names = append(names, spec.Name.Name+"."+name.Name)
				}
			}
		}
		return false
	})
	return names
}

// inCode returns the matches in a text's `code`, without repeats.
func inCode(text, pattern string) []string {
	code, match := regexp.MustCompile("`[^`\n]+`"), regexp.MustCompile(pattern)
	found := map[string]bool{}
	for _, part := range code.FindAllString(withoutBlocks(text), -1) {
		for _, name := range match.FindAllString(part, -1) {
			found[name] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// ruleNames returns the headings of the third level.
func ruleNames(page string) (names []string) {
	for line := range strings.SplitSeq(page, "\n") {
		if name, is := strings.CutPrefix(line, "### "); is {
			names = append(names, name)
		}
	}
	return names
}

// citations returns the names of the rules that a text cites.
func citations(text string) (names []string) {
	const name = `"[^"]+"`
	cite := regexp.MustCompile(`\b[Rr]ules? (` + name + `(?:(?:,| and|, and) ` + name + `)*)`)
	quoted := regexp.MustCompile(name)
	for _, m := range cite.FindAllStringSubmatch(strings.Join(strings.Fields(text), " "), -1) {
		for _, q := range quoted.FindAllString(m[1], -1) {
			names = append(names, strings.Trim(q, `"`))
		}
	}
	return names
}

func goComments(t *testing.T, path string) string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, group := range file.Comments {
		all.WriteString(group.Text() + "\n")
	}
	return all.String()
}

func luaComments(text string) string {
	var all strings.Builder
	for line := range strings.SplitSeq(text, "\n") {
		if _, comment, is := strings.Cut(line, "--"); is {
			all.WriteString(comment + "\n")
		}
	}
	return all.String()
}

// withoutCode returns a document without its blocks of code and its `code`.
func withoutCode(text string) string {
	return regexp.MustCompile("`[^`\n]*`").ReplaceAllString(withoutBlocks(text), "")
}

func withoutBlocks(text string) string {
	return regexp.MustCompile("(?ms)^\\s*```.*?^\\s*```").ReplaceAllString(text, "")
}

// anchors returns the anchors of a document's headings.
func anchors(text string) (all []string) {
	times := map[string]int{}
	for line := range strings.SplitSeq(withoutBlocks(text), "\n") {
		heading := strings.TrimLeft(line, "#")
		if heading == line || !strings.HasPrefix(heading, " ") {
			continue
		}
		name := anchor(heading)
		if n := times[name]; n > 0 {
			all = append(all, fmt.Sprint(name, "-", n)) // the second heading of this text, and so on
		} else {
			all = append(all, name)
		}
		times[name]++
	}
	return all
}

func anchor(heading string) string {
	dropped := regexp.MustCompile(`[^\p{L}\p{N}\- _]`)
	return strings.ReplaceAll(dropped.ReplaceAllString(strings.ToLower(strings.TrimSpace(heading)), ""), " ", "-")
}
