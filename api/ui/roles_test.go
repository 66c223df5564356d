package ui_test

import (
	"html"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"chronos/api/ui/uitest"
)

// TestRoles: what a role may not do answers 403 with an explanation.
func TestRoles(t *testing.T) {
	t.Parallel()
	const version = "0000000000000001"
	for _, c := range []struct {
		request string
		allowed []string // the names of the tokens
	}{
		{"GET /ui/", []string{"admin", "both", "list", "read", "write"}},
		{"GET /ui/help", []string{"admin", "both", "list", "read", "write"}},
		{"GET /ui/cluster", []string{"admin", "both", "list", "read", "write"}},
		{"GET /ui/destinations", []string{"admin", "both", "list", "read", "write"}},
		{"GET /ui/timers", []string{"admin", "both", "list"}},
		{"GET /ui/timers/hostile", []string{"admin", "both", "list"}},
		{"GET /ui/dead", []string{"admin", "both", "list"}},
		{"GET /ui/dead/a.0001", []string{"admin", "both", "list"}},
		{"GET /ui/timers/hostile/delete", []string{"admin", "both"}},
		{"POST /ui/timers/hostile/delete", []string{"admin", "both"}},
		{"POST /ui/timers/hostile/fire", []string{"admin", "both"}},
		{"POST /ui/timers/selected", []string{"admin"}},
		{"POST /ui/timers/matching", []string{"admin"}},
		{"GET /ui/many/x", []string{"admin"}},
		{"POST /ui/many/x/do", []string{"admin"}},
		{"POST /ui/many/x/count", []string{"admin"}},
		{"GET /ui/dead/a.0001/fire", []string{"admin"}},
		{"POST /ui/dead/a.0001/fire", []string{"admin"}},
		{"POST /ui/dead/matching", []string{"admin"}},
		{"GET /ui/destinations/pause", []string{"admin", "both", "write"}},
		{"POST /ui/destinations/pause", []string{"admin", "both", "write"}},
		{"POST /ui/destinations/resume", []string{"admin", "both", "write"}},
		{"GET /ui/cluster/add", []string{"admin"}},
		{"POST /ui/cluster/add", []string{"admin"}},
		{"GET /ui/cluster/a/drain", []string{"admin"}},
		{"POST /ui/cluster/a/drain", []string{"admin"}},
	} {
		b := uitest.New().Sample()
		rig := uitest.NewRig(t, b, nil)
		for _, token := range []string{"admin", "both", "list", "read", "write"} {
			if slices.Contains(c.allowed, token) && strings.HasPrefix(c.request, "POST") {
				continue // TestChanges has these
			}
			v := visit(t, rig, token)
			method, path, _ := strings.Cut(c.request, " ")
			w := v.get(path)
			if method == http.MethodPost {
				w = v.post(path, url.Values{"version": {version}, "action": {"delete"}, "all": {"true"}})
			}
			if allowed := slices.Contains(c.allowed, token); allowed != (w.Code != http.StatusForbidden) {
				t.Errorf("%s with %s: %d", c.request, token, w.Code)
			}
			if w.Code == http.StatusForbidden {
				v.want(w, http.StatusForbidden, "and this takes the role", "token-scope")
			}
		}
		if changes := b.Changes(); changes != nil {
			t.Errorf("%s: changes were made: %q", c.request, changes)
		}
	}
}

// TestNoButtonLeadsToARefusal: whatever a page offers to a role, the role may do.
func TestNoButtonLeadsToARefusal(t *testing.T) {
	t.Parallel()
	links := regexp.MustCompile(`(?:href|action)="(/ui/[^"#]*)`)
	for _, token := range []string{"admin", "both", "list", "read", "write"} {
		b := uitest.New().Sample()
		b.SetAway("b")
		v := visit(t, uitest.NewRig(t, b, nil), token)
		seen := map[string]bool{}
		for todo := []string{"/ui/", "/ui/timers/hostile", "/ui/dead/a.0001"}; len(todo) > 0 && len(seen) < 400; todo = todo[1:] {
			path := html.UnescapeString(todo[0])
			if seen[path] || strings.HasPrefix(path, "/ui/logout") || strings.HasPrefix(path, "/ui/static/") {
				continue
			}
			seen[path] = true
			w := v.get(path)
			if w.Code == http.StatusForbidden && path != "/ui/timers/hostile" && path != "/ui/dead/a.0001" {
				t.Errorf("%s is offered %s, and may not", token, path)
			}
			for _, link := range links.FindAllStringSubmatch(w.Body.String(), -1) {
				todo = append(todo, link[1])
			}
		}
		if len(seen) < 6 {
			t.Errorf("%s has seen %d pages alone", token, len(seen))
		}
	}
}
