package pages

import (
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRead(t *testing.T) {
	t.Parallel()
	const page = `text

<!-- new cluster -->
<!-- first: echo a
echo b -->
§sh
echo c
§

§
c
§

1. step

   <!-- runs on: ready -->
   §bash
   serve
   §

<!-- not run: no reason -->
§console
x
§

§jsonc
{}
§

§
no output of x
§

<!-- printed meanwhile -->
§
line
§
`
	got, err := Read(strings.ReplaceAll(page, "§", "```"))
	if err != nil {
		t.Fatal(err)
	}
	want := []Block{
		{Line: 6, Fresh: true, First: "echo a\necho b", Script: "echo c", Output: "c"},
		{Line: 17, How: RunsOn, Note: "ready", Script: "serve"},
		{Line: 22, How: NotRun, Note: "no reason", Script: "x"},
		{Line: 35, How: Meanwhile, Output: "line"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// Nothing is left out in silence: not a command in another kind of block, and not a comment about nothing.
func TestReadRefuses(t *testing.T) {
	t.Parallel()
	for name, page := range map[string]string{
		"commands without a language":  "§\ncurl localhost\n§\n",
		"commands behind a prompt":     "§\n$ true\n§\n",
		"commands in an indented text": "text\n\n    make test\n",
		"comment before text":          "<!-- not run: because -->\ntext\n",
		"comment at the end":           "<!-- first: true -->\n",
		"comment before other code":    "<!-- first: true -->\n§json\n{}\n§\n",
	} {
		if got, err := Read(strings.ReplaceAll(page, "§", "```")); err == nil {
			t.Errorf("%s: read as %+v", name, got)
		}
	}
}

func TestCompare(t *testing.T) {
	t.Parallel()
	const id, other = "01a1fb85e06d3f01", "01a22242be0707d8"
	for name, c := range map[string]struct {
		page, printed string
		ids           map[string]string
		fails         bool
	}{
		"words":                    {page: "done", printed: "done\n"},
		"other words":              {page: "done", printed: "failed", fails: true},
		"numbers, instants, times": {page: "1 at 2026-11-21T00:33:39.390Z, 2.2 ms", printed: "22 at 2027-01-01T00:00:00Z, 10 ms"},
		"a missing line":           {page: "a\nb", printed: "a", fails: true},
		"a line too many":          {page: "a", printed: "a\nb", fails: true},
		"lines left out":           {page: "a\n…\nz 1", printed: "a\nb\nc\nz 2"},
		"the rest left out":        {page: "a\n…", printed: "a\nb"},
		"columns":                  {page: "NAME  STATE\na  up", printed: "NAME     STATE\na        up"},
		"ids":                      {page: "id " + id, printed: "id " + other, ids: map[string]string{id: other}},
		"head":                     {page: "HTTP/1.1 200 OK\nEtag: \"" + id + "\"\n\n{\"a\":1}", printed: "HTTP/1.1 200 OK\r\nDate: now\r\nEtag: \"" + other + "\"\r\n\r\n{\"a\":2}\n", ids: map[string]string{id: other}},
		"head without a header":    {page: "HTTP/1.1 200 OK\nEtag: \"" + id + "\"\n\nx", printed: "HTTP/1.1 200 OK\r\nDate: now\r\n\r\nx", fails: true},
		"another status":           {page: "HTTP/1.1 200 OK", printed: "HTTP/1.1 201 Created\r\n\r\n", fails: true},
		"JSON":                     {page: `{"a":[{"id":"` + id + `"}],"n":1,"u":null}`, printed: `{"n":2,"a":[{"id":"` + other + `"},{"id":"x"}],"u":"known"}`, ids: map[string]string{id: other}},
		"JSON left out":            {page: `{"a":[{"b":1},…],"next":"…",…}`, printed: `{"a":[{"b":2}],"next":"xyz","more":true}`},
		"JSON, a missing member":   {page: `{"a":1,"b":2}`, printed: `{"a":1}`, fails: true},
		"JSON, a member too many":  {page: `{"a":1}`, printed: `{"a":1,"b":2}`, fails: true},
		"JSON, another kind":       {page: `{"a":1}`, printed: `{"a":"1"}`, fails: true},
		"JSON, another word":       {page: `{"code":"firing"}`, printed: `{"code":"overtaken"}`, fails: true},
		"JSON, an empty list":      {page: `{"a":[1]}`, printed: `{"a":[]}`, fails: true},
		"JSON, a list not empty":   {page: `{"a":[]}`, printed: `{"a":[1]}`, fails: true},
		"JSON, another status":     {page: `{"status":400}`, printed: `{"status":403}`, fails: true},
	} {
		ids, err := Compare(c.page, c.printed)
		if (err != nil) != c.fails || !maps.Equal(ids, c.ids) && len(ids)+len(c.ids) > 0 {
			t.Errorf("%s: %v, ids %v", name, err, ids)
		}
	}
}
