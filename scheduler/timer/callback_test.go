package timer_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"chronos/scheduler/timer"
)

// headers are headers of names and values in turn.
func headers(t *testing.T, texts ...string) (all timer.Headers) {
	t.Helper()
	for i := 0; i < len(texts); i += 2 {
		with, err := all.With(texts[i], texts[i+1])
		if err != nil {
			t.Fatalf("%q: %v", texts[i], err)
		}
		all = with
	}
	return all
}

// called is a valid timer with a changed callback.
func called(change func(*timer.Callback)) *timer.Timer {
	return fine(func(x *timer.Timer) { change(&x.Callback) })
}

func TestValidateCallback(t *testing.T) {
	const http = "/callback/http/"
	for name, c := range map[string]struct {
		timer         *timer.Timer
		code, pointer string // "" if nothing is refused
	}{
		"all":              {called(func(c *timer.Callback) { c.Method, c.Timeout, c.Retry.Attempts = "DELETE", time.Second, 1 }), "", ""},
		"method":           {called(func(c *timer.Callback) { c.Method = "post" }), "method-unknown", http + "method"},
		"method of a head": {called(func(c *timer.Callback) { c.Method = "GET / HTTP/1.1\r\nX: y" }), "method-unknown", http + "method"},
		"get":              {called(func(c *timer.Callback) { c.Method = "GET" }), "", ""},
		"get with opaque":  {called(func(c *timer.Callback) { c.Method, c.Opaque = "GET", "x" }), "opaque-of-get", http + "opaque"},
		"timeout short":    {called(func(c *timer.Callback) { c.Timeout = 99 * time.Millisecond }), "timeout-range", http + "timeout"},
		"timeout shortest": {called(func(c *timer.Callback) { c.Timeout = 100 * time.Millisecond }), "", ""},
		"timeout longest":  {called(func(c *timer.Callback) { c.Timeout = 30 * time.Second }), "", ""},
		"timeout long":     {called(func(c *timer.Callback) { c.Timeout = 30001 * time.Millisecond }), "timeout-range", http + "timeout"},
		"timeout negative": {called(func(c *timer.Callback) { c.Timeout = -1 }), "timeout-range", http + "timeout"},
		"attempts":         {called(func(c *timer.Callback) { c.Retry.Attempts = 101 }), "retry-range", http + "retry/attempts"},
		"attempts less":    {called(func(c *timer.Callback) { c.Retry.Attempts = -1 }), "retry-range", http + "retry/attempts"},
		"first":            {called(func(c *timer.Callback) { c.Retry.First = time.Hour + 1 }), "retry-range", http + "retry/first"},
		"factor less":      {called(func(c *timer.Callback) { c.Retry.Factor = 0.999 }), "retry-range", http + "retry/factor"},
		"factor":           {called(func(c *timer.Callback) { c.Retry.Factor = 10.001 }), "retry-range", http + "retry/factor"},
		"longest":          {called(func(c *timer.Callback) { c.Retry.Longest = 25 * time.Hour }), "retry-range", http + "retry/longest"},
		"expires":          {fine(func(x *timer.Timer) { x.ExpiresAfter = time.Second }), "", ""},
		"expires early":    {fine(func(x *timer.Timer) { x.ExpiresAfter = 999 * time.Millisecond }), "expires-range", "/timing/expires-after"},
		"expires late":     {fine(func(x *timer.Timer) { x.ExpiresAfter = timer.MaxInterval + 1 }), "expires-range", "/timing/expires-after"},
		"token":            {called(func(c *timer.Callback) { c.Headers = headers(t, "Authorization", "Bearer x") }), "", ""},
		"token and user": {called(func(c *timer.Callback) {
			c.URI, c.Headers = "http://u:p@h/", headers(t, "authorization", "Bearer x")
		}), "header-reserved", http + "headers/authorization"},
	} {
		t.Run(name, func(t *testing.T) { checkRefusal(t, c.timer.Validate(), c.code, c.pointer) })
	}
}

func TestHeaders(t *testing.T) {
	h := headers(t, "Content-Type", "application/json", "X-Empty", "", "x-odd!#$%&'*+.^_`|~", "a: b,\tc")
	var got []string
	for name, value := range h.All() {
		got = append(got, name, value)
	}
	want := []string{"Content-Type", "application/json", "X-Empty", "", "x-odd!#$%&'*+.^_`|~", "a: b,\tc"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("headers (-want +got):\n%s", diff)
	}
	if text := "\r\nContent-Type: application/json\r\nX-Empty: \r\nx-odd!#$%&'*+.^_`|~: a: b,\tc"; string(h) != text {
		t.Errorf("the text is %q, want %q", h, text)
	}
	if value, ok := h.Get("content-TYPE"); !ok || value != "application/json" {
		t.Errorf("Get: %q, %v", value, ok)
	}
	if _, ok := h.Get("X"); ok {
		t.Error("a header is there that was never added")
	}
}

