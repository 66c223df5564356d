package api

import (
	"context"
	"errors"
	"fmt"
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

// fakeLister notes the queries.
type fakeLister struct {
	page    listing.Page
	err     error
	queries []listing.Query
	within  time.Duration // until the deadline of the last request
}

var _ Lister = (*fakeLister)(nil)

func (f *fakeLister) List(ctx context.Context, q listing.Query) (listing.Page, error) {
	f.queries = append(f.queries, q)
	f.note(ctx)
	return f.page, f.err
}

func (f *fakeLister) note(ctx context.Context) {
	if until, is := ctx.Deadline(); is {
		f.within = time.Until(until)
	}
}

// somePage has a recurring timer with secrets, and a timer with an instant.
func somePage() listing.Page {
	return listing.Page{
		Timers: []listing.Timer{{
			ID: timer.ID{Key: "tea", RF: 2, Hint: 0x8421}, Version: timer.State{Version: 7, Seq: 3}, State: listing.Retrying, Due: fakeEpoch(), Sequence: 3, Attempts: 1,
			Timer: timer.Timer{
				Interval: 250 * time.Millisecond, RepeatFor: time.Minute, ReplicationFactor: 2, Tags: []timer.Tag{{Type: "CALL", Count: 3}},
				Callback: timer.Callback{URI: "http://u:hush@localhost/<pop>?a=b&c", Opaque: "hush"},
			},
		}, {
			ID: timer.ID{Key: "new-year", RF: 1, Hint: 1}, State: listing.Waiting, Due: fakeEpoch().Add(time.Hour), Sequence: 1,
			Timer: timer.Timer{At: fakeEpoch().Add(time.Hour), ReplicationFactor: 1, Callback: timer.Callback{URI: "https://h/"}},
		}},
		Next: "cursor", Scanned: 20_000, Reached: fakeEpoch().Add(2 * time.Hour), Unreached: []string{"b"},
	}
}

// listers are the two listeners with the same lister, and the way to ask each.
func listers(t *testing.T, lister Lister) map[string]func(method, query string) apitest.Answer {
	t.Helper()
	s := New(Config{Timers: &fakeTimers{}, Lister: lister, Authorizer: anyone{}})
	admin := NewAdmin(AdminConfig{Lister: lister, Resync: s.Resynchronisation(), Authorizer: anyone{}})
	return map[string]func(method, query string) apitest.Answer{
		"public": func(method, query string) apitest.Answer { return ask(t, s, method, "/timers"+query, "") },
		"admin":  func(method, query string) apitest.Answer { return askAdmin(t, admin, method, "/timers"+query, "") },
	}
}

func TestTimersAreListed(t *testing.T) {
	const want = `{"timers":[` +
		`{"id":"tea-2-0000000000008421","key":"tea","state":"retrying","due":"2030-01-31T12:00:00.000Z","sequence":3,"attempts":1,"interval":0.25,"repeat-for":60,` +
		`"callback":{"http":{"uri":"http://***@localhost/<pop>?a=b&c"}},"tags":[{"type":"CALL","count":3}],"replication-factor":2},` +
		`{"id":"new-year-1-0000000000000001","key":"new-year","state":"waiting","due":"2030-01-31T13:00:00.000Z","sequence":1,"attempts":0,` +
		`"callback":{"http":{"uri":"https://h/"}},"tags":[],"replication-factor":1}],` +
		`"next":"cursor","scanned":20000,"reached":"2030-01-31T14:00:00.000Z","unreached":["b"]}`
	fake := &fakeLister{page: somePage()}
	for name, get := range listers(t, fake) {
		fake.page = somePage()
		got := get("GET", "")
		if diff := cmp.Diff(want, strings.TrimSpace(string(got.Body))); diff != "" || got.Status != http.StatusOK || got.Header.Get("Cache-Control") != "no-store" || got.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s: %d %v (-want +have):\n%s", name, got.Status, got.Header, diff)
		}
		if fake.within <= 2*time.Second || fake.within > 3*time.Second {
			t.Errorf("%s: the request may take %v, want 3s at most", name, fake.within)
		}
		if got := get("HEAD", "?limit=1"); got.Status != http.StatusOK || got.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: HEAD: %d %v", name, got.Status, got.Header)
		}
		fake.page = listing.Page{}
		if got := get("GET", ""); strings.TrimSpace(string(got.Body)) != `{"timers":[],"scanned":0,"unreached":[]}` {
			t.Errorf("%s: of nothing: %s", name, got.Body)
		}
	}
}

