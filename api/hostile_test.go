package api

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"chronos/api/apitest"
	"chronos/scheduler/verify/testkit"
)

func TestMethods(t *testing.T) {
	address := apitest.Serve(t, New(Config{Timers: &fakeTimers{}}))
	if got, _ := apitest.Send(t, apitest.Dial(t, address), apitest.WithLength("PUT /timers/k HTTP/1.1\r\nHost: h\r\n")); got.Status != 200 {
		t.Fatalf("have %d", got.Status)
	}
	for path, allowed := range map[string]string{"/timers": "GET, HEAD, POST", "/timers/references": "DELETE", "/timers/k": "GET, HEAD, PUT, PATCH, DELETE"} {
		for _, method := range []string{"OPTIONS", "TRACE", "CONNECT", "PATCH", "BREW", "PROPFIND", "M-SEARCH"} {
			if strings.Contains(allowed, method) {
				continue
			}
			got, closed := apitest.Send(t, apitest.Dial(t, address), apitest.WithLength(method+" "+path+" HTTP/1.1\r\nHost: h\r\n"))
			apitest.WantProblem(t, got, http.StatusMethodNotAllowed, "method-not-allowed", apitest.NoPointer)
			if have := got.Header.Get("Allow"); have != allowed || closed {
				t.Errorf("%s %s: Allow %q, want %q; closed %v", method, path, have, allowed, closed)
			}
		}
	}
	for target, status := range map[string]int{"OPTIONS *": 404, "CONNECT h:443": 400, "CONNECT /": 404, "GET http://h:1": 404, "GET //timers/k": 400, "GET /timers/x/../k": 404, "PATCH /timers//k": 404, "GET /timers/k/": 404, "GET /Timers/k": 404} {
		if got, _ := apitest.Send(t, apitest.Dial(t, address), target+" HTTP/1.1\r\nHost: h\r\n\r\n"); got.Status != status {
			t.Errorf("%s: have %d, want %d", target, got.Status, status)
		}
	}
}

