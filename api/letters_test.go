package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"chronos/api/apitest"
	"chronos/api/tokens"
	"chronos/api/wire"
	"chronos/scheduler/deadletter"
	"chronos/scheduler/store"
	"chronos/scheduler/timer"
)

// fakeLetters notes the requests.
type fakeLetters struct {
	letters []store.Letter
	err     error // the answer to requests about a single letter
	asked   []string
	query   store.LetterQuery
	done    deadletter.Done
}

var _ Letters = (*fakeLetters)(nil)

func (f *fakeLetters) List(_ context.Context, q store.LetterQuery) (store.LetterPage, error) {
	f.asked, f.query = append(f.asked, "list"), q
	return store.LetterPage{Letters: f.letters, Next: "next", Total: 7, Unreached: []string{"b"}}, f.err
}

func (f *fakeLetters) Letter(_ context.Context, id string) (store.Letter, error) {
	f.asked = append(f.asked, "letter "+id)
	for _, l := range f.letters {
		if l.ID == id {
			return l, f.err
		}
	}
	return store.Letter{}, timer.ErrNotFound
}

func (f *fakeLetters) Fire(_ context.Context, id string) (timer.Receipt, error) {
	f.asked = append(f.asked, "fire "+id)
	return timer.Receipt{ID: timer.ID{Key: "k", RF: 2}, Due: fakeEpoch(), Copies: 2}, f.err
}

func (f *fakeLetters) FireAll(_ context.Context, q store.LetterQuery) (deadletter.Done, error) {
	f.asked, f.query = append(f.asked, "fire all"), q
	return f.done, f.err
}

func (f *fakeLetters) Delete(_ context.Context, id string) error {
	f.asked = append(f.asked, "delete "+id)
	return f.err
}

func (f *fakeLetters) DeleteAll(_ context.Context, q store.LetterQuery) (deadletter.Done, error) {
	f.asked, f.query = append(f.asked, "delete all"), q
	return f.done, f.err
}

func someLetters() []store.Letter {
	return []store.Letter{
		{
			ID: "l1", Shard: "a", Key: "k", At: fakeEpoch(), Reason: "answered 500", Text: "k answered%20500 …",
			Record: store.Record{
				ID: timer.ID{Key: "k", RF: 2}, State: timer.State{Version: 0x123, Seq: 1, Attempt: 5},
				Timer: timer.Timer{
					Interval: 1500 * time.Millisecond, ReplicationFactor: 2, Tags: []timer.Tag{{Type: "call", Count: 1}},
					Callback: timer.Callback{URI: "http://u:s3cret@h/x?a=b&c", Opaque: "<opaque>"},
				},
			},
		},
		{
			ID: "l2", Shard: "b", At: fakeEpoch(), Err: fmt.Errorf("%w: for a test", store.ErrUnreadable),
			Text: "\x1b[2J \xff {\"uri\":\"HTTPS://u:s3cret@h/\"} {\"uri\":\"http:\\/\\/u:s3cret@h\"}",
		},
	}
}

// askAdmin sends a request to the admin listener, with JSON if there is a body.
func askAdmin(t *testing.T, a *Admin, method, path, token string, body ...string) apitest.Answer {
	t.Helper()
	text := strings.Join(body, "")
	req := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(text))
	req.Host = "127.0.0.1:7254"
	if text != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	return answerTo(t, a, req, text)
}

// answerTo is the answer of the admin listener to a request with a body. The answer must be described.
func answerTo(t *testing.T, a *Admin, req *http.Request, body string) apitest.Answer {
	t.Helper()
	w := httptest.NewRecorder()
	a.server.Handler.ServeHTTP(w, req)
	got := apitest.Answer{Status: w.Code, Header: w.Header(), Body: w.Body.Bytes()}
	wantAdminDescribed(t, req, body, got)
	return got
}

func TestLettersAreShownWithoutSecrets(t *testing.T) {
	admin := NewAdmin(AdminConfig{Letters: &fakeLetters{letters: someLetters()}, Authorizer: anyone{}})
	for path, want := range map[string]string{
		"/dead": `{"letters":[` +
			`{"id":"l1","key":"k","at":"2030-01-31T12:00:00.000Z","reason":"answered 500","shard":"a","sequence":1,"attempts":5,"webhook-id":"k.0000000000000123.1","callback":"http://***@h/x?a=b&c"},` +
			`{"id":"l2","at":"2030-01-31T12:00:00.000Z","shard":"b","problem":"unreadable: for a test"}],"next":"next","total":7,"unreached":["b"]}`,
		"/dead/l1": `{"id":"l1","key":"k","at":"2030-01-31T12:00:00.000Z","reason":"answered 500","shard":"a","sequence":1,"attempts":5,"webhook-id":"k.0000000000000123.1","callback":"http://***@h/x?a=b&c",` +
			`"timer":{"timing":{"interval":1.5},"callback":{"http":{"uri":"http://***@h/x?a=b&c","opaque":"<opaque>"}},"reliability":{"replication-factor":2},"statistics":{"tag-info":[{"type":"call","count":1}]}}}`,
		"/dead/l2": `{"id":"l2","at":"2030-01-31T12:00:00.000Z","shard":"b","problem":"unreadable: for a test",` +
			`"text":"\u001b[2J \ufffd {\"uri\":\"HTTPS://***@h/\"} {\"uri\":\"http:\\/\\/***@h\"}"}`,
	} {
		got := askAdmin(t, admin, "GET", path, "")
		if got.Status != http.StatusOK || got.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s: %d %v", path, got.Status, got.Header)
		}
		if diff := cmp.Diff(want+"\n", string(got.Body)); diff != "" {
			t.Errorf("%s: -want +got\n%s", path, diff)
		}
	}
}

