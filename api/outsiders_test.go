package api

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// Headers by which a callback is known, as they may be spelt.
func callbackHeaders() []string {
	return []string{"X-Chronos-Timer: tea", "x-chronos-timer: tea", "X-CHRONOS-TIMER:", "webhook-id: a.b.1", "Webhook-Id: a.b.1", "WEBHOOK-ID:"}
}

func TestCallbacksAskNothingOfThePublicListener(t *testing.T) {
	timers, executed := counted()
	s, _ := guarded(t, timers)
	registry := prometheus.NewRegistry()
	open := New(Config{Timers: timers, Registerer: registry})
	for name, address := range map[string]string{"without tokens": serve(t, open), "with tokens": serve(t, s)} {
		for _, header := range callbackHeaders() {
			for _, line := range []string{"POST /timers", "PUT /timers/k", "GET /timers/k", "DELETE /timers/k", "POST /timers/batch", "GET /openapi.yaml", "GET /nothing", "BREW /timers"} {
				got, closed := send(t, dial(t, address), withLength(line+" HTTP/1.1\r\nHost: h\r\n"+header+"\r\n"))
				wantProblem(t, got, http.StatusForbidden, "from-callback", noPointer)
				if !closed {
					t.Errorf("%s: %s with %s: the connection stays open", name, line, header)
				}
			}
		}
	}
	got, _ := send(t, dial(t, serve(t, open)), withLength("POST /timers HTTP/1.1\r\nHost: h\r\nX-Chronos-Timer: tea\r\n"))
	req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/timers", strings.NewReader(simple))
	wantDescribed(t, req, simple, &http.Response{StatusCode: got.status, Header: got.header, Request: req}, got.body)
	if n := executed.Load(); n != 0 {
		t.Errorf("%d operations were executed", n)
	}
}

// Headers that only look alike are let pass.
func TestHeadersLikeThoseOfCallbacks(t *testing.T) {
	address := serve(t, New(Config{Timers: &fakeTimers{}}))
	for _, header := range []string{"X-Chronos-Timers: tea", "X-Chronos-Due: x", "webhook-timestamp: 1", "webhook-signature: v1,x", "My-Webhook-Id: a", "X-Sequence-Number: 1"} {
		if got, _ := send(t, dial(t, address), withLength("POST /timers HTTP/1.1\r\nHost: h\r\n"+header+"\r\n")); got.status != http.StatusOK {
			t.Errorf("%s: %d %s", header, got.status, got.body)
		}
	}
}

// Every request pays for the look at its headers.
func TestLookingForCallbacksDoesNotAllocate(t *testing.T) {
	fields := [][]byte{[]byte("Host: timers.example.com:7253"), []byte("X-Chronos-Times: 1"), []byte("Webhook-No: 1"), []byte("Content-Length: 12")}
	n := testing.AllocsPerRun(1000, func() {
		var h head
		for _, field := range fields {
			if err := h.field(field); err != nil {
				t.Fatal(err)
			}
		}
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestCallbacksAskNothingOfTheAdminListener(t *testing.T) {
	admin := NewAdmin(AdminConfig{Gatherer: prometheus.NewRegistry(), Letters: &fakeLetters{letters: someLetters()}})
	for _, header := range callbackHeaders() {
		for _, line := range []string{"GET /livez", "GET /metrics", "POST /dead/fire?all=true", "DELETE /dead/l1", "GET /nothing"} {
			method, path, _ := strings.Cut(line, " ")
			name, value, _ := strings.Cut(header, ":")
			req := httptest.NewRequestWithContext(t.Context(), method, path, http.NoBody)
			req.Header.Set(name, strings.TrimSpace(value))
			w := httptest.NewRecorder()
			admin.server.Handler.ServeHTTP(w, req)
			wantProblem(t, answer{w.Code, w.Header(), w.Body.Bytes()}, http.StatusForbidden, "from-callback", noPointer)
		}
	}
}
