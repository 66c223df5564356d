package api

import (
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
	apitest.WantProblem(t, ask(t, s, "POST", "/timers", back), 400, "uri-redacted", "/callback/http/uri")
	results := apitest.Parse[batchView](t, ask(t, s, "POST", "/timers/batch", apitest.ListOf(apitest.Simple, back)).Body).Results
	if e := results[1].Error; results[0].Error != nil || e == nil || e.Code != "uri-redacted" || e.Pointer == nil || *e.Pointer != "/timers/1/callback/http/uri" {
		t.Errorf("results of the batch: %+v", results)
	}
	if stored, _ := timers.get("k"); stored.Record.Timer.Callback.URI != uri {
		t.Errorf("stored %q, want %q", stored.Record.Timer.Callback.URI, uri)
	}
}
