package api

import (
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"chronos/api/apitest"
	"chronos/api/openapitest"
)

// adminDescribed is the description of the admin listener, loaded once for all tests.
var adminDescribed = sync.OnceValues(func() (*openapitest.Description, error) { return openapitest.Load(adminOpenAPI) })

func loadAdminDescription(t testing.TB) *openapitest.Description {
	t.Helper()
	d, err := adminDescribed()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// wantAdminDescribed fails the test if an exchange with the admin listener is not as admin.openapi.yaml
// says.
func wantAdminDescribed(t testing.TB, req *http.Request, body string, got apitest.Answer) {
	t.Helper()
	answered := got.Body
	if req.Method == http.MethodHead { // net/http sends no body then
		answered = nil
	}
	e := openapitest.Exchange{
		Request: req, RequestBody: []byte(body), Response: &http.Response{StatusCode: got.Status, Header: got.Header}, ResponseBody: answered,
	}
	if err := loadAdminDescription(t).Check(e); err != nil {
		t.Errorf("%s %s: not as admin.openapi.yaml says: %v", req.Method, req.URL.Path, err)
	}
}

// Every served route of the admin listener is described, and every described route is served.
func TestAdminRoutesAreDescribed(t *testing.T) {
	paths := map[string][]string{
		"GET openAPIPath": {"GET /openapi.yaml"}, "GET path": {"GET /timers"}, "DELETE referencesPath": {"DELETE /timers/references"},
		"GET deliveriesPath": {"GET /deliveries"}, "GET /{$}": {"GET /"}, "GET /debug/pprof/path": {"GET /debug/pprof/", "GET /debug/pprof/{profile}"},
	}
	var served []string
	for _, pattern := range adminPatterns(t) {
		if named, is := paths[pattern]; is {
			served = append(served, named...)
			continue
		}
		served = append(served, pattern)
	}
	slices.Sort(served)
	described := loadAdminDescription(t).Operations()
	slices.Sort(described)
	if diff := cmp.Diff(served, described); diff != "" {
		t.Errorf("routes (-source +admin.openapi.yaml):\n%s", diff)
	}
}

// The description of the admin listener lists every code that only the admin listener sends, and no
// code that nobody sends.
func TestAdminCodesAreDescribed(t *testing.T) {
	described := map[string]bool{}
	for _, code := range loadAdminDescription(t).Codes() {
		described[code] = true
	}
	for _, code := range codesIn(t, adminSource()...) {
		if !described[code] {
			t.Errorf("admin.openapi.yaml lacks the code %s", code)
		}
	}
	sent := codesIn(t, allSource(t)...)
	for _, code := range slices.Sorted(maps.Keys(described)) {
		if !slices.Contains(sent, code) && code != "same-redis" { // a code of package topology of redisstore
			t.Errorf("admin.openapi.yaml has the code %s, which nobody sends", code)
		}
	}
}

// adminSource are the files for the admin listener alone.
func adminSource() []string {
	return []string{
		"admin.go", "answer.go", "bulk.go", "cluster.go", "destinations.go", "groups.go", "interventions.go", "letters.go", "outsiders.go", "sites.go", "topology.go", "wire/destinations.go", "wire/operators.go",
		"../scheduler/pauses.go", "../scheduler/timer/delay.go",
	}
}

// allSource are the files that the codes come from.
func allSource(t *testing.T) (paths []string) {
	t.Helper()
	for _, folder := range []string{".", "transport", "wire", "../scheduler", "../scheduler/replica", "../scheduler/timer"} {
		found, err := filepath.Glob(filepath.Join(folder, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range found {
			if !strings.HasSuffix(path, "_test.go") {
				paths = append(paths, path)
			}
		}
	}
	return paths
}

// Nobody is surprised by a path or a method that the admin listener does not know.
func TestUnknownPathsOfTheAdminListener(t *testing.T) {
	admin := NewAdmin(AdminConfig{Authorizer: anyone{}, Topology: &fakeTopology{}})
	for request, want := range map[string]struct {
		status      int
		code, allow string
	}{
		"GET /":                       {404, "path-unknown", ""},
		"GET /nothing":                {404, "path-unknown", ""},
		"DELETE /topology/shards/b/c": {404, "path-unknown", ""},
		"POST /livez":                 {405, "method-not-allowed", "GET, HEAD"},
		"OPTIONS /topology":           {405, "method-not-allowed", "GET, HEAD"},
		"GET /topology/shards/b":      {405, "method-not-allowed", "DELETE"},
		"HEAD /topology/shards/drain": {405, "method-not-allowed", "DELETE"},
	} {
		method, path, _ := strings.Cut(request, " ")
		got := askAdmin(t, admin, method, path, "")
		if got.Status != want.status || !strings.Contains(string(got.Body), `"code":"`+want.code+`"`) || got.Header.Get("Allow") != want.allow {
			t.Errorf("%s: %d %v %s, want %v", request, got.Status, got.Header, got.Body, want)
		}
	}
}
