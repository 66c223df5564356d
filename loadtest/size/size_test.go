package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFilesAreCountedInTheirRoom(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"scheduler/a.go":             "package a\n\nfunc f(n int) int {\n\tif n > 0 {\n\t\tn--\n\t}\n\treturn n\n}\n", // if, n--, return
		"scheduler/a_test.go":        "package a\n\n// one\n",
		"scheduler/wheel/w.go":       "package w\n\nfunc f() { f() }\n",
		"scheduler/model/m.go":       "package m\n",
		"redisstore/r.go":            "package r\n\nvar x = func() int { return 1 }\n",
		"lua/merge.lua":              "-- Does: nothing\n\nreturn 1\n",
		"lua/lua.go":                 "package lua\n",
		"api/a.go":                   "package api\n\nfunc f() { f(); f() }\n",
		"loadtest/size/main.go":      "package main\n",
		".hidden/h.go":               "no Go at all",
		"README.md":                  "not counted",
		"cmd/chronos/main.go":        "package main\n\nfunc main() {}\n",
		"cmd/chronos/simtest/doc.go": "package simtest\n",
	} {
		path := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	all, err := countTree(root)
	if err != nil {
		t.Fatal(err)
	}
	want := sizes{
		"tests": 2, "proof and tools": 3, "scheduler: webhook, kafka and wheel": 1, "scheduler": 3, "redisstore": 1,
		"lua": 2, "api": 2, "cmd": 0, "lua, Go around it": 0,
	}
	for name, n := range want {
		if all[name] != n {
			t.Errorf("%s: counted %d, want %d", name, all[name], n)
		}
	}
	if got := all.core(); got != 6 {
		t.Errorf("core: counted %d, want 6", got)
	}
}

func TestTheProjectIsComparedWithACommit(t *testing.T) {
	var out bytes.Buffer
	if err := run([]string{"-root", "../..", "-base", "HEAD"}, &out); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "core in all") || !strings.Contains(out.String(), "%") {
		t.Errorf("no comparison was written:\n%s", out.String())
	}
}
