package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"chronos/api/client"
)

// step is the result of a try: an answer, or an error.
type step struct {
	status int
	header string // name: value
	body   string
	err    error
}

const (
	someReceipt = `{"id":"k-2-0000000000008421","key":"k","due":"2030-01-31T12:00:01.000Z","copies":1}`
	someTimer   = `{"id":"k-2-0000000000008421","key":"k","timing":{"interval":1},"callback":{"http":{"uri":"http://a/b","opaque":""}},` +
		`"reliability":{"replication-factor":2},"state":"waiting","due":"2030-01-31T12:00:01.000Z","sequence":1,"attempts":0}`
)

func coded(status int, code string, retryAfter string) step {
	return step{status: status, header: "Retry-After: " + retryAfter, body: fmt.Sprintf(`{"status":%d,"detail":"no","code":%q}`, status, code)}
}

// script answers requests in turn, and notes the requests.
type script struct {
	t     *testing.T
	steps []step
	sent  []*http.Request
}

func (s *script) RoundTrip(r *http.Request) (*http.Response, error) {
	if len(s.sent) == len(s.steps) {
		s.t.Errorf("sent once more than there are steps: %d", len(s.steps))
		return nil, errors.New("no more steps")
	}
	now := s.steps[len(s.sent)]
	s.sent = append(s.sent, r)
	if now.err != nil {
		return nil, now.err
	}
	response := &http.Response{StatusCode: now.status, Header: http.Header{"Content-Type": {"application/problem+json"}}, Body: io.NopCloser(strings.NewReader(now.body))}
	if name, value, ok := strings.Cut(now.header, ": "); ok {
		response.Header.Set(name, value)
	}
	if now.body == "cut" {
		response.Body = io.NopCloser(iotest.ErrReader(io.ErrUnexpectedEOF))
	}
	return response, nil
}

var (
	refused = &net.OpError{Op: "dial", Err: errors.New("refused")}
	reset   = &net.OpError{Op: "read", Err: errors.New("reset")}
)

func scripted(t *testing.T, steps []step, options ...client.Option) (*client.Client, *script) {
	t.Helper()
	s := &script{t: t, steps: steps}
	c, err := client.New("https://node/prefix/", append(options, client.WithHTTPClient(&http.Client{Transport: s}))...)
	if err != nil {
		t.Fatal(err)
	}
	return c, s
}

