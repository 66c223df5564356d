package api

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"chronos/api/apitest"
	"chronos/api/wire"
	"chronos/scheduler/resync"
	"chronos/scheduler/store"
	"chronos/scheduler/timer"
)

// User and password of a callback URI are shown to nobody; the timer keeps both.
func TestAnswersHideUserAndPassword(t *testing.T) {
	const uri, shown = "http://u:s3cret@h/x?to=a@b", "http://***@h/x?to=a@b"
	timers := &fakeTimers{}
	s := New(Config{Timers: timers})
	body := strings.Replace(apitest.Simple, "http://127.0.0.1:9/cb", uri, 1)
	for _, request := range [][2]string{{"POST", "/timers"}, {"PUT", "/timers/k"}} {
		if got := ask(t, s, request[0], request[1], body); got.Status != http.StatusOK || strings.Contains(string(got.Body), "s3cret") {
			t.Errorf("%v: have %d %s", request, got.Status, got.Body)
		}
	}
	if stored, _ := timers.get("k"); stored.Record.Timer.Callback.URI != uri {
		t.Errorf("stored %q, want %q", stored.Record.Timer.Callback.URI, uri)
	}
	got := ask(t, s, "GET", "/timers/k", "")
	if !strings.Contains(string(got.Body), `"uri":"`+shown+`"`) || strings.Contains(string(got.Body), "s3cret") {
		t.Errorf("GET shows %s", got.Body)
	}
	record := store.Record{
		ID: timer.ID{Key: "tea", RF: 2}, State: timer.State{Version: 1, Seq: 1}, Start: fakeEpoch(),
		Timer: timer.Timer{ReplicationFactor: 2, Callback: timer.Callback{URI: uri}},
	}
	page := resync.Page{View: "v", Timers: []resync.Entry{{ReadResult: store.ReadResult{Record: record, Due: fakeEpoch()}, Replicas: []string{"a"}, Former: []string{"a"}}}}
	list, err := wire.RenderResync(&page)
	if err != nil || !strings.Contains(string(list), `"uri":"`+shown+`"`) || strings.Contains(string(list), "s3cret") {
		t.Errorf("the resynchronisation shows %s, %v", list, err)
	}
}

// Values of headers that are secrets are shown to nobody, and the *** in their place is not stored.
func TestAnswersHideSecretHeaders(t *testing.T) {
	timers := &fakeTimers{}
	s := New(Config{Timers: timers})
	body := strings.Replace(apitest.Simple, `"uri":`, `"headers":{"X-Shown":"as it is","Authorization":"Bearer s3cret"},"method":"PUT","uri":`, 1)
	for _, request := range [][2]string{{"POST", "/timers"}, {"PUT", "/timers/k"}} {
		if got := ask(t, s, request[0], request[1], body); got.Status != http.StatusOK || strings.Contains(string(got.Body), "s3cret") {
			t.Errorf("%v: have %d %s", request, got.Status, got.Body)
		}
	}
	stored, _ := timers.get("k")
	if want := timer.Headers("\r\nX-Shown: as it is\r\nAuthorization: Bearer s3cret"); stored.Record.Timer.Callback.Headers != want {
		t.Errorf("stored %q, want %q", stored.Record.Timer.Callback.Headers, want)
	}
	const shown = `"method":"PUT","headers":{"X-Shown":"as it is","Authorization":"***"}`
	found := string(ask(t, s, "GET", "/timers/k", "").Body)
	page := resync.Page{View: "v", Timers: []resync.Entry{{ReadResult: stored, Replicas: []string{"a"}, Former: []string{"a"}}}}
	list, err := wire.RenderResync(&page)
	if err != nil {
		t.Fatal(err)
	}
	letter := wire.ViewWholeLetter(&store.Letter{Record: stored.Record})
	whole, err := json.Marshal(letter)
	if err != nil {
		t.Fatal(err)
	}
	for what, text := range map[string]string{"GET": found, "the resynchronisation": string(list), "a dead letter": string(whole)} {
		if !strings.Contains(text, shown) || strings.Contains(text, "s3cret") {
			t.Errorf("%s shows %s", what, text)
		}
	}
	for text, want := range map[string]string{
		`2L x {"uri":"http://u:s3cret@h/","headers":{"x-api-key":"s3cret \" s3cret","Cookie":"s3cret`: `2L x {"uri":"http://***@h/","headers":{"x-api-key":"***","Cookie":"***`,
		`2L x {"headers": {"X-Api\u002dKey" : "s3cret"}, "method":"PUT"}`:                             `2L x {"headers": {"X-Api\u002dKey" : "***"}, "method":"***"}`,
	} {
		if shown := wire.ViewWholeLetter(&store.Letter{Err: timer.ErrNotFound, Text: text}).Text; shown != want {
			t.Errorf("a letter that can't be read shows %s, want %s", shown, want)
		}
	}
	back := strings.Replace(body, "Bearer s3cret", "***", 1)
	for _, method := range []string{"PUT", "PATCH"} {
		apitest.WantProblem(t, ask(t, s, method, "/timers/k", back), 400, "header-redacted", "/callback/http/headers/Authorization")
	}
}

// A client that reads a timer and writes the timer back must not store the *** in place of the
// password.
func TestHiddenUserAndPasswordAreNotStored(t *testing.T) {
	timers := &fakeTimers{}
	s := New(Config{Timers: timers})
	const uri = "http://u:s3cret@h/x"
	if got := ask(t, s, "PUT", "/timers/k", strings.Replace(apitest.Simple, "http://127.0.0.1:9/cb", uri, 1)); got.Status != http.StatusOK {
		t.Fatalf("have %d %s", got.Status, got.Body)
	}
	back := strings.Replace(apitest.Simple, "http://127.0.0.1:9/cb", "http://***@h/x", 1)
	apitest.WantProblem(t, ask(t, s, "PUT", "/timers/k", back), 400, "uri-redacted", "/callback/http/uri")
	apitest.WantProblem(t, ask(t, s, "PATCH", "/timers/k", back), 400, "uri-redacted", "/callback/http/uri")
	apitest.WantProblem(t, ask(t, s, "POST", "/timers", back), 400, "uri-redacted", "/callback/http/uri")
	results := apitest.Parse[batchView](t, ask(t, s, "POST", "/timers/batch", apitest.ListOf(apitest.Simple, back)).Body).Results
	if e := results[1].Error; results[0].Error != nil || e == nil || e.Code != "uri-redacted" || e.Pointer == nil || *e.Pointer != "/timers/1/callback/http/uri" {
		t.Errorf("results of the batch: %+v", results)
	}
	if stored, _ := timers.get("k"); stored.Record.Timer.Callback.URI != uri {
		t.Errorf("stored %q, want %q", stored.Record.Timer.Callback.URI, uri)
	}
}
