package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestEveryBugApplies compares the list with the product: a bug without its text in the product
// proves nothing.
func TestEveryBugApplies(t *testing.T) {
	t.Parallel()
	p, err := readProduct("../..")
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, b := range bugs() {
		if names[b.Name] {
			t.Errorf("two bugs are called %s", b.Name)
		}
		names[b.Name] = true
		if b.What == "" || !strings.HasSuffix(b.What, ".") {
			t.Errorf("bug %s: the sentence %q is none", b.Name, b.What)
		}
		if _, err := p.mutate(&b); err != nil {
			t.Error(err)
		}
	}
	if len(names) < 25 {
		t.Errorf("%d bugs, want 25 at least", len(names))
	}
}

const goText = `package p

func plain() int { return 1 }

func (s *shard) method() int { return 1 }

func (s shard) method() int { return 2 }
`

const luaText = `-- a header
local x = 1
local function short(a) return a end
local function long(a)
  if a then
    return 1
  end
end
return 1
`

func TestFunctionsOf(t *testing.T) {
	t.Parallel()
	for file, want := range map[string][][2]string{
		"p.go": {
			{"plain", "func plain() int { return 1 }"},
			{"(*shard).method", "func (s *shard) method() int { return 1 }"},
			{"shard.method", "func (s shard) method() int { return 2 }"},
		},
		"lua/p.lua": {
			{"p.lua", "-- a header\nlocal x = 1\n"},
			{"short", "local function short(a) return a end\n"},
			{"p.lua", ""},
			{"long", "local function long(a)\n  if a then\n    return 1\n  end\nend\n"},
			{"p.lua", "return 1\n"},
		},
	} {
		text := goText
		if strings.HasSuffix(file, ".lua") {
			text = luaText
		}
		all, err := functionsOf(file, text)
		if err != nil {
			t.Fatal(err)
		}
		var got [][2]string
		for _, f := range all {
			got = append(got, [2]string{f.name, text[f.begin:f.end]})
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("functions of %s (-want +got):\n%s", file, diff)
		}
	}
}

func productOf(t *testing.T, texts map[string]string) *product {
	t.Helper()
	p := &product{texts: texts, functions: map[string][]function{}}
	for file, text := range texts {
		all, err := functionsOf(file, text)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range all {
			p.functions[f.name] = append(p.functions[f.name], f)
		}
	}
	return p
}

func TestEditsThatDoNotApply(t *testing.T) {
	t.Parallel()
	p := productOf(t, map[string]string{"a/p.go": goText, "b/p.go": goText, "lua/p.lua": luaText})
	for name, c := range map[string]struct {
		edit edit
		want string // in the error; empty if the edit applies
	}{
		"one place":          {edit{"plain", "a", "return 1", "return 2"}, ""},
		"a method":           {edit{"shard.method", "b", "return 2", "return 1"}, ""},
		"a Lua function":     {edit{"long", "", "return 1", "return 2"}, ""},
		"text of a script":   {edit{"p.lua", "", "return 1", "return 2"}, ""},
		"unknown function":   {edit{"other", "", "return 1", "return 2"}, "no function"},
		"unknown folder":     {edit{"plain", "c", "return 1", "return 2"}, "no function"},
		"two functions":      {edit{"plain", "", "return 1", "return 2"}, "2 functions"},
		"text of another":    {edit{"plain", "a", "return 2", "return 1"}, "0 times"},
		"text stands twice":  {edit{"plain", "a", "n", "m"}, "times"},
		"text of a function": {edit{"p.lua", "", "return a", "return b"}, "0 times"},
		"no Go any more":     {edit{"plain", "a", "return 1", "return 1 }"}, "parse"},
	} {
		_, err := p.mutate(&bug{Name: "bug", Edits: []edit{c.edit}})
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: error %v, want one with %q", name, err, c.want)
		}
	}
}

func TestSeveralEditsOfOneFile(t *testing.T) {
	t.Parallel()
	p := productOf(t, map[string]string{"p.go": goText})
	changed, err := p.mutate(&bug{Edits: []edit{
		{Func: "plain", Old: "return 1", New: "return 100"},
		{Func: "shard.method", Old: "return 2", New: "return 200"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	want := strings.NewReplacer("func plain() int { return 1 }", "func plain() int { return 100 }", "return 2", "return 200").Replace(goText)
	if diff := cmp.Diff(map[string]string{"p.go": want}, changed); diff != "" {
		t.Errorf("changed files (-want +got):\n%s", diff)
	}
}

func TestWhoNoticed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		lines string
		want  caught
		fails bool
	}{
		"all pass": {lines: `{"Action":"pass","Package":"chronos/lua"}`},
		"a test": {
			lines: `{"Action":"run","Package":"chronos/lua","Test":"TestA"}
{"Action":"fail","Package":"chronos/lua","Test":"TestA"}
{"Action":"fail","Package":"chronos/lua","Test":"TestB"}
{"Action":"fail","Package":"chronos/lua"}`,
			want: caught{"lua", "TestA"},
		},
		"a subtest": {
			lines: `{"Action":"fail","Package":"chronos/lua","Test":"TestA/b"}
{"Action":"fail","Package":"chronos/lua","Test":"TestA"}`,
			want: caught{"lua", "TestA/b"},
		},
		"the process ends": {
			lines: `{"Action":"run","Package":"chronos/lua","Test":"TestA"}
{"Action":"fail","Package":"chronos/lua"}`,
			want: caught{"lua", "TestA"},
		},
		"no Go": {
			lines: `{"Action":"build-output","ImportPath":"chronos/lua","Output":"undefined: x"}
{"Action":"build-fail","ImportPath":"chronos/lua"}
{"Action":"fail","Package":"chronos/lua","FailedBuild":"chronos/lua"}`,
			fails: true,
		},
	} {
		got, err := readEvents([]byte(c.lines))
		if got != c.want || (err != nil) != c.fails {
			t.Errorf("%s: noticed by %v, error %v; want %v", name, got, err, c.want)
		}
	}
}
