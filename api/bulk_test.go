package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"chronos/api/apitest"
	"chronos/api/tokens"
	"chronos/scheduler/listing"
	"chronos/scheduler/store"
	"chronos/scheduler/timer"
)

// fakeChanger notes the requests.
type fakeChanger struct {
	done   listing.Done
	err    error
	asked  []listing.Bulk
	within time.Duration // until the deadline of the last request
}

var _ Changer = (*fakeChanger)(nil)

func (f *fakeChanger) Bulk(ctx context.Context, b listing.Bulk) (listing.Done, error) {
	f.asked = append(f.asked, b)
	if until, is := ctx.Deadline(); is {
		f.within = time.Until(until)
	}
	return f.done, f.err
}

func TestManyTimersAreChanged(t *testing.T) {
	fake := &fakeChanger{}
	var log bytes.Buffer
	admin := NewAdmin(AdminConfig{Changer: fake, Authorizer: anyone{}, Log: slog.New(slog.NewTextHandler(&log, nil))})
	all := func(limit int) listing.Query { return listing.Query{Limit: limit} }
	for path, want := range map[string]listing.Bulk{
		"/timers/bulk/delete?all=true":                         {Query: all(1000), Action: listing.Delete},
		"/timers/bulk/fire?all=true&limit=1":                   {Query: all(1), Action: listing.Fire},
		"/timers/bulk/delay?all=true&by=90s":                   {Query: all(1000), Action: listing.Delay, By: 90 * time.Second},
		"/timers/bulk/delete?all=true;dry-run=true":            {Query: all(1000), Action: listing.Delete, DryRun: true},
		"/timers/bulk/delete?tag=CALL&dry-run=false&all=false": {Query: listing.Query{Filter: listing.Filter{Tag: "CALL"}, Limit: 1000}, Action: listing.Delete},
		"/timers/bulk/fire?key=tea-2-0000000000008421":         {Query: listing.Query{Filter: listing.Filter{Key: "tea"}, Limit: 1000}, Action: listing.Fire},
		"/timers/bulk/fire?state=retrying&cursor=x&limit=10":   {Query: listing.Query{Filter: listing.Filter{State: listing.Retrying}, Cursor: "x", Limit: 10}, Action: listing.Fire},
		"/timers/bulk/delay?due-before=2030-01-31T12:00:00Z&key-prefix=a&text=abc&destination=http://h&by=1ms": {
			Query:  listing.Query{Filter: listing.Filter{DueBefore: fakeEpoch(), KeyPrefix: "a", Text: "abc", Destination: "http://h"}, Limit: 1000},
			Action: listing.Delay, By: time.Millisecond,
		},
	} {
		fake.asked = nil
		got := askAdmin(t, admin, "POST", path, "")
		if got.Status != http.StatusOK || strings.TrimSpace(string(got.Body)) != `{"done":0,"refused":[],"left_out":0,"scanned":0,"unreached":[]}` || got.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %d %v %s", path, got.Status, got.Header, got.Body)
		}
		if diff := cmp.Diff([]listing.Bulk{want}, fake.asked); diff != "" {
			t.Errorf("%s (-want +have):\n%s", path, diff)
		}
		if fake.within <= 20*time.Second || fake.within > 25*time.Second {
			t.Errorf("%s may take %v, want 25s at most", path, fake.within)
		}
	}
	fake.done = listing.Done{
		Done: 998, LeftOut: 7, Scanned: 20_000, Next: "cursor", Reached: fakeEpoch(), Unreached: []string{"b"},
		Refused: []listing.Refused{{ID: "tea-2-0000000000008421", Err: &timer.ConditionError{Present: 1}}, {ID: "b", Err: timer.ErrFiring}, {ID: "c", Err: errors.New("hush")}},
	}
	log.Reset()
	got := askAdmin(t, admin, "POST", "/timers/bulk/fire?tag=CALL", "")
	const want = `{"done":998,"refused":[` +
		`{"id":"tea-2-0000000000008421","code":"precondition-failed","detail":"the timer has another version than the condition asks for; nothing was done; read the timer, and send the request again with the ETag of that answer if you still want it"},` +
		`{"id":"b","code":"firing","detail":"a callback of the timer is under way, and nothing was done; look at the timer when the callback is over"},` +
		`{"id":"c","code":"internal","detail":"something went wrong in the server; its log says what"}],` +
		`"left_out":7,"next":"cursor","scanned":20000,"reached":"2030-01-31T12:00:00.000Z","unreached":["b"]}`
	if diff := cmp.Diff(want+"\n", string(got.Body)); diff != "" || got.Status != http.StatusOK {
		t.Errorf("%d (-want +have):\n%s", got.Status, diff)
	}
	if diff := cmp.Diff([]string{
		`level=ERROR msg="change of a timer failed" error=hush`,
		`level=INFO msg="admin change" method=POST path=/timers/bulk/fire query="tag=CALL" done=998 refused=3 status=200 by=anyone address=192.0.2.1:1234`,
	}, lines(&log)); diff != "" {
		t.Errorf("log (-want +have):\n%s", diff)
	}
}

