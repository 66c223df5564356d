package api

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"chronos/api/apitest"
	"chronos/api/tokens"
)

// lines are the logged lines, without the time.
func lines(log *bytes.Buffer) (all []string) {
	for line := range strings.Lines(log.String()) {
		_, line, _ = strings.Cut(strings.TrimSpace(line), " ")
		all = append(all, line)
	}
	log.Reset()
	return all
}

// The log names the operator and the outcome of every change through the admin listener, and no
// secret.
func TestChangesAreLogged(t *testing.T) {
	s, byRole := guarded(t, &fakeTimers{})
	var log bytes.Buffer
	admin := NewAdmin(AdminConfig{
		Authorizer: s.authorizer, Topology: &fakeTopology{}, Letters: &fakeLetters{letters: someLetters()}, Resync: s.Resynchronisation(),
		Log: slog.New(slog.NewTextHandler(&log, nil)),
	})
	const who = " token=name-admin address=192.0.2.1:1234"
	for _, c := range []struct{ request, body, want string }{
		{"POST /topology/shards", `{"name": "d", "url": "redis://:hush@h/0"}`, "method=POST path=/topology/shards shard=d status=200" + who},
		{"POST /topology/shards", `{`, "method=POST path=/topology/shards status=400" + who},
		{"POST /topology/shards/b/drain?force=true&access_token=" + byRole[tokens.Admin], "", `method=POST path=/topology/shards/b/drain query="force=true" status=200` + who},
		{"DELETE /topology/shards/b", "", "method=DELETE path=/topology/shards/b status=200" + who},
		{"POST /dead/fire?callback=http://u:hush@h/&reason=x", "", `method=POST path=/dead/fire query="callback=http://h/ reason=x" status=200` + who},
		{"DELETE /dead?all=true", "", `method=DELETE path=/dead query="all=true" status=200` + who},
		{"DELETE /dead/l1%0a", "", `method=DELETE path="/dead/l1\n" status=200` + who},
		{"DELETE /timers/references?node-for-replicas=d", references("tea"), `method=DELETE path=/timers/references query="node-for-replicas=d" status=202` + who},
		{"GET /dead", "", ""},
		{"GET /topology", "", ""},
	} {
		method, path, _ := strings.Cut(c.request, " ")
		askAdmin(t, admin, method, path, byRole[tokens.Admin], c.body)
		var want []string
		if c.want != "" {
			want = []string{`level=INFO msg="admin change" ` + c.want}
		}
		if diff := cmp.Diff(want, lines(&log)); diff != "" {
			t.Errorf("%s (-want +have):\n%s", c.request, diff)
		}
		for _, token := range []string{"", byRole[tokens.Write], "chr_" + strings.Repeat("A", 43)} {
			askAdmin(t, admin, method, path, token, c.body)
			if have := lines(&log); len(have) > 0 {
				t.Errorf("%s, which was refused: %q", c.request, have)
			}
		}
	}
}

// The public listener logs the only change that needs an admin.
func TestChangesOfAdminsOnThePublicListenerAreLogged(t *testing.T) {
	s, byRole := guarded(t, &fakeTimers{})
	var log bytes.Buffer
	s.log = slog.New(slog.NewTextHandler(&log, nil))
	for _, c := range []struct{ method, path, body, want string }{
		{"DELETE", "/timers/references?node-for-replicas=d", references("tea"), `method=DELETE path=/timers/references query="node-for-replicas=d" status=202 token=name-admin address=0.0.0.0:0`},
		{"GET", resyncOf("d"), "", ""},
		{"POST", "/timers", apitest.Simple, ""},
		{"DELETE", "/timers/k", "", ""},
	} {
		req := httptest.NewRequestWithContext(t.Context(), c.method, c.path, strings.NewReader(c.body))
		req.Header.Set("Authorization", "Bearer "+byRole[tokens.Admin])
		resp, err := s.app.Test(req, -1)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		have := strings.Join(lines(&log), "\n")
		if c.want != "" {
			c.want = `level=INFO msg="admin change" ` + c.want
		}
		if diff := cmp.Diff(c.want, have); diff != "" || resp.StatusCode == http.StatusForbidden {
			t.Errorf("%s %s: %d (-want +have):\n%s", c.method, c.path, resp.StatusCode, diff)
		}
	}
}
