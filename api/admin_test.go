package api

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"chronos/api/apitest"
	"chronos/api/tokens"
)

func TestAdmin(t *testing.T) {
	registry := prometheus.NewRegistry()
	New(Config{Timers: &fakeTimers{}, Registerer: registry})
	var mu sync.Mutex
	var unready error
	admin := NewAdmin(AdminConfig{Gatherer: registry, OpenReads: true, Ready: func() error {
		mu.Lock()
		defer mu.Unlock()
		return unready
	}})
	ln, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- admin.Serve(ln) }()
	fetch := func(method, path string, status int, part string) {
		t.Helper()
		c := apitest.Dial(t, ln.Addr().String())
		if _, err := io.WriteString(c, method+" "+path+" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		got := apitest.Receive(t, bufio.NewReader(c))
		wantAdminDescribed(t, httptest.NewRequestWithContext(t.Context(), method, path, http.NoBody), "", got)
		if got.Status != status || !strings.Contains(string(got.Body), part) {
			t.Errorf("%s %s: have %d %q, want %d %q", method, path, got.Status, got.Body, status, part)
		}
	}
	fetch("GET", "/livez", 200, "alive")
	fetch("GET", "/readyz", 200, "ready\n")
	fetch("GET", "/metrics", 200, `chronos_api_request_duration_seconds_count{class="2xx",method="POST",route="/timers"} 0`)
	fetch("GET", "/", 404, "")
	fetch("POST", "/livez", 405, "")
	mu.Lock()
	unready = errors.New("draining,\nnot long now")
	mu.Unlock()
	fetch("GET", "/readyz", 503, "draining,?not long now\n")
	fetch("GET", "/livez", 200, "alive")

	ctx, cancel := context.WithTimeout(t.Context(), apitest.Patience)
	defer cancel()
	if err := admin.Shutdown(ctx); err != nil {
		t.Errorf("Shutdown: %v", err)
	}
	if err := <-served; err != nil {
		t.Errorf("Serve: %v", err)
	}
}

func TestAdminAsksForTokens(t *testing.T) {
	s, byRole := guarded(t, &fakeTimers{})
	admin := NewAdmin(AdminConfig{Gatherer: prometheus.NewRegistry(), Authorizer: s.authorizer})
	for _, c := range []struct {
		path   string
		tokens []string
		status int
	}{
		{"/livez", nil, http.StatusOK},
		{"/readyz", nil, http.StatusOK},
		{"/metrics", nil, http.StatusUnauthorized},
		{"/metrics", []string{"chr_"}, http.StatusUnauthorized},
		{"/metrics", []string{byRole[tokens.Read]}, http.StatusOK},
		{"/metrics", []string{byRole[tokens.Admin]}, http.StatusOK},
		{"/metrics", []string{byRole[tokens.Read], byRole[tokens.Admin]}, http.StatusUnauthorized},
	} {
		req := httptest.NewRequestWithContext(t.Context(), "GET", c.path, http.NoBody)
		req.Host = "127.0.0.1"
		for _, token := range c.tokens {
			req.Header.Add("Authorization", "Bearer "+token)
		}
		got := answerTo(t, admin, req, "")
		if got.Status != c.status {
			t.Errorf("%s with %d tokens: have %d, want %d", c.path, len(c.tokens), got.Status, c.status)
		}
		if got.Status == http.StatusUnauthorized {
			code := "token-missing"
			if len(c.tokens) == 1 {
				code = "token-unknown"
			}
			apitest.WantProblem(t, got, http.StatusUnauthorized, code, apitest.NoPointer)
		}
	}
}

// anyone lets everyone do everything.
type anyone struct{}

func (anyone) Check([]byte, tokens.Role, time.Time) tokens.Decision {
	return tokens.Decision{Outcome: tokens.OK, Name: "anyone"}
}

// fakeTopology counts changes, and remembers the last change of the sites.
type fakeTopology struct {
	changes int
	asked   string
}

func (*fakeTopology) Show(context.Context) TopologyView { return TopologyView{View: "eaa6"} }

func (f *fakeTopology) Add(context.Context, string, string, bool) (TopologyView, error) {
	f.changes++
	return TopologyView{}, nil
}

func (f *fakeTopology) Drain(ctx context.Context, name string, _ bool) (TopologyView, error) {
	return f.Add(ctx, name, "", false)
}

func (f *fakeTopology) Remove(ctx context.Context, name string, _ bool) (TopologyView, error) {
	return f.Add(ctx, name, "", false)
}

func (f *fakeTopology) NameSite(ctx context.Context, name string) (TopologyView, error) {
	return f.change(ctx, "name "+name, false)
}

func (f *fakeTopology) AddTo(ctx context.Context, site, name, url string, force bool) (TopologyView, error) {
	return f.change(ctx, strings.TrimSpace("add "+site+" "+name+" "+url), force)
}

func (f *fakeTopology) RemoveSite(ctx context.Context, name string, force bool) (TopologyView, error) {
	return f.change(ctx, "remove "+name, force)
}

func (f *fakeTopology) Begin(ctx context.Context, force bool) (TopologyView, error) {
	return f.change(ctx, "begin", force)
}