func TestHeadAnswersLikeGet(t *testing.T) {
	address := apitest.Serve(t, New(Config{Timers: &fakeTimers{}}))
	if got, _ := apitest.Send(t, apitest.Dial(t, address), apitest.WithLength("PUT /timers/k HTTP/1.1\r\nHost: h\r\n")); got.Status != 200 {
		t.Fatalf("have %d", got.Status)
	}
	for _, path := range []string{"/timers/k", "/timers/none", "/timers/a%20b", "/statistics", "/elsewhere"} {
		ask := func(method string) string {
			c := apitest.Dial(t, address)
			if _, err := io.WriteString(c, method+" "+path+" HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			raw, err := io.ReadAll(c)
			if err != nil {
				t.Fatal(err)
			}
			head, body, _ := strings.Cut(string(raw), "\r\n\r\n")
			if (method == "HEAD") != (body == "") {
				t.Errorf("%s %s has the body %q", method, path, body)
			}
			before, after, _ := strings.Cut(head, "Date: ")
			_, after, _ = strings.Cut(after, " GMT")
			return before + after
		}
		if get, head := ask("GET"), ask("HEAD"); get != head {
			t.Errorf("%s: GET answers %q, HEAD %q", path, get, head)
		}
	}
}

// Control characters in a path have no effect.
func TestControlsInPaths(t *testing.T) {
	timers, executed := counted()
	address := apitest.Serve(t, New(Config{Timers: timers}))
	for _, bad := range []string{"%0d%0aSet-Cookie:x=1", "%0a", "%0d", "%00", "k%00", "%7f", "%1b[2J", "%250d%250a", "%2500", "%c3%a9", "%ff", "%e2%80%a8", "a%20b", "a%2Bb", "%22", "%3Cscript%3E", "a%zz", "a%"} {
		for _, method := range []string{"GET", "PUT", "PATCH", "DELETE"} {
			got, _ := apitest.Send(t, apitest.Dial(t, address), apitest.WithLength(method+" /timers/"+bad+" HTTP/1.1\r\nHost: h\r\n"))
			if got.Status != 400 || got.Header.Get("Set-Cookie") != "" || got.Header.Get("Location") != "" {
				t.Errorf("%s %s: have %d and %v", method, bad, got.Status, got.Header)
			}
		}
	}
	if n := executed.Load(); n != 0 {
		t.Errorf("%d operations were executed", n)
	}
	for _, good := range []string{"k?a=%0d%0ab", "k?%00", "k?a=b;c&d", "%6b"} {
		if got, _ := apitest.Send(t, apitest.Dial(t, address), apitest.WithLength("PUT /timers/"+good+" HTTP/1.1\r\nHost: h\r\n")); got.Status != 200 || !strings.HasPrefix(got.Header.Get("Location"), "/timers/k-") {
			t.Errorf("%s: have %d and %v", good, got.Status, got.Header)
		}
	}
}

// The server neither returns nor logs any text of a client, except the names of ignored members and
// the id of a timer.
func TestNothingIsEchoed(t *testing.T) {
	const mark = "mArK3r"
	var log testkit.Log
	address := apitest.Serve(t, New(Config{Timers: &fakeTimers{}, Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))}))
	const head = "POST /timers HTTP/1.1\r\nHost: h\r\n"
	post := func(body string) string {
		return head + "Content-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n" + body
	}
	for name, raw := range map[string]string{
		"method":               apitest.WithLength("MARKER-mArK3r /timers HTTP/1.1\r\nHost: h\r\n"),
		"known-looking method": apitest.WithLength("MARK /timers/mArK3r HTTP/1.1\r\nHost: h\r\n"),
		"version":              apitest.WithLength("POST /timers HTTP/mArK3r\r\nHost: h\r\n"),
		"path":                 apitest.WithLength("POST /mArK3r HTTP/1.1\r\nHost: h\r\n"),
		"path, not absolute":   apitest.WithLength("POST mArK3r HTTP/1.1\r\nHost: h\r\n"),
		"scheme":               apitest.WithLength("POST mArK3r://h/timers HTTP/1.1\r\nHost: h\r\n"),
		"authority":            apitest.WithLength("POST http://mArK3r:x/timers HTTP/1.1\r\nHost: h\r\n"),
		"unknown id":           "GET /timers/mArK3r HTTP/1.1\r\nHost: h\r\n\r\n",
		"bad id":               "GET /timers/mArK3r%20 HTTP/1.1\r\nHost: h\r\n\r\n",
		"bad escape":           "GET /timers/mArK3r%z HTTP/1.1\r\nHost: h\r\n\r\n",
		"deleted id":           "DELETE /timers/mArK3r HTTP/1.1\r\nHost: h\r\n\r\n",
		"query":                "GET /timers/k?mArK3r=mArK3r HTTP/1.1\r\nHost: h\r\n\r\n",
		"host":                 apitest.WithLength("POST /timers HTTP/1.1\r\nHost: mArK3r\r\n"),
		"bad host":             apitest.WithLength("POST /timers HTTP/1.1\r\nHost: mArK3r^[:\r\n"),
		"header":               apitest.WithLength(head + "mArK3r: mArK3r\r\n"),
		"bad header":           apitest.WithLength(head + "mArK3r\r\n"),
		"bad header name":      apitest.WithLength(head + "mArK3r^( : mArK3r\r\n"),
		"bad header value":     apitest.WithLength(head + "A: mArK3r\x00\r\n"),
		"large header":         apitest.WithLength(head + "A: " + strings.Repeat(mark, 8<<10) + "\r\n"),
		"length":               head + "Content-Length: mArK3r\r\n\r\n",
		"transfer-encoding":    head + "Transfer-Encoding: mArK3r\r\n\r\n",
		"content-encoding":     apitest.WithLength(head + "Content-Encoding: mArK3r\r\n"),
		"content-type":         apitest.WithLength(head + "Content-Type: mArK3r\r\n"),
		"connection":           apitest.WithLength(head + "Connection: mArK3r\r\nUpgrade: mArK3r\r\n"),
		"cookie":               apitest.WithLength(head + "Cookie: mArK3r=mArK3r\r\nX-Request-Id: mArK3r\r\nOrigin: mArK3r\r\nX-Forwarded-For: mArK3r\r\n"),
		"range":                "GET /timers HTTP/1.1\r\nHost: h\r\nRange: mArK3r\r\n\r\n",
		"expect":               apitest.WithLength(head + "Expect: mArK3r\r\n"),
		"chunk size":           head + "Transfer-Encoding: chunked\r\n\r\nmArK3r\r\n",
		"chunk extension":      head + "Transfer-Encoding: chunked\r\n\r\n1;mArK3r\n",
		"trailer":              head + "Transfer-Encoding: chunked\r\n\r\n0\r\nmArK3r: mArK3r\r\n\r\n",
		"trailer names":        apitest.WithLength(head + "Trailer: mArK3r, Host\r\n"),
		"no JSON":              post(mark),
		"broken JSON":          post(`{"mArK3r":"mArK3r`),
		"bad escape in JSON":   post(`{"mArK3r":"mArK3r\x"}`),
		"JSON and more":        post(apitest.Simple + mark),
		"member twice":         post(`{"mArK3r":1,"mArK3r":2}`),
		"uri":                  post(`{"timing":{"interval":1},"callback":{"http":{"uri":"mArK3r"}}}`),
		"uri, bad":             post(`{"timing":{"interval":1},"callback":{"http":{"uri":"http://mArK3r\u0000/"}}}`),
		"uri, no string":       post(`{"timing":{"interval":1},"callback":{"http":{"uri":["mArK3r"]}}}`),
		"kind of callback":     post(`{"timing":{"interval":1},"callback":{"mArK3r":{}}}`),
		"interval":             post(`{"timing":{"interval":"mArK3r"},"callback":{"http":{"uri":"http://a"}}}`),
		"at":                   post(`{"timing":{"at":"mArK3r"},"callback":{"http":{"uri":"http://a"}}}`),
		"opaque":               post(`{"timing":{"interval":-1},"callback":{"http":{"uri":"http://a","opaque":"mArK3r"}}}`),
		"tag type":             post(apitest.WithMore(`"statistics":{"tag-info":[{"type":"mArK3r ","count":0}]}`)),
		"key":                  apitest.WithLength(head + "Idempotency-Key: mArK3r\r\n"),
		"bad key":              apitest.WithLength(head + "Idempotency-Key: mArK3r" + strings.Repeat("x", 2000) + "\r\n"),
		"nothing but":          mark + "\r\n\r\n",
	} {
		c := apitest.Dial(t, address)
		if _, err := io.WriteString(c, raw); err != nil {
			t.Fatal(err)
		}
		if half, ok := c.(interface{ CloseWrite() error }); !ok || half.CloseWrite() != nil {
			t.Fatal("can't close the sending side")
		}
		answer, err := io.ReadAll(c)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if !bytes.HasPrefix(answer, []byte("HTTP/1.1 ")) {
			t.Errorf("%s: have %q", name, answer)
		}
		if bytes.Contains(bytes.ToLower(answer), []byte(strings.ToLower(mark))) {
			t.Errorf("%s comes back: %s", name, answer)
		}
	}
	c := apitest.Dial(t, address)
	got, _ := apitest.Send(t, c, "PUT /timers/mArK3r HTTP/1.1\r\nHost: h\r\nContent-Length: "+strconv.Itoa(len(apitest.WithMore(`"m<\r\n\u0000>":1`)))+"\r\n\r\n"+apitest.WithMore(`"m<\r\n\u0000>":1`))
	if got.Status != 200 || !bytes.Contains(got.Body, []byte(`\r\n\u0000`)) || bytes.ContainsAny(got.Body, "\r\n\x00") || strings.Count(fmt.Sprint(got.Header), mark) != 1 {
		t.Errorf("have %d %q %v", got.Status, got.Body, got.Header)
	}
	if shown := log.String(); strings.Contains(strings.ToLower(shown), strings.ToLower(mark)) {
		t.Errorf("the log holds what was sent:\n%s", shown)
	}
}