func TestLetterQueries(t *testing.T) {
	instant := time.Date(2030, 1, 31, 12, 0, 0, 0, time.UTC)
	for request, want := range map[string]store.LetterQuery{
		"GET /dead":                         {Limit: 100},
		"GET /dead?limit=1000&cursor=x":     {Limit: 1000, Cursor: "x"},
		"GET /dead?key=a%26b&key-prefix=a":  {Limit: 100, Filter: store.LetterFilter{Key: "a&b", KeyPrefix: "a"}},
		"GET /dead?reason=no+answer":        {Limit: 100, Filter: store.LetterFilter{Reason: "no answer"}},
		"POST /dead/fire?callback=h:1":      {Limit: 1000, Filter: store.LetterFilter{Callback: "h:1"}},
		"POST /dead/fire?all=true&cursor=x": {Limit: 1000, Cursor: "x"},
		"DELETE /dead?all=true":             {Limit: 1000},
		"DELETE /dead?until=2030-01-31T12:00:00Z&since=2030-01-31T13:00:00%2B01:00": {
			Limit: 1000, Filter: store.LetterFilter{Since: instant, Until: instant},
		},
	} {
		fake := &fakeLetters{}
		method, path, _ := strings.Cut(request, " ")
		if got := askAdmin(t, NewAdmin(AdminConfig{Letters: fake, Authorizer: anyone{}}), method, path, ""); got.Status != http.StatusOK {
			t.Errorf("%s: %d %s", request, got.Status, got.Body)
		}
		if diff := cmp.Diff(want, fake.query, cmp.Comparer(time.Time.Equal)); diff != "" {
			t.Errorf("%s: -want +got\n%s", request, diff)
		}
	}
}

// An unclear request is refused before any change: above all nothing is taken for "all".
func TestLetterQueriesThatAreRefused(t *testing.T) {
	for _, request := range []string{
		"GET /dead?limit=0", "GET /dead?limit=1001", "GET /dead?limit=x", "GET /dead?limit=", "GET /dead?resaon=x", "GET /dead?all=true",
		"GET /dead?since=yesterday", "GET /dead?until=2030", "GET /dead?key=%zz", "GET /dead?key=a;b", "GET /dead?key=a&key=b",
		"DELETE /dead", "DELETE /dead?key=", "DELETE /dead?cursor=x", "DELETE /dead?all=false", "DELETE /dead?all=yes", "DELETE /dead?all=",
		"DELETE /dead?all=true&key=a", "DELETE /dead?keys=a", "DELETE /dead?limit=5&key=a", "POST /dead/fire", "POST /dead/fire?all=1",
		"POST /dead/fire?reason", "POST /dead/fire?all=true&reason=x", "POST /dead/fire?Key=a",
	} {
		fake := &fakeLetters{}
		method, path, _ := strings.Cut(request, " ")
		apitest.WantProblem(t, askAdmin(t, NewAdmin(AdminConfig{Letters: fake, Authorizer: anyone{}}), method, path, ""), http.StatusBadRequest, "query-malformed", apitest.NoPointer)
		if fake.asked != nil {
			t.Errorf("%s: %v was done", request, fake.asked)
		}
	}
}

func TestLettersAreChanged(t *testing.T) {
	refused := deadletter.Refused{ID: "l1", Key: "k", Err: timer.ErrSuperseded}
	fake := &fakeLetters{done: deadletter.Done{Done: 3, Refused: []deadletter.Refused{refused}, Next: "n", Left: 9, Unreached: []string{"b"}}}
	admin := NewAdmin(AdminConfig{Letters: fake, Authorizer: anyone{}})
	for request, want := range map[string]string{
		"POST /dead/l1/fire":       `{"id":"k-2-0000000000000000","key":"k","due":"2030-01-31T12:00:00.000Z","copies":2}`,
		"DELETE /dead/l1":          `{"deleted":1}`,
		"POST /dead/fire?all=true": `{"fired":3,"refused":[{"id":"l1","key":"k","code":"letter-superseded","detail":"…"}],"left":9,"next":"n","unreached":["b"]}`,
		"DELETE /dead?reason=x":    `{"deleted":3,"refused":[{"id":"l1","key":"k","code":"letter-superseded","detail":"…"}],"left":9,"next":"n","unreached":["b"]}`,
	} {
		method, path, _ := strings.Cut(request, " ")
		got := askAdmin(t, admin, method, path, "")
		body := strings.ReplaceAll(string(got.Body), wire.LetterProblem(timer.ErrSuperseded).Detail, "…")
		if got.Status != http.StatusOK || body != want+"\n" {
			t.Errorf("%s: %d %s, want %s", request, got.Status, body, want)
		}
	}
}

