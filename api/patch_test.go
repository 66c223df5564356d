package api

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"chronos/api/apitest"
	"chronos/api/transport"
	"chronos/scheduler/store"
	"chronos/scheduler/timer"
)

// patchedServer is a server with the timer k, which has a secret header.
func patchedServer(t *testing.T) (*Server, *fakeTimers) {
	t.Helper()
	timers := &fakeTimers{}
	s := New(Config{Timers: timers})
	body := strings.Replace(apitest.Simple, `"uri":`, `"headers":{"X-A":"1","Authorization":"s3cret"},"timeout":3,"uri":`, 1)
	if got := ask(t, s, "PUT", "/timers/k", body); got.Status != http.StatusOK {
		t.Fatalf("PUT: have %d %s", got.Status, got.Body)
	}
	return s, timers
}

func TestPatch(t *testing.T) {
	s, timers := patchedServer(t)
	before, _ := timers.get("k")
	got := ask(t, s, "PATCH", "/timers/k", `{"callback":{"http":{"headers":{"x-a":null,"X-B":"2"},"timeout":null,"opaque":"new"}},"color":"red"}`)
	if got.Status != http.StatusOK || got.Header.Get("Content-Type") != "application/json" || got.Header.Get("ETag") != `"0000000000000002"` {
		t.Fatalf("have %d %v: %s", got.Status, got.Header, got.Body)
	}
	want := receiptView{ID: "k-2-0000000000008421", Key: "k", Due: "2030-01-31T12:00:30.000Z", Copies: 1, Ignored: []string{"/color"}}
	if diff := cmp.Diff(want, apitest.Parse[receiptView](t, got.Body)); diff != "" || got.Header.Get("Location") != "/timers/"+want.ID {
		t.Errorf("Location %q, receipt (-want +have):\n%s", got.Header.Get("Location"), diff)
	}
	for _, name := range []string{"X-Chronos-In-Flight", "X-Chronos-Unreached", "Accept-Patch", "Reason"} {
		if v := got.Header.Get(name); v != "" {
			t.Errorf("%s: %q in the answer", name, v)
		}
	}
	after := before.Record.Timer
	after.Callback.Headers, after.Callback.Timeout, after.Callback.Opaque = "\r\nAuthorization: s3cret\r\nX-B: 2", 0, "new"
	stored, _ := timers.get("k")
	if diff := cmp.Diff(after, stored.Record.Timer); diff != "" {
		t.Errorf("stored (-want +have):\n%s", diff)
	}
}

func TestPatchOfNoTimer(t *testing.T) {
	timers := &fakeTimers{}
	s := New(Config{Timers: timers})
	apitest.WantProblem(t, ask(t, s, "PATCH", "/timers/none", apitest.Simple), 404, "timer-not-found", apitest.NoPointer)
	if _, made := timers.get("none"); made {
		t.Error("a timer was made")
	}
}

// A body of another type is not read: the body may be a patch in another language.
func TestTypesOfPatches(t *testing.T) {
	s, timers := patchedServer(t)
	for _, declared := range []string{"", "application/json", "application/json-patch+json", "application/x-www-form-urlencoded", "text/plain", "application/merge-patch", "application/merge-patch+jsons", ";application/merge-patch+json"} {
		for _, body := range []string{"{}", `[{"op":"remove","path":"/callback"}]`, ""} {
			got := ask(t, s, "PATCH", "/timers/k", body, "Content-Type", declared)
			apitest.WantProblem(t, got, http.StatusUnsupportedMediaType, "content-type", apitest.NoPointer)
			if accepted := got.Header.Get("Accept-Patch"); accepted != "application/merge-patch+json" {
				t.Errorf("%q: Accept-Patch %q", declared, accepted)
			}
		}
	}
	if stored, _ := timers.get("k"); stored.Record.State.Version != 1 {
		t.Errorf("the timer was written: %+v", stored)
	}
	for _, declared := range []string{"application/merge-patch+json", "application/merge-patch+json; charset=utf-8", "application/merge-patch+json ;charset=UTF-8", "Application/Merge-Patch+JSON"} {
		if got := ask(t, s, "PATCH", "/timers/k", "{}", "Content-Type", declared); got.Status != http.StatusOK {
			t.Errorf("%q: have %d %s", declared, got.Status, got.Body)
		}
	}
}

