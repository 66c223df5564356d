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

	"github.com/prometheus/client_golang/prometheus"

	"chronos/api/tokens"
)

func TestAdmin(t *testing.T) {
	registry := prometheus.NewRegistry()
	New(Config{Timers: &fakeTimers{}, Registerer: registry})
	var mu sync.Mutex
	var unready error
	admin := NewAdmin(AdminConfig{Gatherer: registry, Ready: func() error {
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
		c := dial(t, ln.Addr().String())
		if _, err := io.WriteString(c, method+" "+path+" HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		got := receive(t, bufio.NewReader(c))
		if got.status != status || !strings.Contains(string(got.body), part) {
			t.Errorf("%s %s: have %d %q, want %d %q", method, path, got.status, got.body, status, part)
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

	ctx, cancel := context.WithTimeout(t.Context(), patience)
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
		for _, token := range c.tokens {
			req.Header.Add("Authorization", "Bearer "+token)
		}
		w := httptest.NewRecorder()
		admin.server.Handler.ServeHTTP(w, req)
		if w.Code != c.status {
			t.Errorf("%s with %d tokens: have %d, want %d", c.path, len(c.tokens), w.Code, c.status)
		}
		if w.Code == http.StatusUnauthorized {
			code := "token-missing"
			if len(c.tokens) == 1 {
				code = "token-unknown"
			}
			wantProblem(t, answer{w.Code, w.Header(), w.Body.Bytes()}, http.StatusUnauthorized, code, noPointer)
		}
	}
}