func TestHeadersThatAreRefused(t *testing.T) {
	const all = "/callback/http/headers"
	long := strings.Repeat("n", 128)
	for _, c := range []struct{ name, value, code, pointer string }{
		{"", "x", "header-name", all},
		{long + "n", "x", "header-name", all},
		{"a b", "x", "header-name", all},
		{"a:", "x", "header-name", all},
		{"a\r\nb", "x", "header-name", all},
		{"é", "x", "header-name", all},
		{"a/b", "x", "header-name", all},
		{"X-A", "a\r\nHost: evil", "header-value", all + "/X-A"},
		{"X-A", "a\nb", "header-value", all + "/X-A"},
		{"X-A", "a\x00", "header-value", all + "/X-A"},
		{"X-A", "a\x7f", "header-value", all + "/X-A"},
		{"X-A", "é", "header-value", all + "/X-A"},
		{"X-A", " a", "header-value", all + "/X-A"},
		{"X-A", "a\t", "header-value", all + "/X-A"},
		{"X~A", strings.Repeat("v", 4097), "header-value", all + "/X~0A"},
		{"HOST", "x", "header-reserved", all + "/HOST"},
		{"Content-Length", "1", "header-reserved", all + "/Content-Length"},
		{"transfer-encoding", "chunked", "header-reserved", all + "/transfer-encoding"},
		{"Connection", "x", "header-reserved", all + "/Connection"},
		{"TE", "x", "header-reserved", all + "/TE"},
		{"Trailer", "x", "header-reserved", all + "/Trailer"},
		{"Upgrade", "x", "header-reserved", all + "/Upgrade"},
		{"Expect", "x", "header-reserved", all + "/Expect"},
		{"Webhook-Id", "x", "header-reserved", all + "/Webhook-Id"},
		{"x-chronos-timer", "x", "header-reserved", all + "/x-chronos-timer"},
		{"X-Sequence-Number", "x", "header-reserved", all + "/X-Sequence-Number"},
		{"Webhook_Id", "x", "header-reserved", all + "/Webhook_Id"},
		{"content_length", "0", "header-reserved", all + "/content_length"},
		{"Authorization", "***", "header-redacted", all + "/Authorization"},
		{"x-api-key", "***", "header-redacted", all + "/x-api-key"},
		{"x-seen", "1", "header-name", all},
	} {
		with, err := headers(t, "X-Seen", "1").With(c.name, c.value)
		if err == nil {
			t.Errorf("%q: %q is let pass as %q", c.name, c.value, with)
			continue
		}
		checkRefusal(t, err, c.code, c.pointer)
	}
	if _, err := timer.Headers("").With("X-Shown", "***"); err != nil {
		t.Errorf("*** of a header that is shown is refused: %v", err)
	}
}

func TestHeadersAreBounded(t *testing.T) {
	full := timer.Headers("")
	for i := range 32 {
		full += headers(t, fmt.Sprintf("X-%02d", i), "")
	}
	_, err := full.With("X-One-More", "")
	checkRefusal(t, err, "headers-long", "/callback/http/headers")
	value := strings.Repeat("v", 4<<10)
	long := headers(t, "A", value, "B", value, "C", value, "D", value[4:])
	_, err = long.With("E", "")
	checkRefusal(t, err, "headers-long", "/callback/http/headers")
}

func TestSecretsOfHeadersAreHidden(t *testing.T) {
	h := headers(t, "Authorization", "s3cret", "proxy-authorization", "s3cret", "Cookie", "s3cret", "X-Auth-Token", "s3cret", "x-api-key", "s3cret",
		"Client-SECRET", "s3cret", "X_Api_Key", "s3cret", "Content-Type", "text/html", "Token", "shown", "X-Keys", "shown")
	want := timer.Headers("")
	for name, value := range h.All() {
		if value == "s3cret" {
			value = timer.RedactedValue
		}
		want += timer.Headers("\r\n" + name + ": " + value)
	}
	if got := h.Redacted(); got != want {
		t.Errorf("shown %q, want %q", got, want)
	}
}

func TestPausesOfRetries(t *testing.T) {
	for name, c := range map[string]struct {
		retry timer.Retry
		want  map[int]time.Duration
	}{
		"default":             {timer.Retry{}, map[int]time.Duration{0: time.Second, 1: time.Second, 2: 2 * time.Second, 6: 32 * time.Second, 7: time.Minute, 999: time.Minute}},
		"own":                 {timer.Retry{First: 100 * time.Millisecond, Factor: 1.5, Longest: 200 * time.Millisecond}, map[int]time.Duration{1: 100 * time.Millisecond, 2: 150 * time.Millisecond, 3: 200 * time.Millisecond, 999: 200 * time.Millisecond}},
		"level":               {timer.Retry{First: time.Second, Factor: 1}, map[int]time.Duration{1: time.Second, 999: time.Second}},
		"first over a minute": {timer.Retry{First: time.Hour}, map[int]time.Duration{1: time.Hour, 999: time.Hour}},
		"longest below first": {timer.Retry{First: time.Hour, Longest: time.Second}, map[int]time.Duration{1: time.Second}},
		"steepest":            {timer.Retry{First: time.Hour, Factor: 10, Longest: 24 * time.Hour}, map[int]time.Duration{2: 10 * time.Hour, 3: 24 * time.Hour, 100: 24 * time.Hour}},
	} {
		for attempt, want := range c.want {
			if got := c.retry.Pause(attempt); got != want {
				t.Errorf("%s: %v after attempt %d, want %v", name, got, attempt, want)
			}
		}
	}
}

// FuzzHeaders: headers that are let pass are one line each, and what was put in comes out.
func FuzzHeaders(f *testing.F) {
	f.Add("X-A", "b", "X-C", "d: e")
	f.Add("X-A", "b\r\nX: c", "X-a", "")
	f.Fuzz(func(t *testing.T, name1, value1, name2, value2 string) {
		h, err := timer.Headers("").With(name1, value1)
		if err != nil {
			return
		}
		h, err = h.With(name2, value2)
		if err != nil {
			return
		}
		var got []string
		for name, value := range h.All() {
			got = append(got, name, value)
		}
		if diff := cmp.Diff([]string{name1, value1, name2, value2}, got); diff != "" || strings.Count(string(h), "\n") != 2 || strings.Count(string(h), "\r") != 2 {
			t.Errorf("%q (-want +got):\n%s", h, diff)
		}
	})
}
