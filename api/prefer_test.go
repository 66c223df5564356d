package api

import (
	"net/http"
	"strings"
	"testing"

	"chronos/api/apitest"
	"chronos/api/wire"
)

func TestUnknownMembersAreRefusedOnRequest(t *testing.T) {
	body := strings.Replace(apitest.Simple, `{`, `{"color":1,`, 1)
	nested := strings.Replace(apitest.Simple, `"uri":`, `"head/ers":{},"uri":`, 1)
	for _, c := range []struct {
		configured wire.Handling
		prefer     []string
		applied    string
		strict     bool
	}{
		{wire.Lenient, nil, "", false},
		{wire.Strict, nil, "", true},
		{wire.Lenient, []string{"handling=strict"}, "handling=strict", true},
		{wire.Lenient, []string{`respond-async, Handling = "strict";x=y`}, "handling=strict", true},
		{wire.Lenient, []string{"wait=5", "handling=strict"}, "handling=strict", true},
		{wire.Strict, []string{"handling=lenient"}, "handling=lenient", false},
		{wire.Strict, []string{"handling=lenient, handling=strict"}, "handling=lenient", false},
		{wire.Lenient, []string{"handling"}, "", false},
		{wire.Strict, []string{"handling=loose"}, "", true},
		{wire.Lenient, []string{"handlings=strict"}, "", false},
		{wire.Lenient, []string{`foo="a, handling=strict"`}, "", false},
		{wire.Lenient, []string{`foo="a\", b", handling=strict`}, "handling=strict", true},
	} {
		timers := known(t, "k2", "other2")
		s := New(Config{Timers: timers, Unknown: c.configured})
		var headers []string
		for _, line := range c.prefer {
			headers = append(headers, "Prefer", line)
		}
		for _, request := range [][2]string{{"POST", "/timers"}, {"PUT", "/timers/k"}, {"PATCH", "/timers/k2"}} {
			got := ask(t, s, request[0], request[1], body, headers...)
			known := ask(t, s, request[0], strings.Replace(request[1], "/k", "/other", 1), apitest.Simple, headers...)
			if applied := known.Header.Get("Preference-Applied"); known.Status != http.StatusOK || applied != c.applied {
				t.Errorf("%v with %q: %d, applied %q, want %q", request, c.prefer, known.Status, applied, c.applied)
			}
			if !c.strict {
				if got.Status != http.StatusOK || !strings.Contains(string(got.Body), `"ignored":["/color"]`) {
					t.Errorf("%v with %q: have %d %s", request, c.prefer, got.Status, got.Body)
				}
				continue
			}
			apitest.WantProblem(t, got, 400, "member-unknown", "/color")
			apitest.WantProblem(t, ask(t, s, request[0], request[1], nested, headers...), 400, "member-unknown", "/callback/http/head~1ers")
		}
		if _, stored := timers.get("k"); stored == c.strict {
			t.Errorf("with %q: stored %v", c.prefer, stored)
		}
		batch := apitest.Parse[batchView](t, ask(t, s, "POST", "/timers/batch", apitest.ListOf(apitest.Simple, body), headers...).Body)
		if e := batch.Results[1].Error; (e != nil) != c.strict || batch.Results[0].Error != nil || e != nil && (e.Code != "member-unknown" || *e.Pointer != "/timers/1/color") {
			t.Errorf("batch with %q: %+v", c.prefer, batch.Results)
		}
	}
}

// A timer that was read is written back, changed or not, with strict handling too.
func TestStrictHandlingTakesATimerBack(t *testing.T) {
	timers := &fakeTimers{}
	s := New(Config{Timers: timers, Unknown: wire.Strict})
	body := strings.Replace(apitest.Simple, `"uri":`, `"method":"PUT","headers":{"X-A":"b"},"timeout":3,"retry":{"attempts":2,"factor":1.5},"uri":`, 1)
	if got := ask(t, s, "PUT", "/timers/k", body); got.Status != http.StatusOK {
		t.Fatalf("have %d %s", got.Status, got.Body)
	}
	before, _ := timers.get("k")
	read := ask(t, s, "GET", "/timers/k", "")
	if got := ask(t, s, "PUT", "/timers/k", string(read.Body)); got.Status != http.StatusOK {
		t.Errorf("%s is refused: %d %s", read.Body, got.Status, got.Body)
	}
	after, _ := timers.get("k")
	if before.Record.Timer.Callback != after.Record.Timer.Callback {
		t.Errorf("the callback was %+v, and is %+v", before.Record.Timer.Callback, after.Record.Timer.Callback)
	}
}
