package api

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"chronos/api/apitest"

	"github.com/prometheus/client_golang/prometheus"
)

// callbackHeaders are headers by which a callback is known, in various spellings.
func callbackHeaders() []string {
	return []string{"X-Chronos-Timer: tea", "x-chronos-timer: tea", "X-CHRONOS-TIMER:", "webhook-id: a.b.1", "Webhook-Id: a.b.1", "WEBHOOK-ID:"}
}

func TestCallbacksAskNothingOfThePublicListener(t *testing.T) {
	timers, executed := counted()
	s, _ := guarded(t, timers)
	registry := prometheus.NewRegistry()
	open := New(Config{Timers: timers, Registerer: registry})
	for name, address := range map[string]string{"without tokens": apitest.Serve(t, open), "with tokens": apitest.Serve(t, s)} {
		for _, header := range callbackHeaders() {
			for _, line := range []string{"POST /timers", "PUT /timers/k", "PATCH /timers/k", "GET /timers/k", "DELETE /timers/k", "POST /timers/batch", "GET /openapi.yaml", "GET /nothing", "BREW /timers"} {
				got, closed := apitest.Send(t, apitest.Dial(t, address), apitest.WithLength(line+" HTTP/1.1\r\nHost: h\r\n"+header+"\r\n"))
				apitest.WantProblem(t, got, http.StatusForbidden, "from-callback", apitest.NoPointer)
				if !closed {
					t.Errorf("%s: %s with %s: the connection stays open", name, line, header)
				}
			}
		}
	}
	got, _ := apitest.Send(t, apitest.Dial(t, apitest.Serve(t, open)), apitest.WithLength("POST /timers HTTP/1.1\r\nHost: h\r\nX-Chronos-Timer: tea\r\n"))
	req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/timers", strings.NewReader(apitest.Simple))
	wantDescribed(t, req, apitest.Simple, &http.Response{StatusCode: got.Status, Header: got.Header, Request: req}, got.Body)
	if n := executed.Load(); n != 0 {
		t.Errorf("%d operations were executed", n)
	}
}

// Headers that only look like a callback's headers are let pass.
func TestHeadersLikeThoseOfCallbacks(t *testing.T) {
	address := apitest.Serve(t, New(Config{Timers: &fakeTimers{}}))
	for _, header := range []string{"X-Chronos-Timers: tea", "X-Chronos-Due: x", "webhook-timestamp: 1", "webhook-signature: v1,x", "My-Webhook-Id: a", "X-Sequence-Number: 1"} {
		if got, _ := apitest.Send(t, apitest.Dial(t, address), apitest.WithLength("POST /timers HTTP/1.1\r\nHost: h\r\n"+header+"\r\n")); got.Status != http.StatusOK {
			t.Errorf("%s: %d %s", header, got.Status, got.Body)
		}
	}
}

func TestCallbacksAskNothingOfTheAdminListener(t *testing.T) {
	admin := NewAdmin(AdminConfig{Authorizer: anyone{}, Gatherer: prometheus.NewRegistry(), Letters: &fakeLetters{letters: someLetters()}})
	for _, header := range callbackHeaders() {
		for _, line := range []string{"GET /livez", "GET /metrics", "POST /dead/fire?all=true", "DELETE /dead/l1", "GET /nothing"} {
			method, path, _ := strings.Cut(line, " ")
			name, value, _ := strings.Cut(header, ":")
			req := httptest.NewRequestWithContext(t.Context(), method, path, http.NoBody)
			req.Host = "127.0.0.1"
			req.Header.Set(name, strings.TrimSpace(value))
			apitest.WantProblem(t, answerTo(t, admin, req, ""), http.StatusForbidden, "from-callback", apitest.NoPointer)
		}
	}
}

// outside sends a request with headers, names and values in turn, to an admin listener that lets
// everyone in. changed reports whether a change was made.
func outside(t *testing.T, method, path, host, body string, headers ...string) (got apitest.Answer, changed bool) {
	t.Helper()
	topology := &fakeTopology{}
	admin := NewAdmin(AdminConfig{Authorizer: anyone{}, Hosts: []string{"Timers.Example.com", "node_1"}, Topology: topology})
	req := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
	req.Host = host
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Add(headers[i], headers[i+1])
	}
	got = answerTo(t, admin, req, body)
	return got, topology.changes > 0
}

func TestHostsOfTheAdminListener(t *testing.T) {
	for host, known := range map[string]bool{
		"127.0.0.1": true, "127.0.0.1:7254": true, "10.9.8.7:1": true, "[::1]": true, "[::1]:7254": true, "[fe80::1%25eth0]:1": true, "[2001:DB8::A]:1": true,
		"localhost": true, "localhost:7254": true, "LOCALHOST:80": true, "LocalHost.": true, "localhost.:7254": true, "127.0.0.1.": true,
		"timers.example.com": true, "timers.example.com:7254": true, "TIMERS.EXAMPLE.COM.:1": true, "node_1:7254": true,
		"": false, ":7254": false, ".": false, "evil.example": false, "evil.example:7254": false, "localhost.evil.example": false, "evil.localhost": false,
		"127.0.0.1.evil.example": false, "a.timers.example.com": false, "example.com": false, "127.1": false, "2130706433": false, "0x7f000001:7254": false,
		"[::1].evil.example": false, "localhost..": false, "1:2:3": false, "localhost@evil.example": false,
	} {
		for _, path := range []string{"/livez", "/topology", "/nothing"} {
			got, _ := outside(t, "GET", path, host, "")
			if !known {
				apitest.WantProblem(t, got, http.StatusMisdirectedRequest, "host-unknown", apitest.NoPointer)
			} else if got.Status == http.StatusMisdirectedRequest {
				t.Errorf("%q is not known", host)
			}
		}
		if got, changed := outside(t, "POST", "/topology/shards/b/drain", host, ""); changed != known {
			t.Errorf("%q: %d, changed %v", host, got.Status, changed)
		}
	}
	if got, _ := outside(t, "GET", "/livez", "evil.example", ""); !strings.Contains(got.Header.Get("Reason"), "CHRONOS_ADMIN_HOSTS") {
		t.Errorf("the refusal does not name the setting: %s", got.Body)
	}
}

