package api

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"chronos/api/apitest"
	"chronos/scheduler/timer"
)

// Every answer about a timer has the ETag of the timer's version.
func TestAnswersHaveETags(t *testing.T) {
	s := New(Config{Timers: &fakeTimers{}, Authorizer: anyone{}})
	made := ask(t, s, "PUT", "/timers/k", apitest.Simple)
	tag := made.Header.Get("ETag")
	if tag != `"0000000000000001"` {
		t.Errorf("PUT: ETag %s", tag)
	}
	for _, method := range []string{"GET", "HEAD"} {
		if got := ask(t, s, method, "/timers/k", "", "If-None-Match", tag); got.Status != http.StatusOK || got.Header.Get("ETag") != tag {
			t.Errorf("%s: have %d, ETag %s, want 200 and %s", method, got.Status, got.Header.Get("ETag"), tag)
		}
	}
	if got := ask(t, s, "PUT", "/timers/k", apitest.Simple); got.Header.Get("ETag") == tag {
		t.Errorf("the second PUT has the ETag of the first, %s", tag)
	}
	if got := ask(t, s, "PATCH", "/timers/k", "{}"); got.Header.Get("ETag") != `"0000000000000003"` {
		t.Errorf("PATCH: ETag %s", got.Header.Get("ETag"))
	}
	if got := ask(t, s, "POST", "/timers", apitest.Simple); got.Header.Get("ETag") == "" {
		t.Error("POST: no ETag")
	}
}

// TestConditions writes to a timer whose version is 2, or to no timer.
func TestConditions(t *testing.T) {
	const present = `"0000000000000002"`
	for _, c := range []struct {
		method, key   string
		header, value string
		status        int
		code          string // of a refusal
	}{
		{"PUT", "k", "If-Match", present, 200, ""},
		{"PUT", "k", "If-Match", "*", 200, ""},
		{"PUT", "k", "If-Match", `"0000000000000001", ` + present, 200, ""},
		{"PUT", "k", "If-Match", " , " + present + " ,", 200, ""},
		{"PATCH", "k", "If-Match", present, 200, ""},
		{"PATCH", "k", "If-Match", "*", 200, ""},
		{"DELETE", "k", "If-Match", present, 201, ""},
		{"DELETE", "k", "If-Match", "*", 201, ""},
		{"PUT", "new", "If-None-Match", "*", 200, ""},
		{"PUT", "new", "If-None-Match", " * ", 200, ""},
		{"PUT", "k", "If-Match", `"0000000000000001"`, 412, "precondition-failed"},
		{"PUT", "k", "If-Match", "W/" + present, 412, "precondition-failed"},
		{"PUT", "k", "If-Match", `"a,b"`, 412, "precondition-failed"},
		{"PUT", "k", "If-Match", `""`, 412, "precondition-failed"},
		{"PUT", "k", "If-Match", strings.ToUpper(`"00000000000000ab"`), 412, "precondition-failed"},
		{"PUT", "k", "If-None-Match", "*", 412, "precondition-failed"},
		{"PATCH", "k", "If-Match", `"0000000000000001"`, 412, "precondition-failed"},
		{"PATCH", "k", "If-Match", "W/" + present, 412, "precondition-failed"},
		{"PATCH", "new", "If-Match", "*", 412, "precondition-failed"},
		{"DELETE", "k", "If-Match", `"0000000000000003"`, 412, "precondition-failed"},
		{"PUT", "new", "If-Match", "*", 412, "precondition-failed"},
		{"PUT", "new", "If-Match", `"0000000000000000"`, 412, "precondition-failed"},
		{"DELETE", "new", "If-Match", "*", 412, "precondition-failed"},
		{"PUT", "k", "If-Match", "0000000000000002", 400, "precondition-malformed"},
		{"PUT", "k", "If-Match", `"0000000000000002`, 400, "precondition-malformed"},
		{"PUT", "k", "If-Match", "*, " + present, 400, "precondition-malformed"},
		{"PUT", "k", "If-Match", "", 400, "precondition-malformed"},
		{"PUT", "k", "If-Match", " , ", 400, "precondition-malformed"},
		{"PUT", "k", "If-None-Match", present, 400, "precondition-unsupported"},
		{"PUT", "k", "If-None-Match", "", 400, "precondition-unsupported"},
		{"PATCH", "k", "If-Match", "0000000000000002", 400, "precondition-malformed"},
		{"PATCH", "k", "If-None-Match", "*", 400, "precondition-unsupported"},
		{"PATCH", "new", "If-None-Match", "*", 400, "precondition-unsupported"},
		{"DELETE", "k", "If-None-Match", "*", 400, "precondition-unsupported"},
		{"DELETE", "references?node-for-replicas=d", "If-Match", "*", 400, "precondition-unsupported"},
	} {
		t.Run(fmt.Sprintf("%s %s, %s: %s", c.method, c.key, c.header, c.value), func(t *testing.T) {
			timers := &fakeTimers{}
			s := New(Config{Timers: timers, Authorizer: anyone{}})
			for range 2 {
				ask(t, s, "PUT", "/timers/k", apitest.Simple)
			}
			body := strings.Replace(apitest.Simple, "127.0.0.1", "other", 1)
			if c.method == http.MethodDelete {
				body = ""
			}
			got := ask(t, s, c.method, "/timers/"+c.key, body, c.header, c.value)
			if c.code == "" {
				if got.Status != c.status {
					t.Fatalf("have %d %s, want %d", got.Status, got.Body, c.status)
				}
				return
			}
			apitest.WantProblem(t, got, c.status, c.code, apitest.NoPointer)
			want := ""
			if c.status == http.StatusPreconditionFailed && c.key == "k" {
				want = present
			}
			if tag := got.Header.Get("ETag"); tag != want {
				t.Errorf("ETag %q, want %q", tag, want)
			}
			if stored, ok := timers.get("k"); !ok || stored.Record.State.Version != 2 {
				t.Errorf("stored %+v, want version 2 as before", stored.Record.State)
			}
			if _, made := timers.get("new"); made {
				t.Error("a timer was made")
			}
		})
	}
}