func TestListingQueries(t *testing.T) {
	fake := &fakeLister{}
	instant := func(text string) time.Time {
		at, err := time.Parse(time.RFC3339Nano, text)
		if err != nil {
			t.Fatal(err)
		}
		return at.UTC()
	}
	for name, get := range listers(t, fake) {
		for query, want := range map[string]listing.Query{
			"":  {Limit: 100},
			"?": {Limit: 100},
			"?key=tea&key-prefix=te&text=abc&state=waiting&destination=https://h:443&tag=CALL&limit=1000&cursor=xy": {
				Filter: listing.Filter{Key: "tea", KeyPrefix: "te", Text: "abc", State: listing.Waiting, Destination: "https://h:443", Tag: "CALL"}, Limit: 1000, Cursor: "xy",
			},
			"?key=tea-2-0000000000008421":                  {Filter: listing.Filter{Key: "tea"}, Limit: 100},
			"?state=leased;limit=1":                        {Filter: listing.Filter{State: listing.Leased}, Limit: 1},
			"?state=retrying":                              {Filter: listing.Filter{State: listing.Retrying}, Limit: 100},
			"?text=%C3%A4%C3%B6%C3%BC":                     {Filter: listing.Filter{Text: "äöü"}, Limit: 100},
			"?text=a%3Bb%26":                               {Filter: listing.Filter{Text: "a;b&"}, Limit: 100},
			"?destination=HTTP://10.0.0.7":                 {Filter: listing.Filter{Destination: "HTTP://10.0.0.7"}, Limit: 100},
			"?due-after=2030-01-31T12:00:00Z":              {Filter: listing.Filter{DueAfter: fakeEpoch()}, Limit: 100},
			"?due-before=2030-01-31T13:00:00.0001%2B01:00": {Filter: listing.Filter{DueBefore: instant("2030-01-31T12:00:00.001Z")}, Limit: 100},
			"?due-after=1066-10-14T09:00:00Z":              {Filter: listing.Filter{DueAfter: time.UnixMilli(0).UTC()}, Limit: 100},
			"?due-after=2030-01-31T12:00:00Z&due-before=2030-01-31t12:00:00.001z": {Filter: listing.Filter{DueAfter: fakeEpoch(), DueBefore: instant("2030-01-31T12:00:00.001Z")}, Limit: 100},
		} {
			fake.queries = nil
			if got := get("GET", query); got.Status != http.StatusOK {
				t.Errorf("%s %s: %d %s", name, query, got.Status, got.Body)
			}
			if diff := cmp.Diff([]listing.Query{want}, fake.queries); diff != "" {
				t.Errorf("%s %s (-want +have):\n%s", name, query, diff)
			}
		}
	}
}

