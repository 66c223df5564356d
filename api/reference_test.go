package api

import (
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"chronos/api/tokens"
	"chronos/scheduler/resync"
)

// Monitoring made for the Timer Service API asks for /ping, and has no token.
func TestPing(t *testing.T) {
	open := New(Config{Timers: &fakeTimers{}})
	guarded, _ := guarded(t, &fakeTimers{})
	for name, s := range map[string]*Server{"open": open, "with tokens": guarded} {
		if got := ask(t, s, "GET", "/ping", ""); got.status != http.StatusOK || string(got.body) != "OK" {
			t.Errorf("%s: have %d %q, want 200 OK", name, got.status, got.body)
		}
		if got := ask(t, s, "HEAD", "/ping", ""); got.status != http.StatusOK || len(got.body) != 0 {
			t.Errorf("%s: HEAD: have %d %q", name, got.status, got.body)
		}
	}
	got := ask(t, open, "POST", "/ping", "")
	wantProblem(t, got, http.StatusMethodNotAllowed, "method-not-allowed", noPointer)
	if allow := got.header.Get("Allow"); allow != "GET, HEAD" {
		t.Errorf("Allow %q", allow)
	}
	wantProblem(t, ask(t, open, "GET", "/ping/", ""), http.StatusNotFound, "path-unknown", noPointer)
}

// Clients of the Timer Service API may ask for /timers/ when they mean /timers.
func TestTrailingSlash(t *testing.T) {
	timers := &fakeTimers{}
	s := New(Config{Timers: timers})
	got := ask(t, s, "POST", "/timers/", simple)
	if receipt := parse[receiptView](t, got.body); got.status != http.StatusOK || got.header.Get("Location") != "/timers/"+receipt.ID {
		t.Errorf("POST: have %d %s", got.status, got.body)
	}
	for _, method := range []string{"PUT", "DELETE", "PATCH"} {
		with, without := ask(t, s, method, "/timers/", simple), ask(t, s, method, "/timers", simple)
		wantProblem(t, with, http.StatusMethodNotAllowed, "method-not-allowed", noPointer)
		if with.header.Get("Allow") != without.header.Get("Allow") || with.header.Get("Allow") == "" {
			t.Errorf("%s: Allow %q, without the slash %q", method, with.header.Get("Allow"), without.header.Get("Allow"))
		}
	}
}

// The Timer Service API takes a semicolon for an ampersand; an escaped one
// belongs to a value.
func TestSemicolonsBetweenParameters(t *testing.T) {
	timers := &fakeTimers{}
	s, byRole := guarded(t, timers)
	token := "Bearer " + byRole[tokens.Admin]
	for _, query := range []string{
		"node-for-replicas=b;cluster-view-id=v;time-from=2000", "node-for-replicas=b&cluster-view-id=v;time-from=2000", ";node-for-replicas=b;;cluster-view-id=v&time-from=2000;",
	} {
		timers.query = resync.Query{}
		if got := ask(t, s, "GET", "/timers?"+query, "", "Authorization", token); got.status != http.StatusOK || timers.query.Shard != "b" || timers.query.View != "v" || timers.query.After.At.UnixMicro() != 2000 {
			t.Errorf("%s: have %d, asked for %+v", query, got.status, timers.query)
		}
	}
	if got := ask(t, s, "GET", "/timers?node-for-replicas=b%3bc&cluster-view-id=v", "", "Authorization", token); got.status != http.StatusOK || timers.query.Shard != "b;c" {
		t.Errorf("have %d, asked for %q", got.status, timers.query.Shard)
	}
}

// An id as the reference makes it says how many copies its timer has.
func TestIDsOfTheReference(t *testing.T) {
	timers := &fakeTimers{}
	s := New(Config{Timers: timers})
	const id = "00a5c3d200000001-3"
	body := `{"timing":{"interval":30},"callback":{"http":{"uri":"http://127.0.0.1:9/cb","opaque":"o"}},"reliability":{"replication-factor":3}}`
	for _, b := range []string{simple, body} {
		receipt := parse[receiptView](t, ask(t, s, "PUT", "/timers/"+id, b).body)
		if receipt.Key != id || receipt.ID != id+"-3-0000000000008421" {
			t.Errorf("have %+v", receipt)
		}
	}
	if stored, _ := timers.get(id); stored.Record.Timer.ReplicationFactor != 3 {
		t.Errorf("%d copies were asked for, want 3", stored.Record.Timer.ReplicationFactor)
	}
	other := `{"timing":{"interval":30},"callback":{"http":{"uri":"http://127.0.0.1:9/cb"}},"reliability":{"replication-factor":2}}`
	wantProblem(t, ask(t, s, "PUT", "/timers/"+id, other), 400, "replication-factor-changed", "/reliability/replication-factor")
	for _, spelled := range []string{id, id + "-3-0000000000008421"} {
		if got := ask(t, s, "GET", "/timers/"+spelled, ""); got.status != http.StatusOK {
			t.Errorf("GET %s: have %d", spelled, got.status)
		}
	}
	if diff := cmp.Diff(http.StatusCreated, ask(t, s, "DELETE", "/timers/"+id, "").status); diff != "" {
		t.Error(diff)
	}
}
