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
	"chronos/scheduler/listing"
	"chronos/scheduler/timer"
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
		Authorizer: s.authorizer, Topology: &fakeTopology{}, Sites: &fakeTopology{}, Letters: &fakeLetters{letters: someLetters()}, Resync: s.Resynchronisation(),
		Changer: &fakeChanger{done: listing.Done{Done: 3}}, Interventions: &fakeInterventions{receipt: timer.Receipt{ID: timer.ID{Key: "tea", RF: 1}, Due: fakeEpoch()}},
		Log: slog.New(slog.NewTextHandler(&log, nil)),
	})
	const who = " by=name-admin address=192.0.2.1:1234"
	for _, c := range []struct{ request, body, want string }{
		{"POST /topology/shards", `{"name": "d", "url": "redis://:hush@h/0"}`, "method=POST path=/topology/shards shard=d status=200" + who},
		{"POST /topology/shards", `{`, "method=POST path=/topology/shards status=400" + who},
		{"POST /topology/shards/b/drain?force=true&access_token=" + byRole[tokens.Admin], "", `method=POST path=/topology/shards/b/drain query="force=true" status=200` + who},
		{"DELETE /topology/shards/b", "", "method=DELETE path=/topology/shards/b status=200" + who},
		{"POST /topology/site", `{"name": "lon\n"}`, "method=POST path=/topology/site site=lon? status=200" + who},
		{"POST /topology/sites/nyc/shards", `{"name": "d", "url": "redis://:hush@h/0"}`, "method=POST path=/topology/sites/nyc/shards shard=d status=200" + who},
		{"DELETE /topology/sites/nyc?force=true", "", `method=DELETE path=/topology/sites/nyc query="force=true" status=200` + who},
		{"POST /dead/fire?callback=http://u:hush@h/&reason=x", "", `method=POST path=/dead/fire query="callback=http://h/ reason=x" status=200` + who},
		{"DELETE /dead?all=true", "", `method=DELETE path=/dead query="all=true" status=200` + who},
		{"DELETE /dead/l1%0a", "", `method=DELETE path="/dead/l1\n" status=200` + who},
		{"DELETE /timers/references?node-for-replicas=d", references("tea"), `method=DELETE path=/timers/references query="node-for-replicas=d" status=202` + who},
		{"POST /timers/bulk/delete?tag=CALL&text=http://u:hush@h&due-after=2030-01-31T12:00:00Z;dry-run=true&token=" + byRole[tokens.Admin], "", `method=POST path=/timers/bulk/delete query="dry-run=true due-after=2030-01-31T12:00:00Z tag=CALL text=http://h" status=400` + who},
		{"POST /timers/bulk/delay?state=waiting&destination=https://h&due-before=2030-01-31T12:00:00Z&by=30s", "", `method=POST path=/timers/bulk/delay query="by=30s destination=https://h due-before=2030-01-31T12:00:00Z state=waiting" done=3 refused=0 status=200` + who},
		{"POST /timers/tea/fire", "", "method=POST path=/timers/tea/fire status=200" + who},
		{"POST /timers/tea/delay?by=30s", "", `method=POST path=/timers/tea/delay query="by=30s" status=200` + who},
		{"GET /timers/tea/export?secrets=true", "", `method=GET path=/timers/tea/export query="secrets=true" status=200` + who},
		{"GET /timers/tea/export", "", ""},
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
		refused := []string{"", byRole[tokens.Read], "chr_" + strings.Repeat("A", 43)}
		if !strings.HasPrefix(path, "/timers/tea/") {
			refused = append(refused, byRole[tokens.Write])
		}
		for _, token := range refused {
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
		{"DELETE", "/timers/references?node-for-replicas=d", references("tea"), `method=DELETE path=/timers/references query="node-for-replicas=d" status=202 by=name-admin address=0.0.0.0:0`},
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

// A change by a token without a name is logged with a dash.
func TestChangesWithoutANameAreLogged(t *testing.T) {
	var log bytes.Buffer
	c := change{method: "POST", path: "/timers/tea/fire", status: 200, address: "192.0.2.1:1234"}
	c.log(slog.New(slog.NewTextHandler(&log, nil)))
	if diff := cmp.Diff([]string{`level=INFO msg="admin change" method=POST path=/timers/tea/fire status=200 by=- address=192.0.2.1:1234`}, lines(&log)); diff != "" {
		t.Errorf("log (-want +have):\n%s", diff)
	}
}