func TestChangesOfManyTimersAreRefused(t *testing.T) {
	fake := &fakeChanger{}
	admin := NewAdmin(AdminConfig{Changer: fake, Interventions: &fakeInterventions{}, Authorizer: anyone{}})
	for query, code := range map[string]string{
		"delete": "filter-missing", "delete?limit=5&cursor=x": "filter-missing", "delete?dry-run=true": "filter-missing", "delete?all=false": "filter-missing",
		"fire": "filter-missing", "delay?by=1s": "filter-missing", "delete?all=true&key=a": "filter-and-all", "delete?all=true&due-after=2030-01-31T12:00:00Z": "filter-and-all",
		"delete?all=yes": "flag-malformed", "delete?all=TRUE": "flag-malformed", "delete?all=true&dry-run=1": "flag-malformed", "delete?all=true&dry-run": "parameter-empty",
		"delete?all=true&dryrun=true": "parameter-unknown", "delete?tags=x": "parameter-unknown", "delete?all=true&by=1s": "parameter-unknown", "fire?all=true&by=1s": "parameter-unknown",
		"delete?node-for-replicas=a": "parameter-unknown", "delete?all=true&all=true": "parameter-duplicate", "delay?all=true": "by-missing", "delay?all=true&by=1": "by-malformed", "delay?all=true&by=-1s": "by-range",
		"delete?text=ab": "text-short", "delete?state=x": "state-unknown", "delete?all=true&limit=1001": "limit-range", "delete?due-before=x": "due-malformed", "delete?key=a%20b": "id-characters", "delete?all=%zz": "query-malformed",
	} {
		apitest.WantProblem(t, askAdmin(t, admin, "POST", "/timers/bulk/"+query, ""), 400, code, apitest.NoPointer)
	}
	for _, name := range []string{"If-Match", "If-None-Match"} {
		apitest.WantProblem(t, askIf(t, admin, "POST", "/timers/bulk/delete?all=true", name, "*"), 400, "precondition-unsupported", apitest.NoPointer)
	}
	wantAnswer(t, askAdmin(t, admin, "GET", "/timers/bulk/delete?all=true", ""), "405 method-not-allowed")
	wantAnswer(t, askAdmin(t, admin, "POST", "/timers/bulk/keep?all=true", ""), "404 path-unknown")
	if len(fake.asked) > 0 {
		t.Errorf("refused requests asked for %+v", fake.asked)
	}
	for want, err := range map[string]error{
		"400 cursor-malformed": store.ErrCursor, "400 cursor-stale": listing.ErrStale, "400 destination-malformed": timer.Invalid("/destination", "destination-malformed", "no"),
		"429 listing-busy": listing.ErrBusy, "503 store-unavailable": fmt.Errorf("%w: hush", timer.ErrUnavailable), "500 internal": errors.New("hush"),
	} {
		fake.err = err
		wantAnswer(t, askAdmin(t, admin, "POST", "/timers/bulk/delete?all=true", ""), want)
	}
}

func TestRolesForChangesOfManyTimers(t *testing.T) {
	s, byRole := guarded(t, &fakeTimers{})
	fake := &fakeChanger{}
	admin := NewAdmin(AdminConfig{Authorizer: s.authorizer, OpenReads: true, Changer: fake})
	for _, path := range []string{"/timers/bulk/delete?all=true", "/timers/bulk/fire?all=true", "/timers/bulk/delay?all=true&by=1s", "/timers/bulk/delete?all=true&dry-run=true"} {
		for _, role := range []tokens.Role{0, tokens.Read, tokens.Write, tokens.List, tokens.Admin} {
			fake.asked = nil
			want := map[tokens.Role]int{0: http.StatusUnauthorized, tokens.Admin: http.StatusOK}[role]
			if want == 0 {
				want = http.StatusForbidden
			}
			if got := askAdmin(t, admin, "POST", path, byRole[role]); got.Status != want || len(fake.asked) > 0 != (want == http.StatusOK) {
				t.Errorf("%s as %s: %d %s, asked %v", path, role, got.Status, got.Body, fake.asked)
			}
		}
	}
}