func (f *fakeTopology) change(ctx context.Context, asked string, force bool) (TopologyView, error) {
	f.asked = asked
	if force {
		f.asked += " by force"
	}
	view, err := f.Add(ctx, asked, "", force)
	view.Site, view.Note = "lon", "given up"
	view.Sites = []SiteView{{Name: "lon", Shards: []string{"a"}, Reached: true, Filled: true, Behind: new(0.)}, {Name: "nyc", Shards: []string{}}}
	return view, err
}

// Without a token at most five reads are answered, and no change is made.
func TestRolesOnTheAdminListener(t *testing.T) {
	s, byRole := guarded(t, &fakeTimers{})
	const everyone, nobody = openRead, tokens.Admin + 1
	for _, c := range []struct {
		method, path     string
		closed, opened   tokens.Role // the least role that will do, without and with OpenReads
		withoutAnyTokens tokens.Role // without an Authorizer, with OpenReads
	}{
		{"GET", "/livez", everyone, everyone, everyone},
		{"GET", "/readyz", everyone, everyone, everyone},
		{"GET", "/openapi.yaml", everyone, everyone, everyone},
		{"GET", "/metrics", tokens.Read, everyone, everyone},
		{"HEAD", "/metrics", tokens.Read, everyone, everyone},
		{"GET", "/topology", tokens.Read, everyone, everyone},
		{"GET", "/dead", tokens.Read, tokens.Read, nobody},
		{"GET", "/dead/l1", tokens.Read, tokens.Read, nobody},
		{"GET", "/debug/pprof/", tokens.Admin, tokens.Admin, nobody},
		{"GET", "/debug/pprof/heap", tokens.Admin, tokens.Admin, nobody},
		{"GET", "/debug/pprof/symbol", tokens.Admin, tokens.Admin, nobody},
		{"POST", "/topology/shards", tokens.Admin, tokens.Admin, nobody},
		{"POST", "/topology/shards/b/drain", tokens.Admin, tokens.Admin, nobody},
		{"DELETE", "/topology/shards/b", tokens.Admin, tokens.Admin, nobody},
		{"POST", "/topology/site", tokens.Admin, tokens.Admin, nobody},
		{"POST", "/topology/site/init", tokens.Admin, tokens.Admin, nobody},
		{"POST", "/topology/sites/nyc/shards", tokens.Admin, tokens.Admin, nobody},
		{"DELETE", "/topology/sites/nyc", tokens.Admin, tokens.Admin, nobody},
		{"POST", "/dead/fire?all=true", tokens.Admin, tokens.Admin, nobody},
		{"POST", "/dead/l1/fire", tokens.Admin, tokens.Admin, nobody},
		{"DELETE", "/dead/l1", tokens.Admin, tokens.Admin, nobody},
		{"DELETE", "/dead?all=true", tokens.Admin, tokens.Admin, nobody},
	} {
		for name, of := range map[string]struct {
			cfg  AdminConfig
			need tokens.Role
		}{
			"closed":  {AdminConfig{Authorizer: s.authorizer}, c.closed},
			"open":    {AdminConfig{Authorizer: s.authorizer, OpenReads: true}, c.opened},
			"no keys": {AdminConfig{OpenReads: true}, c.withoutAnyTokens},
		} {
			topology, letters := &fakeTopology{}, &fakeLetters{letters: someLetters()}
			of.cfg.Topology, of.cfg.Sites, of.cfg.Letters, of.cfg.Gatherer = topology, topology, letters, prometheus.NewRegistry()
			admin := NewAdmin(of.cfg)
			for _, role := range []tokens.Role{everyone, tokens.Read, tokens.Write, tokens.List, tokens.Admin} {
				topology.changes, letters.asked = 0, nil
				body := ""
				if strings.HasSuffix(c.path, "/shards") || c.path == "/topology/site" {
					body = `{"name": "b"}`
				}
				got := askAdmin(t, admin, c.method, c.path, byRole[role], body)
				status := http.StatusOK
				if of.need != everyone && !role.Allows(of.need) {
					status = http.StatusForbidden
					if role == everyone || of.cfg.Authorizer == nil {
						status = http.StatusUnauthorized
					}
				}
				if got.Status != status || status != http.StatusOK && (topology.changes > 0 || letters.asked != nil) {
					t.Errorf("%s %s %s as %s: %d %s, want %d; %d changes, asked %v", name, c.method, c.path, role, got.Status, got.Body, status, topology.changes, letters.asked)
				}
			}
			if got := askAdmin(t, admin, c.method, c.path, "chr_"+strings.Repeat("A", 43)); (of.need == everyone) != (got.Status == http.StatusOK) {
				t.Errorf("%s %s %s with an unknown token: %d", name, c.method, c.path, got.Status)
			}
		}
	}
}

func TestAdminServesTheDescription(t *testing.T) {
	admin := NewAdmin(AdminConfig{})
	got := askAdmin(t, admin, "GET", openAPIPath, "")
	if got.Status != http.StatusOK || string(got.Body) != string(adminOpenAPI) || got.Header.Get("Content-Type") != "application/yaml" {
		t.Errorf("%d %s, %d bytes", got.Status, got.Header.Get("Content-Type"), len(got.Body))
	}
}
