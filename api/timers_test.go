package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"chronos/api/apitest"
	"chronos/scheduler/store"
	"chronos/scheduler/timer"
)

func TestPost(t *testing.T) {
	timers := &fakeTimers{inFlight: true, unreached: 1}
	s := New(Config{Timers: timers})
	got := ask(t, s, "POST", "/timers", apitest.WithMore(`"color":"red","reliability":{"sites":[]}`))
	if got.Status != http.StatusOK || got.Header.Get("Content-Type") != "application/json" {
		t.Fatalf("have %d %s: %s", got.Status, got.Header.Get("Content-Type"), got.Body)
	}
	receipt := apitest.Parse[receiptView](t, got.Body)
	if !regexp.MustCompile(`^[0-9a-f]{32}$`).MatchString(receipt.Key) || receipt.ID != receipt.Key+"-2-0000000000008421" {
		t.Errorf("key %q, id %q", receipt.Key, receipt.ID)
	}
	if want := "/timers/" + receipt.ID; got.Header.Get("Location") != want {
		t.Errorf("Location %q, want %q", got.Header.Get("Location"), want)
	}
	if receipt.Due != "2030-01-31T12:00:01.000Z" || receipt.Copies != 1 {
		t.Errorf("due %s, copies %d", receipt.Due, receipt.Copies)
	}
	if diff := cmp.Diff([]string{"/color", "/reliability/sites"}, receipt.Ignored); diff != "" {
		t.Errorf("ignored (-want +have):\n%s", diff)
	}
	if stored, ok := timers.get(receipt.Key); !ok || stored.Record.Timer.ReplicationFactor != 2 {
		t.Errorf("stored %+v, want the default replication factor of 2", stored)
	}
	for _, name := range []string{"X-Chronos-In-Flight", "X-Chronos-Unreached", "Server", "Reason"} {
		if v := got.Header.Get(name); v != "" {
			t.Errorf("%s: %q in the answer to a POST", name, v)
		}
	}
	if strings.Contains(string(ask(t, s, "POST", "/timers", apitest.Simple).Body), "ignored") {
		t.Error("nothing was ignored, but the answer says so")
	}
}

func TestPut(t *testing.T) {
	timers := &fakeTimers{}
	s := New(Config{Timers: timers})
	for name, tc := range map[string]struct{ id, factor, newID string }{
		"bare key":              {"my.own~key_1", "", "my.own~key_1-2-0000000000008421"},
		"bare key with factor":  {"k", "2", "k-2-0000000000008421"},
		"id":                    {"k-3-00000000000000ff", "", "k-3-0000000000008421"},
		"id with its factor":    {"k-3-00000000000000ff", "3", "k-3-0000000000008421"},
		"percent-encoded":       {"a%7Eb%2d1", "", "a~b-1-2-0000000000008421"},
		"looks a bit like one":  {"k-17-00000000000000ff", "", "k-17-00000000000000ff-2-0000000000008421"},
		"as long as may be":     {strings.Repeat("k", 128), "", strings.Repeat("k", 128) + "-2-0000000000008421"},
		"reserved word in part": {"references-1", "", "references-1-2-0000000000008421"},
	} {
		t.Run(name, func(t *testing.T) {
			body := apitest.Simple
			if tc.factor != "" {
				body = apitest.WithMore(`"reliability":{"replication-factor":` + tc.factor + `}`)
			}
			got := ask(t, s, "PUT", "/timers/"+tc.id, body)
			if got.Status != http.StatusOK {
				t.Fatalf("have %d: %s", got.Status, got.Body)
			}
			receipt := apitest.Parse[receiptView](t, got.Body)
			if receipt.ID != tc.newID || got.Header.Get("Location") != "/timers/"+tc.newID {
				t.Errorf("id %q, Location %q, want %q", receipt.ID, got.Header.Get("Location"), tc.newID)
			}
			if _, ok := timers.get(receipt.Key); !ok {
				t.Error("it is not stored under its key")
			}
			if got.Header.Get("X-Chronos-In-Flight") != "" || got.Header.Get("X-Chronos-Unreached") != "" {
				t.Errorf("nothing is in flight or unreached, but the answer says so: %v", got.Header)
			}
		})
	}
	changed := ask(t, s, "PUT", "/timers/k-3-00000000000000ff", apitest.WithMore(`"reliability":{"replication-factor":4}`))
	apitest.WantProblem(t, changed, 400, "replication-factor-changed", "/reliability/replication-factor")
}

