package api

import (
	"net/http"
	"strings"
	"testing"

	"chronos/api/apitest"
)

// Editors and some clients put a byte order mark before a text.
func TestByteOrderMarkIsSkipped(t *testing.T) {
	const mark = "\uFEFF"
	timers := &fakeTimers{}
	s := New(Config{Timers: timers})
	for name, got := range map[string]apitest.Answer{
		"create":  ask(t, s, "POST", "/timers", mark+apitest.Simple),
		"replace": ask(t, s, "PUT", "/timers/k", mark+" "+apitest.Simple),
		"change":  ask(t, s, "PATCH", "/timers/k", mark+"\n"+apitest.Simple),
		"batch":   ask(t, s, "POST", "/timers/batch", mark+apitest.ListOf(apitest.Simple)),
	} {
		if got.Status/100 != 2 {
			t.Errorf("%s: have %d %s", name, got.Status, got.Body)
		}
	}
	if stored, ok := timers.get("k"); !ok || stored.Record.Timer.Callback.URI != "http://127.0.0.1:9/cb" {
		t.Errorf("stored %+v", stored.Record.Timer)
	}
	apitest.WantProblem(t, ask(t, s, "POST", "/timers", mark), 400, "body-missing", "")
	apitest.WantProblem(t, ask(t, s, "POST", "/timers", mark+mark+apitest.Simple), 400, "body-not-object", "")
	apitest.WantProblem(t, ask(t, s, "POST", "/timers", strings.Replace(apitest.Simple, ":", ":"+mark, 1)), 400, "body-syntax", "")
}

func TestEncodedBodiesAreRefused(t *testing.T) {
	timers := known(t, "known")
	s := New(Config{Timers: timers})
	for _, request := range [][3]string{
		{"POST", "/timers", apitest.Simple}, {"PUT", "/timers/k", apitest.Simple}, {"PATCH", "/timers/known", apitest.Simple}, {"POST", "/timers/batch", apitest.ListOf(apitest.Simple)},
	} {
		for _, encoding := range []string{"gzip", "br", "identity, gzip", "gzip, identity", "x"} {
			for _, body := range []string{request[2], "\x1f\x8b\x08 no JSON"} { // the server doesn't look at the body
				got := ask(t, s, request[0], request[1], body, "Content-Encoding", encoding)
				apitest.WantProblem(t, got, http.StatusUnsupportedMediaType, "content-encoding", apitest.NoPointer)
				if accepted := got.Header.Get("Accept-Encoding"); accepted != "identity" {
					t.Errorf("%s %s: Accept-Encoding %q, want identity", request[0], request[1], accepted)
				}
			}
		}
		for _, encoding := range []string{"identity", "Identity", " identity, identity", ","} {
			if got := ask(t, s, request[0], request[1], request[2], "Content-Encoding", encoding); got.Status/100 != 2 {
				t.Errorf("%s %s with Content-Encoding %s: have %d %s", request[0], request[1], encoding, got.Status, got.Body)
			}
		}
	}
	c := apitest.Dial(t, apitest.Serve(t, s))
	got, _ := apitest.Send(t, c, apitest.WithLength("PUT /timers/twice HTTP/1.1\r\nHost: h\r\nContent-Encoding: identity\r\nContent-Encoding: gzip\r\n"))
	apitest.WantProblem(t, got, http.StatusUnsupportedMediaType, "content-encoding", apitest.NoPointer)
	if _, stored := timers.get("twice"); stored {
		t.Error("a timer was made of a body that may be compressed")
	}
}
