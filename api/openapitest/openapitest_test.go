package openapitest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
)

func description(t testing.TB) []byte {
	t.Helper()
	raw, err := os.ReadFile("../openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestLoadRefuses(t *testing.T) {
	own := string(description(t))
	for name, tc := range map[string]struct{ old, replacement, want string }{
		"another version":            {"openapi: 3.1.0", "openapi: 3.0.3", "not 3.1"},
		"unknown reference":          {"#/components/headers/Reason", "#/components/headers/Reasons", "load description"},
		"example against its schema": {"copies: 1", "copies: one", "example"},
		"unknown member":             {"operationId: createTimer", "operationID: createTimer", "operationID"},
		"no type there is":           {"type: integer", "type: int", "int"},
	} {
		t.Run(name, func(t *testing.T) {
			changed := strings.ReplaceAll(own, tc.old, tc.replacement)
			if changed == own {
				t.Fatalf("the description has no %q", tc.old)
			}
			if _, err := Load([]byte(changed)); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("have %v, want an error with %q", err, tc.want)
			}
		})
	}
	if _, err := Load([]byte("openapi: [")); err == nil {
		t.Error("no error for what is no YAML")
	}
}

const (
	timer    = `{"timing":{"interval":30,"repeat-for":60},"callback":{"http":{"uri":"http://a/b"}},"x":1}`
	receipt  = `{"id":"k-2-0000000000008421","key":"k","due":"2030-01-31T12:00:01.000Z","copies":1}`
	location = "Location: /timers/k-2-0000000000008421"
	etag     = `ETag: "019b76679000beef"`
	refusal  = `{"title":"Bad Request","status":400,"detail":"no","code":"timing-missing","pointer":"/timing"}`
	unknown  = `{"title":"Not Found","status":404,"detail":"no","code":"path-unknown"}`
	wrong    = `{"title":"Method Not Allowed","status":405,"detail":"no","code":"method-not-allowed"}`
	absent   = `{"title":"Not Found","status":404,"detail":"no","code":"timer-not-found"}`
	stored   = `{"id":"k-2-0000000000008421","key":"k","timing":{"interval":0.25},"callback":{"http":{"uri":"http://a/b","opaque":""}},` +
		`"reliability":{"replication-factor":2},"state":"waiting","due":"2030-01-31T12:00:01.000Z","sequence":1,"attempts":0}`
	batch      = `{"created":1,"failed":1,"results":[` + receipt + `,` + failure + `]}`
	failure    = `{"error":{"title":"Bad Request","status":400,"detail":"no","code":"interval-negative","pointer":"/timers/1/timing/interval"}}`
	unreadable = `{"title":"Bad Request","status":400,"detail":"no","code":"request-malformed"}`
)

// exchange makes an exchange of its parts: method and path, headers, the same of the answer.
func exchange(t *testing.T, method, path, asked string, status int, answered string, headers ...string) Exchange {
	t.Helper()
	e := Exchange{
		Request: httptest.NewRequestWithContext(t.Context(), method, path, http.NoBody), RequestBody: []byte(asked),
		Response: &http.Response{StatusCode: status, Header: http.Header{}}, ResponseBody: []byte(answered),
	}
	for _, header := range headers {
		name, value, _ := strings.Cut(header, ": ")
		e.Response.Header.Add(name, value)
	}
	return e
}

const (
	isJSON    = "Content-Type: application/json"
	isProblem = "Content-Type: application/problem+json"
	reason    = "Reason: no"
)

