package api

import (
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"chronos/api/apitest"
	"chronos/api/tokens"
	"chronos/scheduler/resync"
)

// Monitoring made for the Timer Service API asks for /ping, and has no token.
func TestPing(t *testing.T) {
	open := New(Config{Timers: &fakeTimers{}})
	guarded, _ := guarded(t, &fakeTimers{})
	for name, s := range map[string]*Server{"open": open, "with tokens": guarded} {
		if got := ask(t, s, "GET", "/ping", ""); got.Status != http.StatusOK || string(got.Body) != "OK" {
			t.Errorf("%s: have %d %q, want 200 OK", name, got.Status, got.Body)
		}
		if got := ask(t, s, "HEAD", "/ping", ""); got.Status != http.StatusOK || len(got.Body) != 0 {
			t.Errorf("%s: HEAD: have %d %q", name, got.Status, got.Body)
		}
	}
	got := ask(t, open, "POST", "/ping", "")
	apitest.WantProblem(t, got, http.StatusMethodNotAllowed, "method-not-allowed", apitest.NoPointer)
	if allow := got.Header.Get("Allow"); allow != "GET, HEAD" {
		t.Errorf("Allow %q", allow)
	}
	apitest.WantProblem(t, ask(t, open, "GET", "/ping/", ""), http.StatusNotFound, "path-unknown", apitest.NoPointer)
}

// Clients of the Timer Service API may ask for /timers/ when they mean /timers.
func TestTrailingSlash(t *testing.T) {
	timers := &fakeTimers{}
	s := New(Config{Timers: timers})
	got := ask(t, s, "POST", "/timers/", apitest.Simple)
	if receipt := apitest.Parse[receiptView](t, got.Body); got.Status != http.StatusOK || got.Header.Get("Location") != "/timers/"+receipt.ID {
		t.Errorf("POST: have %d %s", got.Status, got.Body)
	}
	for _, method := range []string{"PUT", "DELETE", "PATCH"} {
		with, without := ask(t, s, method, "/timers/", apitest.Simple), ask(t, s, method, "/timers", apitest.Simple)
		apitest.WantProblem(t, with, http.StatusMethodNotAllowed, "method-not-allowed", apitest.NoPointer)
		if with.Header.Get("Allow") != without.Header.Get("Allow") || with.Header.Get("Allow") == "" {
			t.Errorf("%s: Allow %q, without the slash %q", method, with.Header.Get("Allow"), without.Header.Get("Allow"))
		}
	}
}

// The Timer Service API takes a semicolon for an ampersand; an escaped semicolon belongs to a
// value.
func TestSemicolonsBetweenParameters(t *testing.T) {
	timers := &fakeTimers{}
	s, byRole := guarded(t, timers)
	token := "Bearer " + byRole[tokens.Admin]
	for _, query := range []string{
		"node-for-replicas=b;cluster-view-id=v;time-from=2000", "node-for-replicas=b&cluster-view-id=v;time-from=2000", ";node-for-replicas=b;;cluster-view-id=v&time-from=2000;",
	} {
		timers.query = resync.Query{}
		if got := ask(t, s, "GET", "/timers?"+query, "", "Authorization", token); got.Status != http.StatusOK || timers.query.Shard != "b" || timers.query.View != "v" || timers.query.After.At.UnixMicro() != 2000 {
			t.Errorf("%s: have %d, asked for %+v", query, got.Status, timers.query)
		}
	}
	if got := ask(t, s, "GET", "/timers?node-for-replicas=b%3bc&cluster-view-id=v", "", "Authorization", token); got.Status != http.StatusOK || timers.query.Shard != "b;c" {
		t.Errorf("have %d, asked for %q", got.Status, timers.query.Shard)
	}
}

// An id in the style of the reference says how many copies its timer has.
func TestIDsOfTheReference(t *testing.T) {
	timers := &fakeTimers{}
	s := New(Config{Timers: timers})
	const id = "00a5c3d200000001-3"
	body := `{"timing":{"interval":30},"callback":{"http":{"uri":"http://127.0.0.1:9/cb","opaque":"o"}},"reliability":{"replication-factor":3}}`
	for _, b := range []string{apitest.Simple, body} {
		receipt := apitest.Parse[receiptView](t, ask(t, s, "PUT", "/timers/"+id, b).Body)
		if receipt.Key != id || receipt.ID != id+"-3-0000000000008421" {
			t.Errorf("have %+v", receipt)
		}
	}
	if stored, _ := timers.get(id); stored.Record.Timer.ReplicationFactor != 3 {
		t.Errorf("%d copies were asked for, want 3", stored.Record.Timer.ReplicationFactor)
	}
	other := `{"timing":{"interval":30},"callback":{"http":{"uri":"http://127.0.0.1:9/cb"}},"reliability":{"replication-factor":2}}`
	apitest.WantProblem(t, ask(t, s, "PUT", "/timers/"+id, other), 400, "replication-factor-changed", "/reliability/replication-factor")
	for _, spelled := range []string{id, id + "-3-0000000000008421"} {
		if got := ask(t, s, "GET", "/timers/"+spelled, ""); got.Status != http.StatusOK {
			t.Errorf("GET %s: have %d", spelled, got.Status)
		}
	}
	if diff := cmp.Diff(http.StatusCreated, ask(t, s, "DELETE", "/timers/"+id, "").Status); diff != "" {
		t.Error(diff)
	}
}
