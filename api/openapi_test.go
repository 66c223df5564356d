package api

import (
	"context"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/gofiber/fiber/v2"
	"github.com/google/go-cmp/cmp"

	"chronos/api/openapitest"
)

// described is the description, loaded once for all tests.
var described = sync.OnceValues(func() (*openapitest.Description, error) { return openapitest.Load(openAPI) })

func loadDescription(t testing.TB) *openapitest.Description {
	t.Helper()
	d, err := described()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// wantDescribed fails the test if an exchange is not as openapi.yaml says.
func wantDescribed(t testing.TB, req *http.Request, body string, resp *http.Response, answered []byte) {
	t.Helper()
	e := openapitest.Exchange{Request: req, RequestBody: []byte(body), Response: resp, ResponseBody: answered}
	if err := loadDescription(t).Check(e); err != nil {
		t.Errorf("%s %s: not as openapi.yaml says: %v", req.Method, req.URL.Path, err)
	}
}

func TestDescriptionIsServed(t *testing.T) {
	app := fiber.New()
	app.Get(openAPIPath, describe())
	get := func(method, known string) (*http.Response, []byte) {
		t.Helper()
		req := httptest.NewRequestWithContext(context.Background(), method, openAPIPath, http.NoBody)
		if known != "" {
			req.Header.Set("If-None-Match", known)
		}
		resp, err := app.Test(req, -1)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close() //nolint:errcheck // read from memory
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		wantDescribed(t, req, "", resp, body)
		return resp, body
	}
	resp, body := get("GET", "")
	tag := resp.Header.Get("ETag")
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "application/yaml" || tag == "" {
		t.Errorf("have %d %v", resp.StatusCode, resp.Header)
	}
	if diff := cmp.Diff(string(OpenAPI()), string(body)); diff != "" {
		t.Errorf("served (-want +have):\n%s", diff)
	}
	for known, want := range map[string]int{tag: 304, "W/" + tag: 304, `"x", ` + tag: 304, "*": 304, `"x"`: 200, "": 200} {
		for _, method := range []string{"GET", "HEAD"} {
			if resp, _ := get(method, known); resp.StatusCode != want || resp.Header.Get("ETag") != tag {
				t.Errorf("%s with %s: have %d, want %d", method, known, resp.StatusCode, want)
			}
		}
	}
	OpenAPI()[0] = 'x'
	if openAPI[0] == 'x' {
		t.Error("who changes what OpenAPI returned changes what is served")
	}
}

// Every served route is described, and every described route is served.
func TestRoutesAreDescribed(t *testing.T) {
	var served []string
	for _, route := range New(Config{Timers: &fakeTimers{}}).app.GetRoutes(true) {
		served = append(served, route.Method+" "+strings.ReplaceAll(route.Path, ":id", "{id}"))
	}
	described := loadDescription(t).Operations()
	for _, list := range []*[]string{&served, &described} {
		// A HEAD goes with each GET, described or not.
		*list = slices.DeleteFunc(*list, func(s string) bool { return strings.HasPrefix(s, http.MethodHead) })
		slices.Sort(*list)
	}
	if diff := cmp.Diff(served, described); diff != "" {
		t.Errorf("routes (-server +openapi.yaml):\n%s", diff)
	}
}

// The description lists exactly the codes that the server can send.
func TestCodesAreDescribed(t *testing.T) {
	have := loadDescription(t).Codes()
	slices.Sort(have)
	if diff := cmp.Diff(codesInSource(t, []string{".", "transport", "wire"}, []string{"../scheduler", "../scheduler/replica", "../scheduler/timer"}, []string{"../scheduler/webhook"}), have); diff != "" {
		t.Errorf("codes (-source +openapi.yaml):\n%s", diff)
	}
}

// source is a package's files, for finding codes: strings that are given to a parameter or a field
// of the name code.
type source struct {
	t       *testing.T
	files   *token.FileSet
	consts  map[string]string
	params  map[string][]string // by function, .method for methods: the names of string parameters, "" for the rest
	calls   map[string][]call   // by function
	literal []call              // of composite literals' fields
}

// call is a call of a function: the calling function, and the arguments.
type call struct {
	in   string
	args []ast.Expr
}

// codesInSource finds the codes in groups of folders that call each other, sorted and without
// repeats. Files for the admin listener alone are left out.
func codesInSource(t *testing.T, groups ...[]string) []string {
	t.Helper()
	var codes []string
	for _, folders := range groups {
		var files []string
		for _, folder := range folders {
			paths, err := filepath.Glob(filepath.Join(folder, "*.go"))
			if err != nil || len(paths) == 0 {
				t.Fatalf("find source in %s: %v, %v", folder, err, fs.ErrNotExist)
			}
			for _, path := range paths {
				if !strings.HasSuffix(path, "_test.go") && !slices.Contains(adminSource(), path) {
					files = append(files, path)
				}
			}
		}
		codes = append(codes, codesIn(t, files...)...)
	}
	slices.Sort(codes)
	return slices.Compact(codes)
}

// codesIn finds the codes in files that call each other, sorted and without repeats.
func codesIn(t *testing.T, files ...string) (codes []string) {
	t.Helper()
	s := &source{t: t, files: token.NewFileSet(), consts: map[string]string{}, params: map[string][]string{}, calls: map[string][]call{}}
	for _, path := range files {
		s.read(path)
	}
	for function, params := range s.params {
		if i := slices.Index(params, "code"); i >= 0 {
			codes = append(codes, s.arguments(function, i)...)
		}
	}
	for _, field := range s.literal {
		codes = append(codes, s.values(field.in, field.args[0])...)
	}
	slices.Sort(codes)
	return slices.Compact(codes)
}

func (s *source) read(path string) {
	s.t.Helper()
	file, err := parser.ParseFile(s.files, path, nil, parser.SkipObjectResolution)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, declared := range file.Decls {
		name := ""
		if f, ok := declared.(*ast.FuncDecl); ok {
			if name = f.Name.Name; f.Recv != nil {
				name = "." + name
			}
			s.params[name] = stringParams(f)
		}
		ast.Inspect(declared, func(n ast.Node) bool { s.note(name, n); return true })
	}
}

func stringParams(f *ast.FuncDecl) (names []string) {
	for _, field := range f.Type.Params.List {
		kind, ok := field.Type.(*ast.Ident)
		for _, name := range field.Names {
			if ok && kind.Name == "string" {
				names = append(names, name.Name)
			} else {
				names = append(names, "")
			}
		}
	}
	return names
}

func (s *source) note(in string, n ast.Node) {
	switch n := n.(type) {
	case *ast.CallExpr:
		switch f := n.Fun.(type) {
		case *ast.Ident:
			s.calls[f.Name] = append(s.calls[f.Name], call{in, n.Args})
		case *ast.SelectorExpr:
			called := "." + f.Sel.Name
			if of, ok := f.X.(*ast.Ident); ok && slices.Contains([]string{"timer", "wire"}, of.Name) { // the package
				called = f.Sel.Name
			}
			s.calls[called] = append(s.calls[called], call{in, n.Args})
		}
	case *ast.KeyValueExpr:
		if key, ok := n.Key.(*ast.Ident); ok && strings.EqualFold(key.Name, "code") {
			s.literal = append(s.literal, call{in, []ast.Expr{n.Value}})
		}
	case *ast.ValueSpec:
		for i, name := range n.Names {
			if i < len(n.Values) {
				if value, ok := text(n.Values[i]); ok {
					s.consts[name.Name] = value
				}
			}
		}
	}
}

func text(e ast.Expr) (string, bool) {
	literal, ok := e.(*ast.BasicLit)
	if !ok || literal.Kind != token.STRING {
		return "", false
	}
	value, err := strconv.Unquote(literal.Value)
	return value, err == nil
}

// arguments are the values of a function's parameter.
func (s *source) arguments(function string, i int) (values []string) {
	for _, c := range s.calls[function] {
		if i < len(c.args) {
			values = append(values, s.values(c.in, c.args[i])...)
		}
	}
	return values
}

// values are the values that an expression may have in a function. An expression that passes on a
// code, a parameter or a field, adds none.
func (s *source) values(in string, e ast.Expr) []string {
	if value, ok := text(e); ok {
		return []string{value}
	}
	switch e := e.(type) {
	case *ast.Ident:
		if i := slices.Index(s.params[in], e.Name); e.Name == "code" && i >= 0 {
			return nil
		} else if i >= 0 {
			return s.arguments(in, i)
		}
		if value, ok := s.consts[e.Name]; ok {
			return []string{value}
		}
	case *ast.SelectorExpr:
		if strings.EqualFold(e.Sel.Name, "code") {
			return nil
		}
	case *ast.CallExpr: // the first value that is not empty
		if f, ok := e.Fun.(*ast.SelectorExpr); ok && f.Sel.Name == "Or" {
			var all []string
			for _, arg := range e.Args {
				all = append(all, s.values(in, arg)...)
			}
			return all
		}
	case *ast.BinaryExpr:
		var all []string
		for _, x := range s.values(in, e.X) {
			for _, y := range s.values(in, e.Y) {
				all = append(all, x+y)
			}
		}
		return all
	}
	s.t.Errorf("%s: can't tell which code this is; give it as a string", s.files.Position(e.Pos()))
	return nil
}
