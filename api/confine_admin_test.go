package api

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"chronos/scheduler/store"
)

// somebodysLetters honour the filter, as the store does.
type somebodysLetters struct{ fakeLetters }

func (f *somebodysLetters) List(ctx context.Context, q store.LetterQuery) (store.LetterPage, error) {
	page, err := f.fakeLetters.List(ctx, q)
	page.Letters = slices.DeleteFunc(slices.Clone(page.Letters), func(l store.Letter) bool { return !q.Filter.Picks(&l) })
	return page, err
}

// adminPatterns are the patterns of the admin listener in the source: as they stand there, or a method and the name
// of what is appended.
func adminPatterns(t *testing.T) []string {
	t.Helper()
	paths, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	pattern := regexp.MustCompile(`(?:Handle|HandleFunc|handle)\([^"\n]*"((?:GET|HEAD|POST|PUT|PATCH|DELETE) [^"]*)"(?: ?\+ ?(\w+))?`)
	found := map[string]bool{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil || strings.HasSuffix(path, "_test.go") {
			continue
		}
		for _, m := range pattern.FindAllStringSubmatch(string(text), -1) {
			found[m[1]+m[2]] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// adminAnswers are the answers to a token with the prefix a., by pattern.
func adminAnswers() map[string][]routeAnswer {
	const noCode = ""
	return map[string][]routeAnswer{
		"GET /livez":                         {{"/livez", "", 200, noCode}},
		"GET /readyz":                        {{"/readyz", "", 200, noCode}},
		"GET openAPIPath":                    {{"/openapi.yaml", "", 200, noCode}},
		"GET /metrics":                       {{"/metrics", "", 403, "id-prefix"}},
		"GET /status":                        {{"/status", "", 403, "id-prefix"}},
		"GET /load":                          {{"/load", "", 403, "id-prefix"}, {"/load?step=0", "", 403, "id-prefix"}},
		"GET /{$}":                           {{"/", "", 404, "path-unknown"}},
		"GET /topology":                      {{"/topology", "", 403, "id-prefix"}},
		"POST /topology/shards":              {{"/topology/shards", "", 403, "token-scope"}},
		"POST /topology/shards/{name}/drain": {{"/topology/shards/b/drain", "", 403, "token-scope"}},
		"DELETE /topology/shards/{name}":     {{"/topology/shards/b", "", 403, "token-scope"}},
		"POST /topology/site":                {{"/topology/site", "", 403, "token-scope"}},
		"POST /topology/site/init":           {{"/topology/site/init", "", 403, "token-scope"}},
		"POST /topology/sites/{name}/shards": {{"/topology/sites/b/shards", "", 403, "token-scope"}},
		"DELETE /topology/sites/{name}":      {{"/topology/sites/b", "", 403, "token-scope"}},
		"GET path":                           {{resyncOf("a"), "", 403, "token-scope"}, {"/timers/?node-for-replicas=a", "", 403, "token-scope"}, {"/timers", "", 403, "token-scope"}},
		"DELETE referencesPath":              {{"/timers/references?node-for-replicas=a", "", 403, "token-scope"}},
		"GET /debug/pprof/path":              {{"/debug/pprof/", "", 403, "token-scope"}, {"/debug/pprof/heap", "", 403, "token-scope"}, {"/debug/pprof/profile", "", 403, "token-scope"}},
		"GET deliveriesPath":                 {{"/deliveries", "", 403, "id-prefix"}, {"/deliveries?destination=http://a", "", 403, "id-prefix"}},
		"GET /destinations":                  {{"/destinations", "", 403, "id-prefix"}},
		"POST /destinations/pause":           {{"/destinations/pause", `{"destination":"http://h","until":"2030-01-31T12:00:00Z"}`, 403, "id-prefix"}},
		"POST /destinations/resume":          {{"/destinations/resume", `{"destination":"http://h"}`, 403, "id-prefix"}},
		"GET /dead/groups":                   {{"/dead/groups", "", 403, "token-scope"}},
		"GET /timers/{id}/copies":            {{"/timers/a.own/copies", "", 403, "token-scope"}, {"/timers/b.secret/copies", "", 403, "token-scope"}},
		"GET /timers/{id}/export":            {{"/timers/a.own/export", "", 403, "token-scope"}, {"/timers/b.secret/export", "", 403, "token-scope"}, {"/timers/a.own/export?secrets=true", "", 403, "token-scope"}},
		"POST /timers/{id}/fire":             {{"/timers/a.own/fire", "", 403, "id-prefix"}, {"/timers/b.secret/fire", "", 403, "id-prefix"}},
		"POST /timers/{id}/delay":            {{"/timers/a.own/delay?by=1s", "", 403, "id-prefix"}, {"/timers/b.secret/delay?by=1s", "", 403, "id-prefix"}},
		"POST /timers/bulk/delete":           {{"/timers/bulk/delete?key-prefix=a.", "", 403, "token-scope"}},
		"POST /timers/bulk/fire":             {{"/timers/bulk/fire?key-prefix=a.", "", 403, "token-scope"}},
		"POST /timers/bulk/delay":            {{"/timers/bulk/delay?key-prefix=a.&by=1s", "", 403, "token-scope"}},
		"POST /dead/fire":                    {{"/dead/fire?key-prefix=a.", "", 403, "token-scope"}},
		"POST /dead/{id}/fire":               {{"/dead/own/fire", "", 403, "token-scope"}},
		"DELETE /dead":                       {{"/dead?key-prefix=a.", "", 403, "token-scope"}},
		"DELETE /dead/{id}":                  {{"/dead/own", "", 403, "token-scope"}},
		"GET /dead/{id}":                     {{"/dead/own", "", 200, noCode}, {"/dead/other", "", 404, "letter-not-found"}, {"/dead/absent", "", 404, "letter-not-found"}, {"/dead/unreadable", "", 404, "letter-not-found"}},
		"GET /dead": {
			{"/dead", "", 200, noCode}, {"/dead?limit=1&cursor=x", "", 200, noCode}, {"/dead?key-prefix=a", "", 200, noCode}, {"/dead?key-prefix=a.o", "", 200, noCode}, {"/dead?key=a.own", "", 200, noCode},
			{"/dead?key=b.secret", "", 403, "id-prefix"}, {"/dead?key-prefix=b.", "", 403, "id-prefix"}, {"/dead?key-prefix=A.", "", 403, "id-prefix"},
			{"/dead?key-prefix=a.&key=b.secret", "", 403, "id-prefix"}, {"/dead?key=a.own&key-prefix=b", "", 403, "id-prefix"}, {"/dead?key-prefix=a.&key-prefix=b.", "", 400, "query-malformed"},
		},
	}
}

// Every route of the admin listener, as a token with the prefix a. gets it.
func TestAdminRoutesWithAPrefix(t *testing.T) {
	tests := adminAnswers()
	if diff := cmp.Diff(adminPatterns(t), slices.Sorted(maps.Keys(tests))); diff != "" {
		t.Fatalf("routes (-source +table):\n%s", diff)
	}
	own, other, unreadable := someLetters()[0], someLetters()[0], someLetters()[1]
	own.ID, own.Key, own.Record.ID.Key = "own", "a.own", "a.own"
	other.ID, other.Key, other.Record.ID.Key, other.Reason = "other", "b.secret", "b.secret", "secret"
	unreadable.ID, unreadable.Text = "unreadable", "b.secret"
	letters := &somebodysLetters{fakeLetters{letters: []store.Letter{other, own, unreadable}}}
	registry, topology := prometheus.NewRegistry(), &fakeTopology{}
	registry.MustRegister(prometheus.NewCounter(prometheus.CounterOpts{Name: "secret_total", Help: "For a test."}))
	timers := known(t, "b.secret")
	s, byPrefix := confined(t, timers, "a.")
	admin := NewAdmin(AdminConfig{
		Authorizer: s.authorizer, Topology: topology, Sites: topology, Letters: letters, Gatherer: registry, Resync: s.Resynchronisation(), Destinations: &fakeDestinations{}, Cluster: &fakeCluster{}, Groups: &fakeGroups{}, Interventions: &fakeInterventions{}, Lister: &fakeLister{}, Changer: &fakeChanger{},
	})
	token := strings.TrimPrefix(byPrefix["a."], "Bearer ")
	for name, requests := range tests {
		method, _, _ := strings.Cut(name, " ")
		methods := []string{method}
		if method == http.MethodGet {
			methods = append(methods, http.MethodHead)
		}
		for _, method := range methods {
			for _, c := range requests {
				got := askAdmin(t, admin, method, c.path, token)
				if got.Status != c.status || !bytes.Contains(got.Body, []byte(c.code)) {
					t.Errorf("%s %s: %d %s, want %d %s", method, c.path, got.Status, got.Body, c.status, c.code)
				}
				if all := fmt.Sprint(got.Header, string(got.Body)); strings.Contains(all, "secret") && c.path != openAPIPath || bytes.Contains(got.Body, []byte(`"total"`)) {
					t.Errorf("%s %s shows another timer: %s", method, c.path, all)
				}
			}
		}
	}
	if topology.changes > 0 || len(timers.dropped) > 0 || slices.ContainsFunc(letters.asked, func(asked string) bool { return asked != "list" && !strings.HasPrefix(asked, "letter ") }) {
		t.Errorf("%d changes of the topology, dropped %v, asked %v", topology.changes, timers.dropped, letters.asked)
	}
	got := askAdmin(t, admin, "GET", "/dead", token)
	if want := `{"letters":[{"id":"own","key":"a.own",`; !strings.HasPrefix(string(got.Body), want) || !bytes.Contains(got.Body, []byte(`"next":"next"`)) {
		t.Errorf("%s, want %s… and next", got.Body, want)
	}
}
