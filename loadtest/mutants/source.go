package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// product is the source of the main module without the tests.
type product struct {
	texts     map[string]string     // by the path of each file under the root
	functions map[string][]function // by name
}

// function is a part of a file.
type function struct {
	file       string
	name       string
	begin, end int // in the file's text
}

// readProduct reads the Go files and the Lua scripts, except for the loadtest module and packages
// that serve tests.
func readProduct(root string) (*product, error) {
	p := &product{texts: map[string]string{}, functions: map[string][]function{}}
	err := filepath.WalkDir(root, func(at string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(root, at)
		if err != nil {
			return fmt.Errorf("name %s: %w", at, err)
		}
		relative = filepath.ToSlash(relative)
		if entry.IsDir() {
			if relative != "." && !isProduct(relative) {
				return fs.SkipDir
			}
			return nil
		}
		ext := path.Ext(relative)
		if ext != ".go" && ext != ".lua" || strings.HasSuffix(relative, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(at)
		if err != nil {
			return fmt.Errorf("read source: %w", err)
		}
		p.texts[relative] = string(text)
		all, err := functionsOf(relative, string(text))
		for _, f := range all {
			p.functions[f.name] = append(p.functions[f.name], f)
		}
		return err
	})
	return p, err
}

func isProduct(folder string) bool {
	name := path.Base(folder)
	return folder != "loadtest" && name != "node_modules" && !strings.HasPrefix(name, ".") && !strings.HasSuffix(name, "test")
}

// functionsOf returns the functions of a file; for a Lua script, also the text between the
// functions.
func functionsOf(file, text string) ([]function, error) {
	if path.Ext(file) == ".lua" {
		return luaFunctions(file, text), nil
	}
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, file, text, parser.SkipObjectResolution)
	if err != nil {
		return nil, fmt.Errorf("parse source: %w", err)
	}
	var all []function
	for _, declared := range parsed.Decls {
		if f, is := declared.(*ast.FuncDecl); is && f.Body != nil {
			all = append(all, function{file, nameOf(f), set.Position(f.Pos()).Offset, set.Position(f.End()).Offset})
		}
	}
	return all, nil
}

// nameOf is the name of a function; for a method, after the type of the receiver.
func nameOf(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return f.Name.Name
	}
	of, pointer := f.Recv.List[0].Type, false
	if star, is := of.(*ast.StarExpr); is {
		of, pointer = star.X, true
	}
	if generic, is := of.(*ast.IndexExpr); is {
		of = generic.X
	}
	name := "?"
	if plain, is := of.(*ast.Ident); is {
		name = plain.Name
	}
	if pointer {
		name = "(*" + name + ")"
	}
	return name + "." + f.Name.Name
}

// luaFunctions relies on the style of the scripts. A function begins with "local function" or
// "function" at the begin of a line. The function ends in the same line, or with a line "end".
func luaFunctions(file, text string) (all []function) {
	script := path.Base(file)
	now := function{file: file, name: script} // the function of the current line
	at := 0
	for line := range strings.Lines(text) {
		bare := strings.TrimRight(line, "\n")
		if called, begins := strings.CutPrefix(strings.TrimPrefix(bare, "local "), "function "); begins {
			now.end = at
			all = append(all, now)
			now.begin = at
			now.name, _, _ = strings.Cut(called, "(")
		}
		at += len(line)
		if now.name != script && (bare == "end" || now.begin == at-len(line) && strings.HasSuffix(bare, " end")) {
			now.end = at
			all = append(all, now)
			now.name, now.begin = script, at
		}
	}
	now.end = at
	return append(all, now)
}

// find returns the place of the edit's old text. No place, or several places, is an error.
func (p *product) find(e edit) (file string, at int, err error) {
	var places []function
	files := map[string]bool{}
	for _, f := range p.functions[e.Func] {
		if within(f.file, e.In) {
			places = append(places, f)
			files[f.file] = true
		}
	}
	named := strings.TrimSpace(e.Func + " " + e.In)
	switch {
	case len(places) == 0:
		return "", 0, fmt.Errorf("there is no function %s", named)
	case len(files) > 1, len(places) > 1 && path.Ext(e.Func) != ".lua":
		return "", 0, fmt.Errorf("there are %d functions %s: say in which folder or script", len(places), named)
	}
	count := 0
	for _, f := range places {
		text := p.texts[f.file][f.begin:f.end]
		if n := strings.Count(text, e.Old); n > 0 {
			count += n
			file, at = f.file, f.begin+strings.Index(text, e.Old)
		}
	}
	if count != 1 {
		return "", 0, fmt.Errorf("function %s in %s has this text %d times, and not once: %s", named, places[0].file, count, e.Old)
	}
	return file, at, nil
}

// within reports whether end is the end of the file's path, or of the folder's path.
func within(file, end string) bool {
	ends := func(at string) bool { return at == end || strings.HasSuffix(at, "/"+end) }
	return end == "" || ends(file) || ends(path.Dir(file))
}

// mutate returns the new text of each file that the bug changes.
func (p *product) mutate(b *bug) (map[string]string, error) {
	type place struct {
		edit
		at int
	}
	places := map[string][]place{}
	for _, e := range b.Edits {
		file, at, err := p.find(e)
		if err != nil {
			return nil, fmt.Errorf("bug %s: %w", b.Name, err)
		}
		places[file] = append(places[file], place{e, at})
	}
	changed := map[string]string{}
	for file, all := range places {
		slices.SortFunc(all, func(a, b place) int { return cmp.Compare(b.at, a.at) }) // from the last place to the first
		text := p.texts[file]
		for _, e := range all {
			text = text[:e.at] + e.New + text[e.at+len(e.Old):]
		}
		if _, err := functionsOf(file, text); err != nil {
			return nil, fmt.Errorf("bug %s: %w", b.Name, err)
		}
		changed[file] = text
	}
	return changed, nil
}