func TestListingsAreRefused(t *testing.T) {
	fake := &fakeLister{}
	long := strings.Repeat("x", maxText+1)
	for name, get := range listers(t, fake) {
		for query, code := range map[string]string{
			"tags=x": "parameter-unknown", "Key=x": "parameter-unknown", "=x": "parameter-unknown", "from=x": "parameter-unknown", "all=true": "parameter-unknown",
			"key=a&key=a": "parameter-duplicate", "limit=1;limit=1": "parameter-duplicate", "key=": "parameter-empty", "tag": "parameter-empty", "cursor=": "parameter-empty",
			"text=%zz": "query-malformed", "text=abc%ff": "query-malformed", "tag=" + long: "parameter-long", "text=" + long: "parameter-long", "key-prefix=" + long: "parameter-long",
			"key=a%20b": "id-characters", "key=" + strings.Repeat("k", 129): "id-length", "key=batch": "id-reserved", "key=..": "id-dots",
			"due-after=tomorrow": "due-malformed", "due-before=1700000000": "due-malformed", "due-before=2030-01-31T12:00:00+01:00": "due-malformed", "due-after=9999-12-31T23:59:59-01:00": "due-malformed",
			"due-after=2030-01-31T12:00:00Z&due-before=2030-01-31T11:00:00Z": "due-reversed", "due-after=2030-01-31T12:00:00Z&due-before=2030-01-31T12:00:00Z": "due-reversed",
			"state=dead": "state-unknown", "state=Waiting": "state-unknown", "limit=0": "limit-range", "limit=1001": "limit-range", "limit=-1": "limit-range", "limit=ten": "limit-range", "limit=1.0": "limit-range",
			"text=ab": "text-short", "text=%C3%A4%C3%B6": "text-short", // four bytes
			"destination=h": "destination-malformed", "destination=ftp://h": "destination-malformed", "destination=https://": "destination-malformed", "destination=https://u:hush@h": "destination-malformed",
			"destination=https://h/path": "destination-malformed", "destination=https://h%20": "destination-malformed",
			"cluster-view-id=2f": "node-for-replicas", "time-from=1": "node-for-replicas", "after=tea&key=tea": "node-for-replicas",
			"node-for-replicas=a&cluster-view-id=2f&key=tea": "listing-mixed", "node-for-replicas=a&limit=1": "listing-mixed", "node-for-replicas&cursor=x": "listing-mixed",
			"node-for-replicas=a&cluster-view-id=2f;text=": "listing-mixed", "node-for-replicas": "node-for-replicas",
		} {
			got := get("GET", "?"+query)
			apitest.WantProblem(t, got, 400, code, apitest.NoPointer)
			if t.Failed() {
				t.Fatalf("%s %s: %s", name, query, got.Body)
			}
			if strings.Contains(string(got.Body), "hush") {
				t.Errorf("%s %s: %s", name, query, got.Body)
			}
		}
		detail := apitest.Parse[apitest.Problem](t, get("GET", "?tags=x").Body).Detail
		if !strings.Contains(detail, "the unknown parameter tags; known are key, key-prefix, text, state, destination, tag, due-after, due-before, limit, cursor") {
			t.Errorf("%s: %s", name, detail)
		}
	}
	if len(fake.queries) > 0 {
		t.Errorf("refused requests asked for %+v", fake.queries)
	}
}

func TestListingErrors(t *testing.T) {
	fake := &fakeLister{page: somePage()}
	for name, get := range listers(t, fake) {
		for want, err := range map[string]error{
			"400 cursor-malformed":      fmt.Errorf("list: %w", store.ErrCursor),
			"400 cursor-stale":          fmt.Errorf("list: %w", listing.ErrStale),
			"400 destination-malformed": timer.Invalid("/destination", "destination-malformed", "no"),
			"429 listing-busy":          fmt.Errorf("list: %w", listing.ErrBusy),
			"503 store-unavailable":     fmt.Errorf("%w: hush", timer.ErrUnavailable),
			"500 internal":              errors.New("hush"),
		} {
			fake.err = err
			got := get("GET", "?key-prefix=x")
			wantAnswer(t, got, want)
			if retry := got.Header.Get("Retry-After"); (got.Status == 429 || got.Status == 503) != (retry == "1") || strings.Contains(string(got.Body), "hush") {
				t.Errorf("%s %s: Retry-After %q, %s", name, want, retry, got.Body)
			}
			if got := get("HEAD", "?key-prefix=x"); fmt.Sprint(got.Status) != want[:3] {
				t.Errorf("%s HEAD: %d, want %s", name, got.Status, want)
			}
		}
	}
}