func TestDelete(t *testing.T) {
	timers := &fakeTimers{}
	s := New(Config{Timers: timers})
	ask(t, s, "PUT", "/timers/k", apitest.Simple)
	for _, body := range []string{"", "no JSON", apitest.Simple} {
		got := ask(t, s, "DELETE", "/timers/k", body)
		if got.Status != http.StatusCreated || len(got.Body) != 0 || got.Header.Get("X-Chronos-In-Flight") != "" || got.Header.Get("X-Chronos-Unreached") != "" {
			t.Fatalf("have %d %v: %s", got.Status, got.Header, got.Body)
		}
	}
	if _, ok := timers.get("k"); ok {
		t.Error("the timer is still there")
	}
	apitest.WantProblem(t, ask(t, s, "GET", "/timers/k", ""), 404, "timer-not-found", apitest.NoPointer)
}

func TestWhatIsUntoldIsSaid(t *testing.T) {
	s := New(Config{Timers: &fakeTimers{inFlight: true, unreached: 2}})
	for _, method := range []string{"PUT", "PATCH", "DELETE"} {
		got := ask(t, s, method, "/timers/k", apitest.Simple)
		if got.Header.Get("X-Chronos-In-Flight") != "true" || got.Header.Get("X-Chronos-Unreached") != "2" {
			t.Errorf("%s: have %v", method, got.Header)
		}
	}
}