func TestLetterProblems(t *testing.T) {
	single, several := []string{"GET /dead/l1", "POST /dead/l1/fire", "DELETE /dead/l1"}, []string{"GET /dead", "POST /dead/fire?all=true", "DELETE /dead?all=true"}
	fire, all := []string{"POST /dead/l1/fire"}, slices.Concat(single, several)
	for name, c := range map[string]struct {
		err    error
		status int
		code   string
		of     []string // requests that may end so
	}{
		"none":        {timer.ErrNotFound, 404, "letter-not-found", single},
		"cursor":      {store.ErrCursor, 400, "cursor-malformed", several},
		"superseded":  {timer.ErrSuperseded, 409, "letter-superseded", fire},
		"unreadable":  {fmt.Errorf("%w: x\x1b", store.ErrUnreadable), 409, "letter-unreadable", fire},
		"denied":      {&timer.InvalidError{Pointer: "/callback/http/uri", Code: "uri-denied", Detail: "d"}, 409, "uri-denied", fire},
		"unavailable": {fmt.Errorf("a: %w", timer.ErrUnavailable), 503, "store-unavailable", all},
		"overloaded":  {timer.ErrOverloaded, 503, "overloaded", all},
		"late":        {context.DeadlineExceeded, 503, "store-unavailable", all},
		"unknown":     {errors.New("s3cret"), 500, "internal", all},
	} {
		t.Run(name, func(t *testing.T) {
			admin := NewAdmin(AdminConfig{Letters: &fakeLetters{letters: someLetters(), err: c.err}, Authorizer: anyone{}})
			for _, request := range c.of {
				method, path, _ := strings.Cut(request, " ")
				got := askAdmin(t, admin, method, path, "")
				apitest.WantProblem(t, got, c.status, c.code, apitest.NoPointer)
				if (c.status == 503) != (got.Header.Get("Retry-After") != "") || strings.Contains(string(got.Body), "s3cret") {
					t.Errorf("%s: %v %s", request, got.Header, got.Body)
				}
			}
		})
	}
}

func TestRolesForLetters(t *testing.T) {
	s, byRole := guarded(t, &fakeTimers{})
	fake := &fakeLetters{letters: someLetters()}
	admin := NewAdmin(AdminConfig{Letters: fake, Authorizer: s.authorizer})
	for request, need := range map[string]tokens.Role{
		"GET /dead": tokens.Read, "GET /dead/l1": tokens.Read, "POST /dead/l1/fire": tokens.Admin, "DELETE /dead/l1": tokens.Admin,
		"POST /dead/fire?all=true": tokens.Admin, "DELETE /dead?all=true": tokens.Admin,
	} {
		method, path, _ := strings.Cut(request, " ")
		for role, token := range byRole {
			fake.asked = nil
			got := askAdmin(t, admin, method, path, token)
			if allowed := role.Allows(need); allowed != (got.Status == http.StatusOK) || allowed != (fake.asked != nil) {
				t.Errorf("%s as %s: %d, done %v", request, role, got.Status, fake.asked)
			}
		}
		fake.asked = nil
		apitest.WantProblem(t, askAdmin(t, admin, method, path, ""), http.StatusUnauthorized, "token-missing", apitest.NoPointer)
		if fake.asked != nil {
			t.Errorf("%s without a token: %v", request, fake.asked)
		}
	}
}

// The command can read a page of letters with the types of package wire.
func TestLettersViewIsReadBack(t *testing.T) {
	admin := NewAdmin(AdminConfig{Letters: &fakeLetters{letters: someLetters()}, Authorizer: anyone{}})
	var page wire.LettersView
	if err := json.Unmarshal(askAdmin(t, admin, "GET", "/dead", "").Body, &page); err != nil || len(page.Letters) != 2 || page.Letters[0].Attempts != 5 {
		t.Errorf("%+v, %v", page, err)
	}
	var whole wire.LetterView
	if err := json.Unmarshal(askAdmin(t, admin, "GET", "/dead/l1", "").Body, &whole); err != nil || whole.Timer.Callback.HTTP.Opaque != "<opaque>" {
		t.Errorf("%+v, %v", whole, err)
	}
}
