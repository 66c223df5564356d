package api

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"chronos/api/apitest"
	"chronos/api/tokens"
	"chronos/scheduler/deliveries"
	"chronos/scheduler/store"
	"chronos/scheduler/timer"
)

// fakeDeliveries notes the queries.
type fakeDeliveries struct {
	page  deliveries.Page
	err   error
	id    timer.ID
	query deliveries.Query
	asked []string
}

var _ Deliveries = (*fakeDeliveries)(nil)

func (f *fakeDeliveries) Of(_ context.Context, id timer.ID, q deliveries.Query) (deliveries.Page, error) {
	f.asked, f.id, f.query = append(f.asked, "of"), id, q
	return f.page, f.err
}

func (f *fakeDeliveries) All(_ context.Context, q deliveries.Query) (deliveries.Page, error) {
	f.asked, f.query = append(f.asked, "all"), q
	return f.page, f.err
}

func (f *fakeDeliveries) Last(_ context.Context, id timer.ID) (deliveries.Attempt, bool) {
	f.asked, f.id = append(f.asked, "last"), id
	if len(f.page.Attempts) == 0 {
		return deliveries.Attempt{}, false
	}
	return f.page.Attempts[0], true
}

func someDeliveries() deliveries.Page {
	at := fakeEpoch()
	return deliveries.Page{
		Attempts: []deliveries.Attempt{
			{At: at, Shard: "a", Attempt: store.Attempt{
				Key: "k", State: timer.State{Version: 0x123, Seq: 2, Attempt: 1}, Node: "n1", Due: at.Add(-time.Second), Started: at.Add(-20 * time.Millisecond),
				Took: 12 * time.Millisecond, OK: true, Result: "status 204", Destination: "https://h:443",
			}},
			{At: at, Shard: "b", Attempt: store.Attempt{
				Key: "k", State: timer.State{Version: 0x123, Seq: 1, Attempt: 0}, Node: "n2", Due: at, Started: at, Result: "<expired> & more",
			}},
		},
		Next: "next", Unreached: []string{"c"}, Unreadable: 3,
	}
}

const shownDeliveries = `{"deliveries":[` +
	`{"at":"2030-01-31T12:00:00.000Z","key":"k","webhook-id":"k.0000000000000123.2","sequence":2,"attempt":1,"due":"2030-01-31T11:59:59.000Z","started":"2030-01-31T11:59:59.980Z","took":0.012,"ok":true,"result":"status 204","destination":"https://h:443","node":"n1","shard":"a"},` +
	`{"at":"2030-01-31T12:00:00.000Z","key":"k","webhook-id":"k.0000000000000123.1","sequence":1,"attempt":0,"due":"2030-01-31T12:00:00.000Z","started":"2030-01-31T12:00:00.000Z","took":0,"ok":false,"result":"<expired> & more","node":"n2","shard":"b"}],` +
	`"next":"next","unreached":["c"],"unreadable":3}`