func TestPatchesAreRefused(t *testing.T) {
	s, timers := patchedServer(t)
	for body, want := range map[string][2]string{
		"":                           {"body-missing", ""},
		"{":                          {"body-syntax", ""},
		`[]`:                         {"body-not-object", ""},
		`{} {}`:                      {"body-trailing", ""},
		`{"timing":null}`:            {"timing-missing", "/timing"},
		`{"timing":{"interval":-1}}`: {"interval-negative", "/timing/interval"},
		// The scheduler finds the faults of members together.
		`{"timing":{"repeat-for":1}}`:                                                {"repeat-for-short", "/timing/repeat-for"},
		`{"callback":{"http":{"method":"GET"}}}`:                                     {"opaque-of-get", "/callback/http/opaque"},
		`{"callback":{"http":{"uri":"http://u:p@h/"}}}`:                              {"header-reserved", "/callback/http/headers/Authorization"},
		`{"callback":{"http":{"headers":{"Authorization":"***"}}}}`:                  {"header-redacted", "/callback/http/headers/Authorization"},
		`{"callback":{"http":{"headers":{"X-B":"1","x-b":"2"}}}}`:                    {"member-duplicate", "/callback/http/headers/x-b"},
		`{"reliability":{"replication-factor":3}}`:                                   {"replication-factor-changed", "/reliability/replication-factor"},
		`{"reliability":{"replication-factor":3},"callback":{"http":{"timeout":1}}}`: {"replication-factor-changed", "/reliability/replication-factor"},
	} {
		apitest.WantProblem(t, ask(t, s, "PATCH", "/timers/k", body), 400, want[0], want[1])
	}
	for _, body := range []string{`{"reliability":{"replication-factor":2}}`, `{"reliability":{"replication-factor":null}}`, `{"reliability":null}`} {
		if got := ask(t, s, "PATCH", "/timers/k", body); got.Status != http.StatusOK {
			t.Errorf("%s: have %d %s", body, got.Status, got.Body)
		}
	}
	if stored, _ := timers.get("k"); stored.Record.State.Version != 4 || stored.Record.Timer.ReplicationFactor != 2 {
		t.Errorf("stored %+v, want the version of three writes more", stored.Record)
	}
}

// An owner that does not answer, or has no copy, makes a PATCH without a condition fail too.
func TestPatchThatCannotBeDecided(t *testing.T) {
	s := New(Config{Timers: &fakeTimers{before: func(context.Context, string, timer.ID) error {
		return fmt.Errorf("%w: an owner has no copy", timer.ErrUndecided)
	}}})
	got := ask(t, s, "PATCH", "/timers/k", "{}")
	apitest.WantProblem(t, got, http.StatusServiceUnavailable, "condition-undecided", apitest.NoPointer)
	if after := got.Header.Get("Retry-After"); after != "1" {
		t.Errorf("Retry-After %q", after)
	}
}

// A PATCH of a large timer takes as much memory as a GET, however small the patch is.
func TestPatchRoom(t *testing.T) {
	timers := &fakeTimers{}
	large := timer.Timer{ReplicationFactor: 2, Callback: timer.Callback{URI: "http://a/b", Opaque: strings.Repeat("o", 50_000)}}
	if _, err := timers.store(timer.ID{Key: "large"}, large); err != nil {
		t.Fatal(err)
	}
	s := New(Config{Timers: timers, Limits: transport.Limits{MaxBody: 10_000, MaxBodies: 1}})
	head := "PATCH /timers/large HTTP/1.1\r\nHost: h\r\nContent-Type: " + mergePatch + "\r\nContent-Length: 2\r\n\r\n{}"
	got, _ := apitest.Send(t, apitest.Dial(t, apitest.Serve(t, s)), head)
	apitest.WantOverloaded(t, got)
	if stored, _ := timers.get("large"); stored.Record.State.Version != 1 {
		t.Errorf("the timer was written: version %d", stored.Record.State.Version)
	}
}

// rereading are timers for which each PATCH is tried twice, since another write comes first.
type rereading struct{ *fakeTimers }

func (r rereading) Patch(ctx context.Context, id timer.ID, cond timer.Condition, change func(*timer.Timer) (bool, error)) (timer.Receipt, error) {
	found, _ := r.get(id.Key)
	if _, err := change(&found.Record.Timer); err != nil {
		return timer.Receipt{}, err
	}
	r.change(id.Key, func(found *store.ReadResult) { found.Record.Timer.Callback.URI = "http://other/" })
	return r.fakeTimers.Patch(ctx, id, cond, change)
}

// A patch that is tried again changes the timer as it is by then, and the answer lists an ignored member once.
func TestPatchIsTriedAgain(t *testing.T) {
	_, timers := patchedServer(t)
	s := New(Config{Timers: rereading{timers}})
	got := ask(t, s, "PATCH", "/timers/k", `{"callback":{"http":{"opaque":"new"}},"color":1}`)
	stored, _ := timers.get("k")
	if c := stored.Record.Timer.Callback; c.URI != "http://other/" || c.Opaque != "new" {
		t.Errorf("stored %+v", c)
	}
	if diff := cmp.Diff([]string{"/color"}, apitest.Parse[receiptView](t, got.Body).Ignored); diff != "" {
		t.Errorf("%d, ignored (-want +have):\n%s", got.Status, diff)
	}
}