// A target in absolute form counts more than the header Host, as RFC 9112 demands, and a request
// must have a Host.
func TestHostOnTheWire(t *testing.T) {
	address := serveAdmin(t, NewAdmin(AdminConfig{}))
	for head, status := range map[string]int{
		"GET /livez HTTP/1.1\r\nHost: " + address + "\r\n":              200,
		"GET http://evil.example/livez HTTP/1.1\r\nHost: localhost\r\n": 421,
		"GET http://localhost/livez HTTP/1.1\r\nHost: evil.example\r\n": 200,
		"GET /livez HTTP/1.1\r\nHost:\r\n":                              421,
		"GET /livez HTTP/1.0\r\n":                                       421,
		"GET /livez HTTP/1.1\r\n":                                       400,
		"GET /livez HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n": 400,
	} {
		if got, _ := apitest.Send(t, apitest.Dial(t, address), head+"Connection: close\r\n\r\n"); got.Status != status {
			t.Errorf("%q: %d, want %d", head, got.Status, status)
		}
	}
}

func TestPagesOfOtherSites(t *testing.T) {
	const host, json = "localhost:7254", "application/json"
	for name, c := range map[string]struct {
		headers []string
		refused bool
	}{
		"no browser":                   {nil, false},
		"typed by the user":            {[]string{"Sec-Fetch-Site", "none"}, false},
		"the same origin":              {[]string{"Sec-Fetch-Site", "same-origin", "Origin", "http://localhost:7254"}, false},
		"the same origin, old browser": {[]string{"Origin", "http://localhost:7254"}, false},
		"another site":                 {[]string{"Sec-Fetch-Site", "cross-site", "Origin", "https://evil.example"}, true},
		"another port":                 {[]string{"Sec-Fetch-Site", "same-site", "Origin", "http://localhost:1"}, true},
		"another site, old browser":    {[]string{"Origin", "https://evil.example"}, true},
		"another port, old browser":    {[]string{"Origin", "http://localhost:1"}, true},
		"a sandboxed frame":            {[]string{"Origin", "null"}, true},
	} {
		for _, method := range []string{"POST /topology/shards/b/drain", "DELETE /topology/shards/b", "POST /topology/shards"} {
			method, path, _ := strings.Cut(method, " ")
			got, changed := outside(t, method, path, host, `{"name":"b"}`, append(c.headers, "Content-Type", json)...)
			if changed == c.refused {
				t.Errorf("%s, %s: %d, changed %v", name, method, got.Status, changed)
			}
			if c.refused {
				apitest.WantProblem(t, got, http.StatusForbidden, "cross-origin", apitest.NoPointer)
			}
		}
		if got, _ := outside(t, "GET", "/topology", host, "", c.headers...); got.Status != http.StatusOK || got.Header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s reads: %d, Access-Control-Allow-Origin %q", name, got.Status, got.Header.Get("Access-Control-Allow-Origin"))
		}
	}
}

func TestChangesAreJSON(t *testing.T) {
	for kind, taken := range map[string]bool{
		"application/json": true, "application/json; charset=utf-8": true, "Application/JSON;charset=UTF-8": true,
		"": false, "text/plain": false, "application/x-www-form-urlencoded": false, "multipart/form-data; boundary=x": false, "text/plain;application/json": false,
		"application/json-seq": false, "application/jsonp": false, "application/json, text/plain": false, "application/json;": true, "application/json; charset": false,
	} {
		var headers []string
		if kind != "" {
			headers = []string{"Content-Type", kind}
		}
		got, changed := outside(t, "POST", "/topology/shards", "localhost", `{"name":"b"}`, headers...)
		if changed != taken {
			t.Errorf("%q: %d, changed %v", kind, got.Status, changed)
		}
		if !taken {
			apitest.WantProblem(t, got, http.StatusUnsupportedMediaType, "content-type", apitest.NoPointer)
		}
		if got, changed := outside(t, "POST", "/topology/shards/b/drain", "localhost", "", headers...); !changed {
			t.Errorf("%q without a body: %d", kind, got.Status)
		}
	}
	if got, changed := outside(t, "POST", "/topology/shards", "localhost", `{"name":"b"}`, "Content-Type", "application/json", "Content-Type", "text/plain"); changed || got.Status != 415 {
		t.Errorf("two types: %d, changed %v", got.Status, changed)
	}
}