// Both headers together, and If-Match in several lines.
func TestConditionsOfSeveralHeaders(t *testing.T) {
	s := New(Config{Timers: &fakeTimers{}, Authorizer: anyone{}})
	ask(t, s, "PUT", "/timers/k", apitest.Simple)
	both := ask(t, s, "PUT", "/timers/k", apitest.Simple, "If-Match", "*", "If-None-Match", "*")
	apitest.WantProblem(t, both, 400, "precondition-unsupported", apitest.NoPointer)
	c := apitest.Dial(t, apitest.Serve(t, s))
	lines := "PUT /timers/k HTTP/1.1\r\nHost: h\r\nIf-Match: \"0000000000000009\"\r\nIf-Match: \"0000000000000001\"\r\n"
	if got, _ := apitest.Send(t, c, apitest.WithLength(lines)); got.Status != http.StatusOK {
		t.Errorf("If-Match in two lines: have %d %s", got.Status, got.Body)
	}
}

func TestConditionThatCannotBeJudged(t *testing.T) {
	timers := &fakeTimers{before: func(context.Context, string, timer.ID) error {
		return fmt.Errorf("%w: a shard is silent", timer.ErrUndecided)
	}}
	for _, method := range []string{"PUT", "PATCH", "DELETE"} {
		got := ask(t, New(Config{Timers: timers, Authorizer: anyone{}}), method, "/timers/k", apitest.Simple, "If-Match", "*")
		apitest.WantProblem(t, got, http.StatusServiceUnavailable, "condition-undecided", apitest.NoPointer)
		if after := got.Header.Get("Retry-After"); after != "1" {
			t.Errorf("%s: Retry-After %q", method, after)
		}
	}
}
