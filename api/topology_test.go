package api

import (
	"net/http"
	"strings"
	"testing"

	"chronos/api/apitest"
	"chronos/api/wire"
)

func TestRefusedChangesOfTheTopologyHaveACode(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]string{"": "topology-refused", "same-redis": "same-redis"} {
		p := wire.TopologyProblem(&RefusedError{Reason: "give another Redis", Code: code})
		if p.Status != http.StatusConflict || p.Code != want || p.Detail != "give another Redis" {
			t.Errorf("a refusal with code %q is %+v", code, p)
		}
	}
}

// TestSitesAreChanged: each request reaches the change that the request names, and the answer has the sites.
func TestSitesAreChanged(t *testing.T) {
	t.Parallel()
	sites := &fakeTopology{}
	admin := NewAdmin(AdminConfig{Authorizer: anyone{}, Topology: sites, Sites: sites})
	for _, c := range []struct{ method, path, body, want string }{
		{"POST", "/topology/site", `{"name":"lon"}`, "name lon"},
		{"POST", "/topology/site/init", "", "begin"},
		{"POST", "/topology/site/init?force=true", "", "begin by force"},
		{"POST", "/topology/sites/nyc/shards", `{"name":"d","url":"redis://h"}`, "add nyc d redis://h"},
		{"POST", "/topology/sites/nyc/shards?force=true", `{"name":"d"}`, "add nyc d by force"},
		{"DELETE", "/topology/sites/nyc", "", "remove nyc"},
		{"DELETE", "/topology/sites/nyc?force=true", "", "remove nyc by force"},
	} {
		sites.asked = ""
		got := askAdmin(t, admin, c.method, c.path, "t", c.body)
		const want = `"site":"lon","sites":[{"name":"lon","shards":["a"],"reached":true,"filled":true,"behind_seconds":0},{"name":"nyc","shards":[],"reached":false,"filled":false,"behind_seconds":null}],"note":"given up"}`
		if got.Status != http.StatusOK || sites.asked != c.want || !strings.Contains(string(got.Body), want) {
			t.Errorf("%s %s: %d, asked %q, want %q; %s", c.method, c.path, got.Status, sites.asked, c.want, got.Body)
		}
	}
	for _, c := range []struct{ method, path, body, code string }{
		{"POST", "/topology/site", `{"name":""}`, "body-malformed"},
		{"POST", "/topology/site", `{"name":"lon","url":"redis://h"}`, "body-malformed"},
		{"POST", "/topology/sites/nyc/shards", `{"name":"d","port":1}`, "body-malformed"},
		{"POST", "/topology/sites/nyc/shards?force=yes", `{"name":"d"}`, "force-malformed"},
		{"DELETE", "/topology/sites/nyc?force=1", "", "force-malformed"},
		{"POST", "/topology/site/init?force=1", "", "force-malformed"},
	} {
		sites.asked = ""
		got := askAdmin(t, admin, c.method, c.path, "t", c.body)
		apitest.WantProblem(t, got, http.StatusBadRequest, c.code, apitest.NoPointer)
		if sites.asked != "" {
			t.Errorf("%s %s asked %q", c.method, c.path, sites.asked)
		}
	}
	if got := askAdmin(t, NewAdmin(AdminConfig{Authorizer: anyone{}, Topology: sites}), "DELETE", "/topology/sites/nyc", "t"); got.Status != http.StatusNotFound {
		t.Errorf("a process that knows one site: %d %s", got.Status, got.Body)
	}
}