func TestTries(t *testing.T) {
	timer := client.Timer{Interval: time.Second, URI: "http://a/b"}
	operations := map[string]func(context.Context, *client.Client) error{
		"create": func(ctx context.Context, c *client.Client) error { _, err := c.Create(ctx, timer); return err },
		"create once": func(ctx context.Context, c *client.Client) error {
			_, err := c.CreateOnce(ctx, "key", timer)
			return err
		},
		"replace": func(ctx context.Context, c *client.Client) error { _, err := c.Replace(ctx, "k", timer); return err },
		"patch": func(ctx context.Context, c *client.Client) error {
			_, err := c.Patch(ctx, "k", client.Change{Opaque: new("o")})
			return err
		},
		"patch if": func(ctx context.Context, c *client.Client) error {
			_, err := c.PatchIf(ctx, "k", client.Condition{Exists: true}, client.Change{})
			return err
		},
		"delete":  func(ctx context.Context, c *client.Client) error { _, err := c.Delete(ctx, "k"); return err },
		"look up": func(ctx context.Context, c *client.Client) error { _, err := c.Lookup(ctx, "k"); return err },
	}
	good := map[string]step{
		"create": {status: 200, body: someReceipt}, "create once": {status: 200, body: someReceipt}, "replace": {status: 200, body: someReceipt}, "patch": {status: 200, body: someReceipt}, "patch if": {status: 200, body: someReceipt},
		"delete": {status: 201}, "look up": {status: 200, body: someTimer},
	}
	away, busy, limited := coded(503, "store-unavailable", "1"), coded(503, "overloaded", "2"), coded(429, "rate-limited", "3")
	broken := step{status: 200, body: "cut"}
	for name, tc := range map[string]struct {
		steps     []step // before the good answer
		create    bool   // whether Create and Patch reach the good answer, and whether the other operations do
		others    bool
		atLeast   time.Duration // if the good answer is reached
		lessThan  time.Duration
		sentFirst int // if the good answer is not reached
	}{
		"at once":                {nil, true, true, 0, time.Nanosecond, 0},
		"not connected":          {[]step{{err: refused}}, true, true, 0, 100 * time.Millisecond, 1},
		"connection lost":        {[]step{{err: reset}}, false, true, 0, 100 * time.Millisecond, 1},
		"answer lost":            {[]step{broken}, false, true, 0, 100 * time.Millisecond, 1},
		"store away":             {[]step{away}, false, true, time.Second, 1100 * time.Millisecond, 1},
		"overloaded":             {[]step{busy}, true, true, 2 * time.Second, 2100 * time.Millisecond, 1},
		"undecided":              {[]step{coded(503, "condition-undecided", "1")}, true, true, time.Second, 1100 * time.Millisecond, 1},
		"limited":                {[]step{limited}, true, true, 3 * time.Second, 3100 * time.Millisecond, 1},
		"two in a row":           {[]step{busy, limited}, true, true, 5 * time.Second, 5300 * time.Millisecond, 2},
		"first nothing was done": {[]step{busy, away}, false, true, 3 * time.Second, 3300 * time.Millisecond, 2},
		"too often":              {[]step{busy, busy, busy}, false, false, 0, 0, 3},
		"too long a pause":       {[]step{coded(503, "overloaded", "11")}, false, false, 0, 0, 1},
		"broken in the server":   {[]step{coded(500, "internal", "1")}, false, false, 0, 0, 1},
		"refused":                {[]step{coded(400, "id-length", "")}, false, false, 0, 0, 1},
		"token":                  {[]step{coded(401, "token-unknown", "")}, false, false, 0, 0, 1},
		"overtaken":              {[]step{coded(409, "overtaken", "")}, false, false, 0, 0, 1},
		"redirected":             {[]step{{status: 307}}, false, false, 0, 0, 1},
		"proxy has nothing":      {[]step{{status: 503}}, false, true, 0, 100 * time.Millisecond, 1},
	} {
		for operation, do := range operations {
			t.Run(name+", "+operation, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c, s := scripted(t, append(slices.Clip(tc.steps), good[operation]))
					began := time.Now()
					err := do(t.Context(), c)
					took := time.Since(began)
					repeatable := !slices.Contains([]string{"create", "patch", "patch if"}, operation)
					if ok := !repeatable && tc.create || repeatable && tc.others; !ok {
						if err == nil || len(s.sent) != tc.sentFirst && (!repeatable || !tc.others) {
							t.Fatalf("have %v after %d tries, want an error after %d", err, len(s.sent), tc.sentFirst)
						}
						return
					}
					if err != nil || len(s.sent) != len(s.steps) {
						t.Fatalf("have %v after %d tries, want none after %d", err, len(s.sent), len(s.steps))
					}
					if took < tc.atLeast || took >= tc.lessThan {
						t.Errorf("took %v, want from %v to %v", took, tc.atLeast, tc.lessThan)
					}
				})
			})
		}
	}
}

func TestRequest(t *testing.T) {
	c, s := scripted(t, []step{{err: refused}, {status: 200, body: someReceipt}}, client.WithToken("chr_secret"))
	if _, err := c.CreateOnce(t.Context(), "a key", client.Timer{Interval: 1500 * time.Millisecond, URI: "http://a/b"}); err != nil {
		t.Fatal(err)
	}
	for i, r := range s.sent {
		body, err := io.ReadAll(r.Body)
		const want = `{"timing":{"interval":1.5},"callback":{"http":{"uri":"http://a/b"}}}`
		if err != nil || string(body) != want || r.Method != http.MethodPost || r.URL.String() != "https://node/prefix/timers" {
			t.Errorf("try %d: %v: %s %s %s", i+1, err, r.Method, r.URL, body)
		}
		for name, want := range map[string]string{"Authorization": "Bearer chr_secret", "Idempotency-Key": "a key", "Content-Type": "application/json"} {
			if got := r.Header.Get(name); got != want {
				t.Errorf("try %d: %s %q, want %q", i+1, name, got, want)
			}
		}
	}
}

// No pause outlasts the context: a pause that would is not begun.
func TestContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := scripted(t, []step{coded(503, "overloaded", "5")})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		_, err := c.Delete(ctx, "k")
		if problem, ok := errors.AsType[*client.Problem](err); !ok || problem.RetryAfter != 5*time.Second || time.Since(began) != 0 {
			t.Errorf("have %v after %v, want the problem at once", err, time.Since(began))
		}
		s.sent = nil
		ctx, cancel = context.WithCancel(t.Context())
		stop := time.AfterFunc(time.Second, cancel)
		defer stop.Stop()
		if _, err = c.Delete(ctx, "k"); err == nil || time.Since(began) != time.Second {
			t.Errorf("have %v after %v, want an error after a second", err, time.Since(began))
		}
	})
}

// silent never answers.
type silent struct{}

func (silent) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, context.Cause(r.Context())
}

func TestSilenceIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := client.New("http://node", client.WithHTTPClient(&http.Client{Transport: silent{}}), client.WithTimeout(2*time.Second), client.WithTries(2))
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		_, err = c.Delete(t.Context(), "k")
		if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || took < 4*time.Second || took > 4100*time.Millisecond {
			t.Errorf("have %v after %v, want a timeout after two tries of 2 s", err, took)
		}
	})
}

func TestBadAnswers(t *testing.T) {
	for name, body := range map[string]string{
		"too long":     `{"id":"k","key":"` + strings.Repeat("k", 1000) + `"}`,
		"no JSON":      "<html>",
		"another JSON": "{}",
		"no number":    strings.Replace(someTimer, `"interval":1`, `"interval":1e99`, 1),
		"no instant":   strings.Replace(someTimer, `"interval":1`, `"at":"soon"`, 1),
	} {
		t.Run(name, func(t *testing.T) {
			c, _ := scripted(t, []step{{status: 200, body: body}}, client.WithMaxAnswer(500))
			if found, err := c.Lookup(t.Context(), "k"); err == nil {
				t.Errorf("have %+v, want an error", found)
			}
		})
	}
}

// The error says something, even if the answer is not from a node.
func TestForeignAnswers(t *testing.T) {
	for want, s := range map[string]step{
		"look up timer: status 502: unexpected answer: bad gateway": {status: 502, body: "<html>"},
		"look up timer: status 404: no":                             {status: 404, header: "Reason: no", body: "no JSON"},
		"look up timer: status 404 path-unknown: no":                coded(404, "path-unknown", ""),
	} {
		c, _ := scripted(t, []step{s})
		if _, err := c.Lookup(t.Context(), "k"); err == nil || err.Error() != want || errors.Is(err, client.ErrNotFound) {
			t.Errorf("have %v, want %s", err, want)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	for given, want := range map[string]time.Duration{
		"": 0, "soon": 0, "-1": 0, "0": 0, "7": 7 * time.Second, "99999999": 24 * time.Hour, "99999999999": 0,
		"Fri, 31 Jan 2020 12:00:00 GMT": 0, "Fri, 31 Dec 2199 23:59:59 GMT": 24 * time.Hour,
	} {
		c, _ := scripted(t, []step{coded(503, "overloaded", given)}, client.WithTries(1))
		_, err := c.Delete(t.Context(), "k")
		if problem, ok := errors.AsType[*client.Problem](err); !ok || problem.RetryAfter != want {
			t.Errorf("%q: have %v, want %v", given, err, want)
		}
	}
}

func TestTimersThatCantBeSent(t *testing.T) {
	c, _ := scripted(t, nil)
	for name, timer := range map[string]client.Timer{
		"opaque not UTF-8": {URI: "http://a/b", Opaque: "\xff"},
		"uri not UTF-8":    {URI: "http://a/\xff"},
		"tag not UTF-8":    {URI: "http://a/b", Tags: []client.Tag{{Type: "\xff"}}},
		"both times":       {URI: "http://a/b", Interval: 1, At: time.Unix(1, 0)},
	} {
		if _, err := c.Create(t.Context(), timer); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	for _, base := range []string{"", "node:7253", "localhost", "ftp://node", "http://", "http://:7253", "http://u:secret@node", "http://node?a=1", "http://node#a", "http://node\x00secret"} {
		if _, err := client.New(base); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: have %v, want an error without what may be secret", base, err)
		}
	}
	for name, option := range map[string]client.Option{
		"token empty": client.WithToken(""), "token of two lines": client.WithToken("a\r\nb"), "client nil": client.WithHTTPClient(nil),
		"no tries": client.WithTries(0), "no time": client.WithTimeout(0), "no answer": client.WithMaxAnswer(0),
	} {
		if _, err := client.New("http://node", option); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// The client that New makes keeps its connections. The client follows no redirect, since a redirect
// could take the token elsewhere.
func TestOwnHTTPClient(t *testing.T) {
	var connections, elsewhere atomic.Int64
	node := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/timers/moved":
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		case "/elsewhere":
			elsewhere.Add(1)
		default:
			w.WriteHeader(http.StatusCreated)
		}
	}))
	node.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	node.Start()
	defer node.Close()
	c, err := client.New(node.URL, client.WithToken("t"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for range 3 {
		if _, err := c.Delete(t.Context(), "k"); err != nil {
			t.Fatal(err)
		}
		_, err := c.Delete(t.Context(), "moved")
		if problem, ok := errors.AsType[*client.Problem](err); !ok || problem.Status != http.StatusTemporaryRedirect {
			t.Errorf("redirected: have %v", err)
		}
	}
	if n := connections.Load(); n != 1 || elsewhere.Load() != 0 {
		t.Errorf("%d connections, %d redirects followed; want 1 and 0", n, elsewhere.Load())
	}
}