func TestCheckAccepts(t *testing.T) {
	d := mustLoad(t, description(t))
	for name, e := range map[string]Exchange{
		"create":               exchange(t, "POST", "/timers", timer, 200, receipt, isJSON, location, etag),
		"create in form":       typed(exchange(t, "POST", "/timers", timer, 200, receipt, isJSON, location, etag), "application/x-www-form-urlencoded"),
		"create at":            exchange(t, "POST", "/timers", strings.Replace(timer, `"interval":30,"repeat-for":60`, `"at":"2030-01-31T12:00:00.25+02:00"`, 1), 200, receipt, isJSON, location, etag),
		"create at, recurring": exchange(t, "POST", "/timers", strings.Replace(timer, `"interval":30`, `"at":"2030-01-31T12:00:00Z","interval":30`, 1), 200, receipt, isJSON, location, etag),
		"create many":          exchange(t, "POST", "/timers/batch", `{"timers":[`+timer+`]}`, 200, `{"created":1,"failed":0,"results":[`+receipt+`]}`, isJSON, "Idempotent-Replayed: true"),
		"create some":          exchange(t, "POST", "/timers/batch", `{"timers":[`+timer+`,{}]}`, 207, batch, isJSON),
		"create them later":    exchange(t, "POST", "/timers/batch", `{"timers":[`+timer+`,{}]}`, 207, strings.Replace(batch, failure, `{"error":{"title":"Service Unavailable","status":503,"detail":"no","code":"overloaded","retry-after":1}}`, 1), isJSON),
		"no timer's path":      exchange(t, "GET", "/timers/batch", "", 405, wrong, isProblem, reason, "Allow: POST"),
		"replace":              exchange(t, "PUT", "/timers/k", timer, 200, receipt, isJSON, location, etag, "X-Chronos-In-Flight: true", "X-Chronos-Unreached: 2"),
		"change":               typed(exchange(t, "PATCH", "/timers/k", `{"callback":{"http":{"headers":{"X-A":null},"timeout":null}},"statistics":null,"x":1}`, 200, receipt, isJSON, location, etag), mergePatch+"; charset=utf-8"),
		"change of timing":     typed(exchange(t, "PATCH", "/timers/k", "\uFEFF"+`{"timing":{"at":"2030-01-31T12:00:00Z","interval":null}}`, 200, receipt, isJSON, location, etag), mergePatch),
		"change of no timer":   exchange(t, "PATCH", "/timers/k", "{}", 404, absent, isProblem, reason),
		"no merge patch":       exchange(t, "PATCH", "/timers/k", "{}", 415, strings.Replace(strings.Replace(absent, "404", "415", 1), "timer-not-found", "content-type", 1), isProblem, reason, "Accept-Patch: "+mergePatch),
		"delete":               exchange(t, "DELETE", "/timers/k", "no JSON", 201, "", "Content-Length: 0"),
		"look up":              exchange(t, "GET", "/timers/k", "", 200, stored, isJSON, etag),
		"look up at":           exchange(t, "GET", "/timers/k", "", 200, strings.Replace(stored, `"interval":0.25`, `"at":"2030-01-31T12:00:01.000Z"`, 1), isJSON, etag),
		"look up a failure":    exchange(t, "GET", "/timers/k", "", 200, strings.Replace(stored, `"attempts":0`, `"attempts":0,"last-failure":{"at":"2030-01-31T12:00:01.000Z","reason":"status 503"}`, 1), isJSON, etag),
		"head":                 exchange(t, "HEAD", "/timers/k", "", 200, "", isJSON, "Content-Length: 99", etag),
		"head of none":         exchange(t, "HEAD", "/timers/k", "", 404, "", isProblem, reason),
		"refused":              exchange(t, "POST", "/timers", "{}", 400, refusal, isProblem, reason),
		"not found":            exchange(t, "GET", "/timers/k", "", 404, absent, isProblem, reason),
		"no such path":         exchange(t, "GET", "/elsewhere", "", 404, unknown, isProblem, reason),
		"path below":           exchange(t, "GET", "/timers/a%2Fb", "", 404, unknown, isProblem, reason),
		"no such method":       exchange(t, "PATCH", "/timers", "", 405, wrong, isProblem, reason, "Allow: POST"),
		"not to be read":       exchange(t, "BREW", "/elsewhere", "", 400, unreadable, isProblem, reason),
		"description":          exchange(t, "GET", "/openapi.yaml", "", 200, "openapi: 3.1.0", "Content-Type: application/yaml", `ETag: "a"`),
		"description's head":   exchange(t, "HEAD", "/openapi.yaml", "", 200, "", "Content-Type: application/yaml", `ETag: "a"`),
		"description known":    exchange(t, "GET", "/openapi.yaml", "", 304, "", `ETag: "a"`),
	} {
		if err := d.Check(e); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

const mergePatch = "application/merge-patch+json"

// typed is an exchange whose request has a content type.
func typed(e Exchange, contentType string) Exchange {
	e.Request.Header.Set("Content-Type", contentType)
	return e
}

func TestCheckRefuses(t *testing.T) {
	d := mustLoad(t, description(t))
	for name, e := range map[string]Exchange{
		"accepted a bad body":         exchange(t, "POST", "/timers", "{}", 200, receipt, isJSON, location, etag),
		"accepted a short interval":   exchange(t, "POST", "/timers", strings.Replace(timer, "30", "-30", 1), 200, receipt, isJSON, location, etag),
		"accepted at and interval":    exchange(t, "POST", "/timers", strings.Replace(timer, `"interval":30,"repeat-for":60`, `"interval":30,"at":"2030-01-31T12:00:00Z"`, 1), 200, receipt, isJSON, location, etag),
		"accepted two callbacks":      exchange(t, "POST", "/timers", strings.Replace(timer, `{"http"`, `{"kafka":{},"http"`, 1), 200, receipt, isJSON, location, etag),
		"accepted a bad id":           exchange(t, "DELETE", "/timers/a%20b", "", 201, ""),
		"accepted another patch":      typed(exchange(t, "PATCH", "/timers/k", "{}", 200, receipt, isJSON, location, etag), "application/json"),
		"accepted a patch of no type": exchange(t, "PATCH", "/timers/k", "{}", 200, receipt, isJSON, location, etag),
		"accepted a bad patch":        typed(exchange(t, "PATCH", "/timers/k", `{"callback":null}`, 200, receipt, isJSON, location, etag), mergePatch),
		"accepted a patched URI":      typed(exchange(t, "PATCH", "/timers/k", `{"callback":{"http":{"uri":null}}}`, 200, receipt, isJSON, location, etag), mergePatch),
		"status not described":        exchange(t, "POST", "/timers", timer, 201, receipt, isJSON, location, etag),
		"status of another operation": exchange(t, "DELETE", "/timers/k", "", 404, absent, isProblem, reason),
		"redirect":                    exchange(t, "GET", "/timers/k", "", 301, "", location),
		"no Location":                 exchange(t, "POST", "/timers", timer, 200, receipt, isJSON),
		"no content type":             exchange(t, "POST", "/timers", timer, 200, receipt, location),
		"other content type":          exchange(t, "GET", "/timers/k", "", 200, stored, "Content-Type: text/plain"),
		"member missing":              exchange(t, "GET", "/timers/k", "", 200, strings.Replace(stored, `,"attempts":0`, "", 1), isJSON, etag),
		"member not described":        exchange(t, "GET", "/timers/k", "", 200, strings.Replace(stored, `"attempts":0`, `"attempts":0,"tries":0`, 1), isJSON, etag),
		"member below not described":  exchange(t, "GET", "/timers/k", "", 200, strings.Replace(stored, `"interval":0.25`, `"interval":0.25,"x":0`, 1), isJSON, etag),
		"callback's not described":    exchange(t, "GET", "/timers/k", "", 200, strings.Replace(stored, `"opaque":""`, `"opaque":"","x":0`, 1), isJSON, etag),
		"due without milliseconds":    exchange(t, "POST", "/timers", timer, 200, strings.Replace(receipt, ".000Z", "Z", 1), isJSON, location, etag),
		"due on no day":               exchange(t, "POST", "/timers", timer, 200, strings.Replace(receipt, "01-31", "02-31", 1), isJSON, location, etag),
		"no JSON":                     exchange(t, "GET", "/timers/k", "", 200, "stored", isJSON),
		"body that is not described":  exchange(t, "DELETE", "/timers/k", "", 201, "gone"),
		"body in answer to HEAD":      exchange(t, "HEAD", "/timers/k", "", 200, stored, isJSON),
		"header not described":        exchange(t, "DELETE", "/timers/k", "", 201, "", "Server: x"),
		"header of another operation": exchange(t, "POST", "/timers", timer, 200, receipt, isJSON, location, etag, "X-Chronos-Unreached: 1"),
		"header twice":                exchange(t, "GET", "/timers/k", "", 200, stored, isJSON, isJSON),
		"header's value":              exchange(t, "DELETE", "/timers/k", "", 201, "", "X-Chronos-In-Flight: yes"),
		"header no number":            exchange(t, "DELETE", "/timers/k", "", 201, "", "X-Chronos-Unreached: some"),
		"no Reason":                   exchange(t, "GET", "/timers/k", "", 404, absent, isProblem),
		"no Reason for HEAD":          exchange(t, "HEAD", "/timers/k", "", 404, "", isProblem),
		"code of another operation":   exchange(t, "POST", "/timers", "{}", 400, strings.Replace(refusal, `timing-missing`, "id-length", 1), isProblem, reason),
		"code not described":          exchange(t, "POST", "/timers", "{}", 400, strings.Replace(refusal, `timing-missing`, "timing-gone", 1), isProblem, reason),
		"problem of another status":   exchange(t, "POST", "/timers", "{}", 400, strings.Replace(refusal, `400`, "401", 1), isProblem, reason),
		"no pointer":                  exchange(t, "POST", "/timers", "{}", 400, strings.Replace(refusal, `,"pointer":"/timing"`, "", 1), isProblem, reason),
		"no place for a pointer":      exchange(t, "GET", "/timers/k", "", 404, strings.Replace(absent, `}`, `,"pointer":""}`, 1), isProblem, reason),
		"path that should be unknown": exchange(t, "GET", "/elsewhere", "", 200, "", isJSON),
		"accepted a bad timer":        exchange(t, "POST", "/timers/batch", `{"timers":[{}]}`, 200, `{"created":1,"failed":0,"results":[`+receipt+`]}`, isJSON),
		"accepted no timers":          exchange(t, "POST", "/timers/batch", `{"timers":[]}`, 200, `{"created":1,"failed":0,"results":[`+receipt+`]}`, isJSON),
		"all created and one not":     exchange(t, "POST", "/timers/batch", `{"timers":[`+timer+`]}`, 200, strings.Replace(batch, `"failed":1`, `"failed":0`, 1), isJSON),
		"created in part, all":        exchange(t, "POST", "/timers/batch", `{"timers":[`+timer+`]}`, 207, strings.Replace(batch, failure, receipt, 1), isJSON),
		"busy for no time":            exchange(t, "POST", "/timers/batch", `{"timers":[`+timer+`]}`, 207, strings.Replace(batch, failure, `{"error":{"title":"Service Unavailable","status":503,"detail":"no","code":"overloaded"}}`, 1), isJSON),
		"refused of another kind":     exchange(t, "POST", "/timers/batch", `{"timers":[`+timer+`]}`, 207, strings.Replace(batch, "interval-negative", "id-length", 1), isJSON),
		"batch's path as a timer's":   exchange(t, "GET", "/timers/batch", "", 200, stored, isJSON),
		"no Allow":                    exchange(t, "PATCH", "/timers", "", 405, wrong, isProblem, reason),
		"known path is unknown":       exchange(t, "PATCH", "/timers", "", 404, unknown, isProblem, reason),
	} {
		if err := d.Check(e); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func callback(t *testing.T, edit func(http.Header)) *http.Request {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), "POST", "http://127.0.0.1:9000/any?x=1", strings.NewReader("tea"))
	for name, value := range map[string]string{
		"Content-Type": "text/plain; charset=utf-8", "X-Sequence-Number": "1", "X-Chronos-Timer": "k-2-0000000000008421",
		"X-Chronos-Attempt": "1", "X-Chronos-Due": "2030-01-31T12:00:01.000Z", "webhook-id": "k.00000000000000ff.1", "webhook-timestamp": "1896091201",
	} {
		r.Header.Set(name, value)
	}
	edit(r.Header)
	return r
}

func TestCheckCallback(t *testing.T) {
	d := mustLoad(t, description(t))
	for name, tc := range map[string]struct {
		edit func(http.Header)
		bad  bool
	}{
		"plain":                    {func(http.Header) {}, false},
		"signed":                   {func(h http.Header) { h.Set("webhook-signature", "v1,K5oZfzN95Z9UVu1EsfQmfVNQhnkZ2pj9o9NDN/H/pI4=") }, false},
		"signature of another":     {func(h http.Header) { h.Set("webhook-signature", "v2,K5oZfzN95Z9UVu1EsfQmfVNQhnkZ2pj9o9NDN/H/pI4=") }, true},
		"no sequence":              {func(h http.Header) { h.Del("X-Sequence-Number") }, true},
		"sequence 0":               {func(h http.Header) { h.Set("X-Sequence-Number", "0") }, true},
		"bare key":                 {func(h http.Header) { h.Set("X-Chronos-Timer", "k") }, true},
		"due in another form":      {func(h http.Header) { h.Set("X-Chronos-Due", "2030-01-31T12:00:01Z") }, true},
		"webhook-id without parts": {func(h http.Header) { h.Set("webhook-id", "k") }, true},
		"other content type":       {func(h http.Header) { h.Set("Content-Type", "application/json") }, true},
		"header not described":     {func(h http.Header) { h.Set("X-Chronos-More", "1") }, true},
	} {
		if err := d.CheckCallback(callback(t, tc.edit), []byte("tea")); (err != nil) != tc.bad {
			t.Errorf("%s: have %v", name, err)
		}
	}
	if err := d.CheckCallback(httptest.NewRequestWithContext(t.Context(), "PUT", "/", http.NoBody), nil); err == nil {
		t.Error("a PUT passes for a callback")
	}
}

// failures stands for a test that may fail.
type failures struct {
	testing.TB
	said []string
}

func (f *failures) Helper() {}

func (f *failures) Errorf(format string, args ...any) {
	f.said = append(f.said, fmt.Sprintf(format, args...))
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestTransport(t *testing.T) {
	var sent string
	answer := receipt
	base := roundTrip(func(r *http.Request) (*http.Response, error) {
		body, err := io.ReadAll(r.Body)
		sent = string(body)
		header := http.Header{"Content-Type": {"application/json"}, "Location": {"/timers/k-2-0000000000008421"}, "Etag": {`"0000000000000001"`}}
		return &http.Response{StatusCode: http.StatusOK, Header: header, Body: io.NopCloser(strings.NewReader(answer))}, err
	})
	f := &failures{TB: t}
	client := http.Client{Transport: Transport(f, description(t), base)}
	for _, wantFailures := range []int{0, 1} {
		response, err := client.Post("http://node/timers", "application/json", strings.NewReader(timer)) //nolint:noctx // nothing is sent
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(response.Body)
		if err != nil || string(got) != answer || sent != timer {
			t.Errorf("%v: sent %q, answered %q", err, sent, got)
		}
		if len(f.said) != wantFailures {
			t.Errorf("have %d failures, want %d: %q", len(f.said), wantFailures, f.said)
		}
		answer = `{"id":1}`
	}
	cut := errors.New("cut")
	base = func(*http.Request) (*http.Response, error) { return nil, cut }
	client.Transport = Transport(t, description(t), base)
	if _, err := client.Get("http://node/timers/k"); !errors.Is(err, cut) { //nolint:noctx // nothing is sent
		t.Errorf("have %v, want the transport's error", err)
	}
}

func TestCallbacks(t *testing.T) {
	f := &failures{TB: t}
	var got []byte
	handler := Callbacks(f, description(t), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got, _ = io.ReadAll(r.Body)
		w.WriteHeader(http.StatusGone)
	}))
	for i, edit := range []func(http.Header){func(http.Header) {}, func(h http.Header) { h.Del("webhook-id") }} {
		recorder := httptest.NewRecorder()
		handler.ServeHTTP(recorder, callback(t, edit))
		if recorder.Code != http.StatusGone || !bytes.Equal(got, []byte("tea")) {
			t.Errorf("answered %d, read %q", recorder.Code, got)
		}
		if len(f.said) != i {
			t.Errorf("have %d failures, want %d: %q", len(f.said), i, f.said)
		}
	}
}

func BenchmarkLoad(b *testing.B) {
	raw := description(b)
	for b.Loop() {
		if _, err := Load(raw); err != nil {
			b.Fatal(err)
		}
	}
}
