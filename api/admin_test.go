package api

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
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