// Who may list timers: no role below list, and nobody on a public listener without tokens.
func TestRolesForListings(t *testing.T) {
	fake := &fakeLister{}
	guardedServer, byRole := guarded(t, &fakeTimers{})
	s := New(Config{Timers: &fakeTimers{}, Lister: fake, Authorizer: guardedServer.authorizer})
	admin := NewAdmin(AdminConfig{Lister: fake, Resync: s.Resynchronisation(), Authorizer: s.authorizer, OpenReads: true})
	for query, need := range map[string]tokens.Role{
		"": tokens.List, "?key=tea": tokens.List, "?cluster-view-id=2f": tokens.List, "?NODE-FOR-REPLICAS=a": tokens.List,
		"?node-for-replicas=a&cluster-view-id=2f": tokens.Admin, "?a;node-for-replicas=a;cluster-view-id=2f": tokens.Admin, "?%6eode-for-replicas=a&cluster-view-id=2f": tokens.Admin, "?node-for-replicas": tokens.Admin,
	} {
		for _, method := range []string{"GET", "HEAD"} {
			for _, path := range []string{"/timers", "/timers/"} {
				for role, token := range byRole {
					for name, got := range map[string]apitest.Answer{
						"public": ask(t, s, method, path+query, "", "Authorization", "Bearer "+token), "admin": askAdmin(t, admin, method, path+query, token),
					} {
						if allowed := got.Status != http.StatusForbidden; allowed != role.Allows(need) {
							t.Errorf("%s: %s %s%s as %s: %d %s", name, method, path, query, role, got.Status, got.Body)
						}
					}
				}
				if got := askAdmin(t, admin, method, path+query, ""); got.Status != http.StatusUnauthorized {
					t.Errorf("%s %s%s without a token: %d", method, path, query, got.Status)
				}
				open := New(Config{Timers: &fakeTimers{}, Lister: fake})
				fake.queries = nil
				if got := ask(t, open, method, path+query, ""); got.Status != http.StatusForbidden || len(fake.queries) > 0 || method == "GET" && !strings.Contains(string(got.Body), `"code":"admin-listener"`) {
					t.Errorf("%s %s%s without tokens: %d %s, asked %v", method, path, query, got.Status, got.Body, fake.queries)
				}
			}
		}
	}
}

// A token with a prefix lists the timers of the prefix alone.
func TestListingsWithAPrefix(t *testing.T) {
	fake := &fakeLister{}
	byPrefix := confinedAs(t, tokens.List, "a.")
	s := New(Config{Timers: &fakeTimers{}, Lister: fake, Authorizer: byPrefix.set})
	admin := NewAdmin(AdminConfig{Lister: fake, Resync: s.Resynchronisation(), Authorizer: byPrefix.set})
	token := byPrefix.tokens["a."]
	for query, want := range map[string]listing.Filter{
		"":                            {KeyPrefix: "a."},
		"?key-prefix=a":               {KeyPrefix: "a."},
		"?key-prefix=a.b":             {KeyPrefix: "a.b"},
		"?key=a.b":                    {Key: "a.b", KeyPrefix: "a."},
		"?key=a.b-2-0000000000008421": {Key: "a.b", KeyPrefix: "a."},
		"?text=secret&cursor=x":       {Text: "secret", KeyPrefix: "a."},
	} {
		for name, get := range map[string]func() apitest.Answer{
			"public": func() apitest.Answer { return ask(t, s, "GET", "/timers"+query, "", "Authorization", "Bearer "+token) },
			"admin":  func() apitest.Answer { return askAdmin(t, admin, "GET", "/timers"+query, token) },
		} {
			fake.queries = nil
			if got := get(); got.Status != http.StatusOK || len(fake.queries) != 1 || fake.queries[0].Filter != want {
				t.Errorf("%s %s: %d %s, asked %+v, want %+v", name, query, got.Status, got.Body, fake.queries, want)
			}
		}
	}
	fake.queries = nil
	for query, want := range map[string]string{
		"?key=b.secret": "403 id-prefix", "?key-prefix=b.": "403 id-prefix", "?key-prefix=A.": "403 id-prefix", "?key-prefix=a.&key=b.secret": "403 id-prefix", "?key=a.own&key-prefix=b": "403 id-prefix",
		"?key=a.own&key=b.secret": "400 parameter-duplicate", "?node-for-replicas=a&cluster-view-id=2f": "403 token-scope",
	} {
		wantAnswer(t, ask(t, s, "GET", "/timers"+query, "", "Authorization", "Bearer "+token), want)
		wantAnswer(t, askAdmin(t, admin, "GET", "/timers"+query, token), want)
	}
	if len(fake.queries) > 0 {
		t.Errorf("refused requests asked for %+v", fake.queries)
	}
}