func TestGet(t *testing.T) {
	timers := &fakeTimers{}
	s := New(Config{Timers: timers})
	for name, tc := range map[string]struct {
		body string
		edit func(*store.ReadResult)
		want string
	}{
		"one-shot": {
			body: apitest.Simple,
			want: `{"id":"k-2-0000000000008421","key":"k","timing":{"interval":30},"callback":{"http":{"uri":"http://127.0.0.1:9/cb","opaque":"o"}},` +
				`"reliability":{"replication-factor":2},"state":"waiting","due":"2030-01-31T12:00:30.000Z","sequence":1,"attempts":0}`,
		},
		"recurring, leased": {
			body: apitest.WithCallback(`"statistics":{"tag-info":[{"type":"CALL"}]},"timing":{"interval":0.2501,"repeat-for":100}`),
			edit: func(r *store.ReadResult) { r.Leased, r.Record.State.Seq, r.Record.State.Attempt = true, 7, 1 },
			want: `{"id":"k-2-0000000000008421","key":"k","timing":{"interval":0.251,"repeat-for":100},"callback":{"http":{"uri":"http://a/b","opaque":""}},` +
				`"reliability":{"replication-factor":2},"statistics":{"tag-info":[{"type":"CALL","count":1}]},"state":"leased","due":"2030-01-31T12:00:00.251Z","sequence":7,"attempts":1}`,
		},
		"at, retrying": {
			body: apitest.WithCallback(`"timing":{"at":"2031-01-31T14:00:00.0001+02:00"}`),
			edit: func(r *store.ReadResult) {
				r.Record.State.Attempt = 2
				r.Record.Failure = store.Failure{
					Node: "n", At: time.Date(2031, 1, 31, 13, 0, 0, 0, time.FixedZone("east", 3600)), Reason: `status 503 "<&>"`,
				}
				r.Due = time.Date(2031, 1, 31, 13, 0, 4, 0, time.FixedZone("east", 3600))
			},
			want: `{"id":"k-2-0000000000008421","key":"k","timing":{"at":"2031-01-31T12:00:00.001Z"},"callback":{"http":{"uri":"http://a/b","opaque":""}},` +
				`"reliability":{"replication-factor":2},"state":"retrying","due":"2031-01-31T12:00:04.000Z","sequence":1,"attempts":2,` +
				`"last-failure":{"at":"2031-01-31T12:00:00.000Z","reason":"status 503 \"<&>\""}}`,
		},
		"at, recurring": {
			body: apitest.WithCallback(`"timing":{"at":"2031-01-31T14:00:00+02:00","interval":30,"repeat-for":60}`),
			edit: func(r *store.ReadResult) { r.Due = time.Date(2031, 1, 31, 12, 0, 0, 0, time.UTC) },
			want: `{"id":"k-2-0000000000008421","key":"k","timing":{"interval":30,"repeat-for":60,"at":"2031-01-31T12:00:00.000Z"},"callback":{"http":{"uri":"http://a/b","opaque":""}},` +
				`"reliability":{"replication-factor":2},"state":"waiting","due":"2031-01-31T12:00:00.000Z","sequence":1,"attempts":0}`,
		},
		"nothing is escaped that need not be": {
			body: apitest.WithHTTP(`"uri":"http://a/b?c=1&d=<2>","opaque":"\u2028é\u0001"`),
			want: `{"id":"k-2-0000000000008421","key":"k","timing":{"interval":1},"callback":{"http":{"uri":"http://a/b?c=1&d=<2>","opaque":"\u2028é\u0001"}},` +
				`"reliability":{"replication-factor":2},"state":"waiting","due":"2030-01-31T12:00:01.000Z","sequence":1,"attempts":0}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := ask(t, s, "PUT", "/timers/k", tc.body); got.Status != http.StatusOK {
				t.Fatalf("have %d: %s", got.Status, got.Body)
			}
			if tc.edit != nil {
				timers.change("k", tc.edit)
			}
			got := ask(t, s, "GET", "/timers/k", "")
			if got.Status != http.StatusOK || got.Header.Get("Content-Type") != "application/json" {
				t.Errorf("have %d %s", got.Status, got.Header.Get("Content-Type"))
			}
			if diff := cmp.Diff(tc.want, string(got.Body)); diff != "" {
				t.Errorf("body (-want +have):\n%s", diff)
			}
			head := ask(t, s, "HEAD", "/timers/k", "")
			if head.Status != http.StatusOK || len(head.Body) != 0 || head.Header.Get("Content-Length") != strconv.Itoa(len(got.Body)) {
				t.Errorf("HEAD: %d %v", head.Status, head.Header)
			}
		})
	}
}

func TestBodiesAreRefused(t *testing.T) {
	s := New(Config{Timers: &fakeTimers{}})
	for name, tc := range map[string][3]string{
		"empty":            {"", "body-missing", ""},
		"cut off":          {"{", "body-syntax", ""},
		"opaque not UTF-8": {apitest.WithHTTP("\"uri\":\"http://a/b\",\"opaque\":\"\xed\xa0\x80\""), "string-utf8", "/callback/http/opaque"},
		// Timer.Validate finds the faults of members together.
		"repeat-for short":     {apitest.WithCallback(`"timing":{"interval":2,"repeat-for":1}`), "repeat-for-short", "/timing/repeat-for"},
		"interval 0 recurring": {apitest.WithCallback(`"timing":{"interval":0,"repeat-for":1}`), "interval-zero", "/timing/interval"},
		"interval too short":   {apitest.WithCallback(`"timing":{"interval":0.099,"repeat-for":1}`), "interval-too-short", "/timing/interval"},
		"at and repeat-for":    {apitest.WithCallback(`"timing":{"at":"2030-01-31T12:00:00Z","repeat-for":1}`), "at-and-repeat-for", "/timing/repeat-for"},
		"uri missing":          {apitest.WithHTTP(`"opaque":""`), "uri-missing", "/callback/http/uri"},
		"uri relative":         {apitest.WithHTTP(`"uri":"/cb"`), "uri-scheme", "/callback/http/uri"},
		"uri without host":     {apitest.WithHTTP(`"uri":"http:///cb"`), "uri-host", "/callback/http/uri"},
		"uri with space":       {apitest.WithHTTP(`"uri":"http://a/b c"`), "uri-characters", "/callback/http/uri"},
	} {
		t.Run(name, func(t *testing.T) {
			apitest.WantProblem(t, ask(t, s, "PUT", "/timers/k", tc[0]), 400, tc[1], tc[2])
			got := ask(t, s, "POST", "/timers", tc[0])
			apitest.WantProblem(t, got, 400, tc[1], tc[2])
			if got.Header.Get("Retry-After") != "" {
				t.Error("Retry-After on what will be refused again")
			}
		})
	}
}

func TestIDsAreRefused(t *testing.T) {
	s := New(Config{Timers: &fakeTimers{}})
	for id, code := range map[string]string{
		"batch-2-0000000000008421":      "id-reserved",
		"references-2-0000000000008421": "id-reserved",
		strings.Repeat("k", 129):        "id-length",
		"a%20b":                         "id-characters",
		"a+b":                           "id-characters",
		"%C3%A9":                        "id-characters",
		"a%00":                          "id-characters",
		"%23":                           "id-characters",
	} {
		t.Run(id[:min(len(id), 20)], func(t *testing.T) {
			for _, method := range []string{"GET", "PUT", "PATCH", "DELETE"} {
				apitest.WantProblem(t, ask(t, s, method, "/timers/"+id, apitest.Simple), 400, code, apitest.NoPointer)
			}
		})
	}
}

func TestPathsAndMethods(t *testing.T) {
	s := New(Config{Timers: &fakeTimers{}})
	for _, path := range []string{"/", "/timer", "/Timers", "/timers//", "/timers/a/b", "/timers/a%2Fb", "/timers/a/", "/metrics", "/statistics/", "/statistics/CALL", "/Statistics", "/timers/<b>echo%0d%0a</b>/x"} {
		for _, method := range []string{"GET", "POST", "DELETE", "BREW"} {
			got := ask(t, s, method, path, "")
			apitest.WantProblem(t, got, 404, "path-unknown", apitest.NoPointer)
			if got.Header.Get("Allow") != "" || bytes.Contains(got.Body, []byte("echo")) {
				t.Errorf("%s %s: %v %s", method, path, got.Header, got.Body)
			}
		}
	}
	for path, allowed := range map[string]string{"/timers": "GET, HEAD, POST", "/timers/references": "DELETE", "/timers/batch": "POST", "/timers/b%61tch": "POST", "/timers/k": "GET, HEAD, PUT, PATCH, DELETE", "/statistics": "GET, HEAD"} {
		for _, method := range []string{"GET", "HEAD", "PUT", "POST", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW"} {
			if strings.Contains(allowed, method) {
				continue
			}
			got := ask(t, s, method, path, "")
			if method == "HEAD" {
				if got.Status != 405 || got.Header.Get("Reason") == "" {
					t.Errorf("HEAD %s: %d %v", path, got.Status, got.Header)
				}
			} else {
				apitest.WantProblem(t, got, 405, "method-not-allowed", apitest.NoPointer)
			}
			if got.Header.Get("Allow") != allowed {
				t.Errorf("%s %s: Allow %q, want %q", method, path, got.Header.Get("Allow"), allowed)
			}
		}
	}
}

func TestErrorsOfTimers(t *testing.T) {
	const secret = "redis://user:password@host"
	for name, tc := range map[string]struct {
		err    error
		status int
		code   string
	}{
		"unavailable": {fmt.Errorf("merge at %s: %w", secret, timer.ErrUnavailable), 503, "store-unavailable"},
		"overloaded":  {fmt.Errorf("queue of %s: %w", secret, timer.ErrOverloaded), 503, "overloaded"},
		"too late":    {fmt.Errorf("wait for %s: %w", secret, context.DeadlineExceeded), 503, "store-unavailable"},
		"other":       {errors.New(secret), 500, "internal"},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			s := New(Config{
				Timers: &fakeTimers{before: func(context.Context, string, timer.ID) error { return tc.err }},
				Log:    slog.New(slog.NewTextHandler(&log, nil)),
			})
			for _, request := range [][2]string{{"POST", "/timers"}, {"PUT", "/timers/k"}, {"PATCH", "/timers/k"}, {"DELETE", "/timers/k"}, {"GET", "/timers/k"}} {
				got := ask(t, s, request[0], request[1], apitest.Simple)
				apitest.WantProblem(t, got, tc.status, tc.code, apitest.NoPointer)
				if retry := got.Header.Get("Retry-After"); (retry == "1") != (tc.status == 503) {
					t.Errorf("Retry-After %q with %d", retry, tc.status)
				}
				if strings.Contains(string(got.Body)+fmt.Sprint(got.Header), "password") {
					t.Errorf("the answer shows what is inside: %s", got.Body)
				}
			}
			if logged := strings.Contains(log.String(), "request failed"); logged != (tc.status == 500) {
				t.Errorf("log: %q", log.String())
			}
		})
	}
}

// A PUT, PATCH or DELETE that lost to newer writes gets an answer of its own, different from the answer
// when Redis is unreachable.
func TestAnOvertakenWriteIsAConflict(t *testing.T) {
	s := New(Config{Timers: &fakeTimers{before: func(context.Context, string, timer.ID) error {
		return fmt.Errorf("write timer: %w", timer.ErrOvertaken)
	}}})
	for _, method := range []string{"PUT", "PATCH", "DELETE"} {
		got := ask(t, s, method, "/timers/k", apitest.Simple)
		apitest.WantProblem(t, got, 409, "overtaken", apitest.NoPointer)
		if retry := got.Header.Get("Retry-After"); retry != "" {
			t.Errorf("%s: Retry-After %q, want none", method, retry)
		}
	}
}

func TestPanicIsAnswered(t *testing.T) {
	var log bytes.Buffer
	s := New(Config{
		Timers: &fakeTimers{before: func(context.Context, string, timer.ID) error { panic("no such luck") }},
		Log:    slog.New(slog.NewTextHandler(&log, nil)),
	})
	apitest.WantProblem(t, ask(t, s, "POST", "/timers", apitest.Simple), 500, "internal", apitest.NoPointer)
	if !strings.Contains(log.String(), "no such luck") || !strings.Contains(log.String(), "goroutine") {
		t.Errorf("log: %q", log.String())
	}
}

func TestOperationsAreBounded(t *testing.T) {
	s := New(Config{Timers: &fakeTimers{before: func(ctx context.Context, _ string, _ timer.ID) error {
		deadline, ok := ctx.Deadline()
		if left := time.Until(deadline); !ok || left <= 0 || left > answerWithin {
			return fmt.Errorf("context ends in %v", left)
		}
		return context.DeadlineExceeded // as if the timeout had passed
	}}})
	for _, request := range [][2]string{{"POST", "/timers"}, {"PUT", "/timers/k"}, {"PATCH", "/timers/k"}, {"DELETE", "/timers/k"}, {"GET", "/timers/k"}} {
		apitest.WantProblem(t, ask(t, s, request[0], request[1], apitest.Simple), 503, "store-unavailable", apitest.NoPointer)
	}
	apitest.WantProblem(t, ask(t, s, "POST", "/timers/batch", apitest.ListOf(apitest.Simple, apitest.Simple)), 503, "store-unavailable", apitest.NoPointer)
}
