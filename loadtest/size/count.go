package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"strings"
)

// room is a part of the project with a count of its own.
type room struct {
	name, unit string
	holds      func(dir, file string) bool
}

const (
	statements = "statements"
	luaLines   = "lines of Lua"
	lines      = "lines"
)

// rooms lists all parts. A file belongs to the first room that holds the file.
func rooms() []room {
	below := func(dir string, parents ...string) bool {
		for _, parent := range parents {
			if dir == parent || strings.HasPrefix(dir, parent+"/") {
				return true
			}
		}
		return false
	}
	in := func(parents ...string) func(dir, file string) bool {
		return func(dir, _ string) bool { return below(dir, parents...) }
	}
	return []room{
		{"tests", lines, func(_, file string) bool { return strings.HasSuffix(file, "_test.go") }},
		{"proof and tools", lines, func(dir, _ string) bool {
			return below(dir, "loadtest", "scheduler/model", "scheduler/history", "scheduler/storetest", "scheduler/verify", "scheduler/store/storetest",
				"scheduler/webhook/webhooktest", "cmd/chronos/simtest", "cmd/chronos/processtest", "cmd/chronos-bridge/bridgetest", "api/apitest", "api/openapitest", "internal")
		}},
		{"scheduler: webhook, kafka and wheel", statements, in("scheduler/webhook", "scheduler/kafka", "scheduler/wheel", "scheduler/dispatch/wheel")},
		{"scheduler", statements, in("scheduler")},
		{"redisstore", statements, in("redisstore")},
		{"lua", luaLines, func(dir, file string) bool { return dir == "lua" && strings.HasSuffix(file, ".lua") }},
		{"api", statements, in("api")},
		{"cmd", statements, in("cmd")},
		{"lua, Go around it", statements, in("lua")},
	}
}

// sizes are the counts by the name of the room.
type sizes map[string]int

func counted(file string) bool {
	return strings.HasSuffix(file, ".go") || strings.HasSuffix(file, ".lua")
}

// add counts a file. The name is relative to the project's folder.
func (s sizes) add(name string, text []byte) error {
	for _, r := range rooms() {
		if !r.holds(path.Dir(name), path.Base(name)) {
			continue
		}
		n := nonBlank(text)
		if r.unit == statements {
			var err error
			if n, err = statementsOf(name, text); err != nil {
				return err
			}
		}
		s[r.name] += n
		return nil
	}
	return nil
}

// core is the size of the scheduler without the deliverers and the wheel, plus the store and the store's scripts.
func (s sizes) core() int { return s["scheduler"] + s["redisstore"] + s["lua"] }

// product is the size of all code that runs in production.
func (s sizes) product() int {
	return s.core() + s["scheduler: webhook, kafka and wheel"] + s["api"] + s["cmd"] + s["lua, Go around it"]
}

func nonBlank(text []byte) (n int) {
	for line := range bytes.Lines(text) {
		if len(bytes.TrimSpace(line)) > 0 {
			n++
		}
	}
	return n
}

// statementsOf counts the statements of a Go file. A block is no statement by itself.
func statementsOf(name string, text []byte) (n int, err error) {
	file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.SkipObjectResolution)
	if err != nil {
		return 0, fmt.Errorf("count statements: %w", err)
	}
	ast.Inspect(file, func(node ast.Node) bool {
		switch node.(type) {
		case *ast.BlockStmt, *ast.EmptyStmt:
		case ast.Stmt:
			n++
		}
		return true
	})
	return n, nil
}