func TestDeliveriesOfATimer(t *testing.T) {
	log := &fakeDeliveries{page: someDeliveries()}
	s := New(Config{Timers: &fakeTimers{}, Deliveries: log})
	got := ask(t, s, "GET", "/timers/k-2-0000000000008421/deliveries?limit=7&cursor=x", "")
	if got.Status != http.StatusOK || got.Header.Get("Content-Type") != "application/json" {
		t.Errorf("have %d %v", got.Status, got.Header)
	}
	if diff := cmp.Diff(shownDeliveries, string(got.Body)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if want := (deliveries.Query{Limit: 7, Cursor: "x"}); log.query != want || log.id != (timer.ID{Key: "k", RF: 2, Hint: 0x8421}) {
		t.Errorf("asked %+v of %+v", log.query, log.id)
	}
	if got := ask(t, s, "HEAD", "/timers/k/deliveries", ""); got.Status != http.StatusOK || len(got.Body) != 0 || log.query.Limit != 100 {
		t.Errorf("HEAD: %d %s, %+v", got.Status, got.Body, log.query)
	}
}

// Neither an attempt nor the timer is known: only then the answer is 404.
func TestDeliveriesOfATimerWithoutAttempts(t *testing.T) {
	log := &fakeDeliveries{}
	s := New(Config{Timers: &fakeTimers{}, Deliveries: log})
	apitest.WantProblem(t, ask(t, s, "GET", "/timers/k/deliveries", ""), http.StatusNotFound, "timer-not-found", apitest.NoPointer)
	if got := ask(t, s, "GET", "/timers/k/deliveries?cursor=x", ""); got.Status != http.StatusOK || string(got.Body) != `{"deliveries":[]}` {
		t.Errorf("a last page: %d %s", got.Status, got.Body)
	}
	if got := ask(t, s, "PUT", "/timers/k", apitest.Simple); got.Status != http.StatusOK {
		t.Fatalf("have %d %s", got.Status, got.Body)
	}
	if got := ask(t, s, "GET", "/timers/k/deliveries", ""); got.Status != http.StatusOK || string(got.Body) != `{"deliveries":[]}` {
		t.Errorf("a timer without attempts: %d %s", got.Status, got.Body)
	}
}

func TestDeliveriesThatAreRefused(t *testing.T) {
	for query, code := range map[string]string{
		"limit=0": "query-malformed", "limit=1001": "query-malformed", "limit=x": "query-malformed", "limit=": "query-malformed", "limit=1&limit=2": "query-malformed",
		"cursor=": "query-malformed", "curser=x": "query-malformed", "limit=%zz": "query-malformed",
	} {
		log := &fakeDeliveries{}
		s := New(Config{Timers: &fakeTimers{}, Deliveries: log})
		apitest.WantProblem(t, ask(t, s, "GET", "/timers/k/deliveries?"+query, ""), http.StatusBadRequest, code, apitest.NoPointer)
		admin := NewAdmin(AdminConfig{Deliveries: log, Authorizer: anyone{}})
		apitest.WantProblem(t, askAdmin(t, admin, "GET", "/deliveries?"+query, ""), http.StatusBadRequest, code, apitest.NoPointer)
		if len(log.asked) != 0 {
			t.Errorf("%s: the log was asked", query)
		}
	}
	for query := range map[string]bool{"result=ok": true, "since=1h": true, "destination=h": true} {
		s := New(Config{Timers: &fakeTimers{}, Deliveries: &fakeDeliveries{}})
		apitest.WantProblem(t, ask(t, s, "GET", "/timers/k/deliveries?"+query, ""), http.StatusBadRequest, "query-malformed", apitest.NoPointer)
	}
	for _, since := range []string{"yesterday", "2030", "-1h", "1", "2030-01-31"} {
		got := askAdmin(t, NewAdmin(AdminConfig{Deliveries: &fakeDeliveries{}, Authorizer: anyone{}}), "GET", "/deliveries?since="+since, "")
		apitest.WantProblem(t, got, http.StatusBadRequest, "query-malformed", apitest.NoPointer)
	}
	for code, want := range map[string]struct {
		err    error
		status int
	}{
		"cursor-malformed": {store.ErrCursor, 400}, "cursor-stale": {deliveries.ErrStale, 400}, "deliveries-off": {deliveries.ErrOff, 404},
		"overloaded": {timer.ErrOverloaded, 503}, "store-unavailable": {timer.ErrUnavailable, 503},
	} {
		log := &fakeDeliveries{err: want.err}
		apitest.WantProblem(t, ask(t, New(Config{Timers: &fakeTimers{}, Deliveries: log}), "GET", "/timers/k/deliveries", ""), want.status, code, apitest.NoPointer)
		apitest.WantProblem(t, askAdmin(t, NewAdmin(AdminConfig{Deliveries: log, Authorizer: anyone{}}), "GET", "/deliveries", ""), want.status, code, apitest.NoPointer)
	}
	s := New(Config{Timers: &fakeTimers{}, Deliveries: &fakeDeliveries{}})
	for _, path := range []string{"/timers//deliveries", "/timers/a/b/deliveries", "/timers/k/deliveries/", "/timers/k/deliverie"} {
		if got := ask(t, s, "GET", path, ""); got.Status != http.StatusNotFound || strings.Contains(string(got.Body), "timer-not-found") {
			t.Errorf("%s: %d %s", path, got.Status, got.Body)
		}
	}
	if got := ask(t, s, "DELETE", "/timers/k/deliveries", ""); got.Status != http.StatusMethodNotAllowed || got.Header.Get("Allow") != "GET, HEAD" {
		t.Errorf("DELETE: %d %v", got.Status, got.Header)
	}
	if got := ask(t, s, "GET", "/timers/-1/deliveries", ""); got.Status == http.StatusInternalServerError {
		t.Errorf("an odd id: %d %s", got.Status, got.Body)
	}
}

func TestDeliveriesOfAll(t *testing.T) {
	log := &fakeDeliveries{page: someDeliveries()}
	admin := NewAdmin(AdminConfig{Deliveries: log, Authorizer: anyone{}})
	got := askAdmin(t, admin, "GET", "/deliveries?destination=h%3A1&result=no+answer&limit=1000&cursor=x&since=2030-01-31T12:00:00Z", "")
	if got.Status != http.StatusOK || got.Header.Get("Content-Type") != "application/json" || got.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("have %d %v", got.Status, got.Header)
	}
	if diff := cmp.Diff(shownDeliveries+"\n", string(got.Body)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	want := deliveries.Query{Destination: "h:1", Result: "no answer", Limit: 1000, Cursor: "x", Since: fakeEpoch()}
	if diff := cmp.Diff(want, log.query, cmp.Comparer(time.Time.Equal)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	before := time.Now()
	askAdmin(t, admin, "GET", "/deliveries?since=90m", "")
	if ago := before.Sub(log.query.Since); ago > 90*time.Minute || ago < 89*time.Minute {
		t.Errorf("since 90m is %v ago", ago)
	}
}

// A token that may not read timers may not read deliveries.
func TestDeliveriesNeedARole(t *testing.T) {
	for role, status := range map[tokens.Role]int{0: 401, tokens.Read: 200, tokens.Write: 200, tokens.Admin: 200} {
		log := &fakeDeliveries{page: someDeliveries()}
		by := onlyRole(role)
		s := New(Config{Timers: &fakeTimers{}, Deliveries: log, Authorizer: by})
		if got := ask(t, s, "GET", "/timers/k/deliveries", ""); got.Status != status {
			t.Errorf("role %v: %d on the public listener", role, got.Status)
		}
		if got := askAdmin(t, NewAdmin(AdminConfig{Deliveries: log, Authorizer: by}), "GET", "/deliveries", ""); got.Status != status {
			t.Errorf("role %v: %d on the admin listener", role, got.Status)
		}
		if status != 200 && len(log.asked) != 0 {
			t.Errorf("role %v: the log was asked", role)
		}
	}
	got := askAdmin(t, NewAdmin(AdminConfig{Deliveries: &fakeDeliveries{}, OpenReads: true}), "GET", "/deliveries", "")
	apitest.WantProblem(t, got, http.StatusUnauthorized, "token-missing", apitest.NoPointer)
}

// onlyRole lets through as a token of the role would be; 0 is no token.
type onlyRole tokens.Role

func (r onlyRole) Check(_ []byte, need tokens.Role, _ time.Time) tokens.Decision {
	if r == 0 || !tokens.Role(r).Allows(need) {
		return tokens.Decision{Outcome: tokens.Missing}
	}
	return tokens.Decision{Outcome: tokens.OK, Name: "a token"}
}

func TestTheAnswerAboutAnEndedTimerHasTheLastAttempt(t *testing.T) {
	log := &fakeDeliveries{}
	s := New(Config{Timers: &fakeTimers{}, Deliveries: log})
	const none = `{"title":"Not Found","status":404,"detail":"there is no such timer; it may have ended or been deleted","code":"timer-not-found"`
	if got := ask(t, s, "GET", "/timers/k", ""); string(got.Body) != none+"}" || got.Status != http.StatusNotFound {
		t.Errorf("have %d %s", got.Status, got.Body)
	}
	log.page = someDeliveries()
	log.page.Attempts[0].Result = "<\"no answer\">"
	if got := ask(t, s, "GET", "/timers/k", ""); string(got.Body) != none+`,"last":{"result":"<\"no answer\">","at":"2030-01-31T12:00:00.000Z"}}` || got.Status != http.StatusNotFound {
		t.Errorf("have %d %s", got.Status, got.Body)
	}
	asked := len(log.asked)
	if got := ask(t, s, "HEAD", "/timers/k", ""); got.Status != http.StatusNotFound || len(log.asked) != asked {
		t.Errorf("HEAD: %d, asked %v", got.Status, log.asked)
	}
	if got := ask(t, s, "PUT", "/timers/k", apitest.Simple); got.Status != http.StatusOK {
		t.Fatalf("have %d %s", got.Status, got.Body)
	}
	if got := ask(t, s, "GET", "/timers/k", ""); got.Status != http.StatusOK || len(log.asked) != asked {
		t.Errorf("a live timer: %d, asked %v", got.Status, log.asked)
	}
	if got := ask(t, s, "DELETE", "/timers/k", ""); got.Status != http.StatusCreated || len(log.asked) != asked {
		t.Errorf("DELETE: %d, asked %v", got.Status, log.asked)
	}
}

// Without a log nothing is asked, and the answers say so.
func TestWithoutALogOfDeliveries(t *testing.T) {
	s := New(Config{Timers: &fakeTimers{}})
	apitest.WantProblem(t, ask(t, s, "GET", "/timers/k/deliveries", ""), http.StatusNotFound, "deliveries-off", apitest.NoPointer)
	apitest.WantProblem(t, askAdmin(t, NewAdmin(AdminConfig{Authorizer: anyone{}}), "GET", "/deliveries", ""), http.StatusNotFound, "deliveries-off", apitest.NoPointer)
	if got := ask(t, s, "GET", "/timers/k", ""); got.Status != http.StatusNotFound || strings.Contains(string(got.Body), "last") {
		t.Errorf("have %d %s", got.Status, got.Body)
	}
}
