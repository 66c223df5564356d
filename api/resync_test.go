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
	"chronos/api/transport"
	"chronos/scheduler/resync"
	"chronos/scheduler/store"
	"chronos/scheduler/timer"
)

// resyncOf is the request for the timers of a shard.
func resyncOf(shard string, more ...string) string {
	return "/timers?node-for-replicas=" + shard + "&cluster-view-id=2f1c86d0a7b9e453" + strings.Join(more, "")
}

// references is the body of a request that drops the timers' copies.
func references(ids ...string) string {
	entries := make([]string, len(ids))
	for i, id := range ids {
		entries[i] = fmt.Sprintf(`{"ID":%q,"ReplicaIndex":%d}`, id, i)
	}
	return `{"IDs":[` + strings.Join(entries, ",") + `]}`
}

// resynced is a timer as the scheduler returns the timer.
func resynced() resync.Entry {
	start := time.UnixMilli(1_795_221_218_390).UTC()
	return resync.Entry{
		ReadResult: store.ReadResult{
			Record: store.Record{
				ID: timer.ID{Key: "tea", RF: 2, Hint: 0x8421}, Start: start, State: timer.State{Version: 1, Seq: 3},
				Timer: timer.Timer{
					Interval: 250 * time.Millisecond, RepeatFor: time.Minute, ReplicationFactor: 2,
					Callback: timer.Callback{URI: "http://localhost/<pop>", Opaque: "a\"b"}, Tags: []timer.Tag{{Type: "CALL", Count: 3}},
				},
			},
			Due: start.Add(time.Second), // of a retry that waits
		},
		At:       start.Add(750 * time.Millisecond),
		Replicas: []string{"a", "d"}, Former: []string{"a", "c"}, Sites: []string{"lon", "nyc"},
	}
}

func TestResyncAnswers(t *testing.T) {
	once := resynced()
	once.Record.Timer = timer.Timer{At: once.Record.Start, ReplicationFactor: 1, Callback: timer.Callback{URI: "http://localhost/"}}
	once.Sites = nil
	once.Record.State.Seq, once.At, once.Replicas, once.Former = 1, once.Record.Start, []string{"d"}, []string{"d"}
	timers := &fakeTimers{page: resync.Page{View: "2f1c86d0a7b9e453", Timers: []resync.Entry{resynced(), once}}}
	s := New(Config{Timers: timers, Authorizer: anyone{}})

	got := ask(t, s, "GET", resyncOf("d"), "")
	const want = `{"timers":[{"TimerID":"tea-2-0000000000008421","OldReplicas":["a","c"],"Timer":{` +
		`"timing":{"start-time":4219855958,"sequence-number":2,"interval":0.25,"repeat-for":60,"due":"2026-11-21T00:33:39.140Z"},` +
		`"callback":{"http":{"uri":"http://localhost/<pop>","opaque":"a\"b"}},` +
		`"reliability":{"cluster-view-id":"2f1c86d0a7b9e453","replicas":["a","d"],"replication-factor":2,"sites":["lon","nyc"]},` +
		`"statistics":{"tag-info":[{"type":"CALL","count":3}]}}},` +
		`{"TimerID":"tea-2-0000000000008421","OldReplicas":["d"],"Timer":{` +
		`"timing":{"start-time":4219855958,"sequence-number":0,"interval":0,"repeat-for":0,"at":"2026-11-21T00:33:38.390Z","due":"2026-11-21T00:33:38.390Z"},` +
		`"callback":{"http":{"uri":"http://localhost/","opaque":""}},` +
		`"reliability":{"cluster-view-id":"2f1c86d0a7b9e453","replicas":["d"],"replication-factor":1}}}]}`
	if diff := cmp.Diff(want, string(got.Body)); got.Status != http.StatusOK || diff != "" {
		t.Errorf("status %d (-want +got):\n%s", got.Status, diff)
	}
	for _, name := range []string{"Content-Range", "Link", "X-Chronos-Unreached"} {
		if value := got.Header.Get(name); value != "" {
			t.Errorf("200 with %s: %s", name, value)
		}
	}

	timers.page.Next, timers.page.Unreached = &store.Place{At: once.At, Key: "tea"}, 1
	for method, body := range map[string]bool{"GET": true, "HEAD": false} {
		got = ask(t, s, method, resyncOf("d"), "", "Range", "2")
		next := "</timers?node-for-replicas=d&cluster-view-id=2f1c86d0a7b9e453&time-from=1795221218390000&after=tea>; rel=\"next\""
		if got.Status != http.StatusPartialContent || got.Header.Get("Content-Range") != "2" || got.Header.Get("Link") != next ||
			got.Header.Get("X-Chronos-Unreached") != "1" || len(got.Body) > 0 != body {
			t.Errorf("%s: %d %v", method, got.Status, got.Header)
		}
	}
	path, _, _ := strings.Cut(strings.TrimPrefix(got.Header.Get("Link"), "<"), ">")
	if ask(t, s, "GET", path, ""); timers.query.After != *timers.page.Next {
		t.Errorf("the link leads behind %+v, want %+v", timers.query.After, *timers.page.Next)
	}

	timers.page = resync.Page{View: "2f1c86d0a7b9e453"}
	if got := ask(t, s, "GET", resyncOf("d"), ""); got.Status != http.StatusOK || string(got.Body) != `{"timers":[]}` {
		t.Errorf("of no timers: %d %s", got.Status, got.Body)
	}
}

func TestResyncQueries(t *testing.T) {
	timers := &fakeTimers{}
	s := New(Config{Timers: timers, Authorizer: anyone{}})
	at := func(ms int64, key string) store.Place {
		return store.Place{At: time.UnixMilli(ms).UTC(), Key: key}
	}
	for name, tc := range map[string]struct {
		more, count string
		after       store.Place
		limit       int
	}{
		"neither":            {limit: 1000},
		"a number":           {count: "100", limit: 100},
		"one":                {count: "1", limit: 1},
		"zeros before":       {count: "007", limit: 7},
		"more than there is": {count: "1001", limit: 1000},
		"more than fits":     {count: strings.Repeat("9", 400), limit: 1000},
		"from the begin":     {more: "&time-from=0", after: at(0, ""), limit: 1000},
		"a whole ms":         {more: "&time-from=1795221218390000", after: at(1_795_221_218_390, ""), limit: 1000},
		"within a ms":        {more: "&time-from=1795221218390001", after: at(1_795_221_218_391, ""), limit: 1000},
		"the last instant":   {more: "&time-from=9223372036854775807", after: at(9_223_372_036_854_776, ""), limit: 1000},
		"behind a key":       {more: "&time-from=5000&after=tea", after: at(5, "tea"), limit: 1000},
		"others are ignored": {more: "&sites=x&sites=y", limit: 1000},
	} {
		t.Run(name, func(t *testing.T) {
			var headers []string
			if tc.count != "" {
				headers = []string{"Range", tc.count}
			}
			if got := ask(t, s, "GET", resyncOf("d", tc.more), "", headers...); got.Status != http.StatusOK {
				t.Fatalf("status %d: %s", got.Status, got.Body)
			}
			want := resync.Query{Shard: "d", View: "2f1c86d0a7b9e453", After: tc.after, Limit: tc.limit, Bytes: resyncBytes}
			if diff := cmp.Diff(want, timers.query); diff != "" {
				t.Errorf("query (-want +got):\n%s", diff)
			}
		})
	}
}

func TestResyncRefusals(t *testing.T) {
	const node, view = "node-for-replicas=d", "cluster-view-id=2f"
	const both = node + "&" + view
	s := New(Config{Timers: &fakeTimers{before: func(context.Context, string, timer.ID) error { return errors.New("it was carried out") }}, Authorizer: anyone{}})
	for query, code := range map[string]string{
		"":                                            "node-for-replicas",
		"?":                                           "node-for-replicas",
		"?" + view:                                    "node-for-replicas",
		"?node-for-replicas=&" + view:                 "node-for-replicas",
		"?node-for-replicas&" + view:                  "node-for-replicas",
		"?" + both + "&" + node:                       "node-for-replicas",
		"?NODE-FOR-REPLICAS=d&" + view:                "node-for-replicas",
		"?" + node:                                    "cluster-view-id",
		"?" + node + "&cluster-view-id=":              "cluster-view-id",
		"?" + both + "&" + view:                       "cluster-view-id",
		"?" + both + "&time-from=":                    "time-from",
		"?" + both + "&time-from":                     "time-from",
		"?" + both + "&time-from=-1":                  "time-from",
		"?" + both + "&time-from=+1":                  "time-from",
		"?" + both + "&time-from=1.5":                 "time-from",
		"?" + both + "&time-from=1e9":                 "time-from",
		"?" + both + "&time-from=0x10":                "time-from",
		"?" + both + "&time-from=1_0":                 "time-from",
		"?" + both + "&time-from=2027-01-01":          "time-from",
		"?" + both + "&time-from=%D9%A1":              "time-from",
		"?" + both + "&time-from=1&time-from=1":       "time-from",
		"?" + both + "&time-from=9223372036854775808": "time-from",
		"?" + both + "&time-from=" + strings.Repeat("9", 4000):        "time-from",
		"?" + both + "&after=tea":                                     "after",
		"?" + both + "&time-from=1&after=":                            "after",
		"?" + both + "&time-from=1&after=a&after=b":                   "after",
		"?" + both + "&time-from=1&after=a%20b":                       "after",
		"?" + both + "&time-from=1&after=tea-2-0000000000008421":      "after",
		"?" + both + "&time-from=1&after=" + strings.Repeat("k", 129): "after",
	} {
		apitest.WantProblem(t, ask(t, s, "GET", "/timers"+query, ""), 400, code, apitest.NoPointer)
	}
	for _, count := range []string{"0", "000", "-1", "+1", "1.0", "1e2", "ten", "bytes=0-99", "timers=10", "1,2", "1 2", "0x10", "\u0661"} {
		apitest.WantProblem(t, ask(t, s, "GET", "/timers?"+both, "", "Range", count), 400, "range", apitest.NoPointer)
	}
	address := apitest.Serve(t, s)
	got, _ := apitest.Send(t, apitest.Dial(t, address), "GET /timers?"+both+" HTTP/1.1\r\nHost: h\r\nRange: 1\r\nRange: 2\r\n\r\n")
	apitest.WantProblem(t, got, 400, "range", apitest.NoPointer)
}

func TestResyncErrors(t *testing.T) {
	var fault error
	s := New(Config{Timers: &fakeTimers{before: func(context.Context, string, timer.ID) error { return fault }}, Authorizer: anyone{}})
	for _, tc := range []struct {
		err    error
		status int
		code   string
	}{
		{&resync.ViewError{Present: "00000000000000aa"}, 400, "cluster-view-mismatch"},
		{timer.ErrShardUnknown, 404, "shard-unknown"},
		{fmt.Errorf("%w: 2 of 3", resync.ErrShardsAway), 503, "shards-away"},
		{timer.ErrUnavailable, 503, "store-unavailable"},
		{context.DeadlineExceeded, 503, "store-unavailable"},
		{errors.New("password"), 500, "internal"},
	} {
		fault = tc.err
		got := ask(t, s, "GET", resyncOf("d"), "")
		apitest.WantProblem(t, got, tc.status, tc.code, apitest.NoPointer)
		if tc.status == 503 && got.Header.Get("Retry-After") == "" {
			t.Errorf("%s without Retry-After", tc.code)
		}
		if tc.code == "cluster-view-mismatch" && !strings.Contains(got.Header.Get("Reason"), "00000000000000aa") {
			t.Errorf("Reason %q doesn't say which view is the present one", got.Header.Get("Reason"))
		}
	}
	for err, want := range map[error]string{timer.ErrShardUnknown: "404 shard-unknown", timer.ErrUnavailable: "503 store-unavailable"} {
		fault = err
		got := ask(t, s, "DELETE", "/timers/references?node-for-replicas=d", references("tea"))
		if p := apitest.Parse[apitest.Problem](t, got.Body); fmt.Sprint(got.Status, " ", p.Code) != want {
			t.Errorf("have %d %s, want %s", got.Status, p.Code, want)
		}
	}
}

func TestReferencesAreDropped(t *testing.T) {
	const path = "/timers/references?node-for-replicas=d"
	many := make([]string, maxReferences)
	for i := range many {
		many[i] = fmt.Sprint("k", i)
	}
	for name, tc := range map[string]struct {
		body string
		keys []string
	}{
		"ids and keys":      {references("tea", "cake-2-0000000000008421"), []string{"tea", "cake"}},
		"none":              {`{"IDs":[]}`, nil},
		"twice":             {references("tea", "tea"), []string{"tea", "tea"}},
		"others":            {`{"x":[{}],"IDs":[{"y":null,"ReplicaIndex":1e2,"ID":"t\u0065a"}]} `, []string{"tea"}},
		"as many as may be": {references(many...), many},
	} {
		t.Run(name, func(t *testing.T) {
			timers := &fakeTimers{}
			got := ask(t, New(Config{Timers: timers, Authorizer: anyone{}}), "DELETE", path, tc.body)
			if got.Status != http.StatusAccepted || len(got.Body) != 0 {
				t.Fatalf("have %d %s", got.Status, got.Body)
			}
			if diff := cmp.Diff(tc.keys, timers.dropped["d"]); diff != "" {
				t.Errorf("keys (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReferencesAreRefused(t *testing.T) {
	s := New(Config{Timers: &fakeTimers{before: func(context.Context, string, timer.ID) error { return errors.New("it was carried out") }}, Authorizer: anyone{}})
	const path = "/timers/references?node-for-replicas=d"
	for body, want := range map[string][2]string{
		"":                             {"body-missing", ""},
		" ":                            {"body-missing", ""},
		"[]":                           {"body-not-object", ""},
		"null":                         {"body-not-object", ""},
		"{":                            {"body-syntax", ""},
		`{"IDs":[`:                     {"body-syntax", ""},
		`{"IDs":[}`:                    {"body-syntax", ""},
		`{"IDs":[]}x`:                  {"body-trailing", ""},
		`{"IDs":[]}{}`:                 {"body-trailing", ""},
		"{}":                           {"references-type", "/IDs"},
		`{"ids":[]}`:                   {"references-type", "/IDs"},
		`{"IDs":{}}`:                   {"references-type", "/IDs"},
		`{"IDs":null}`:                 {"references-type", "/IDs"},
		`{"IDs":[],"IDs":[]}`:          {"member-duplicate", "/IDs"},
		`{"IDs":[1]}`:                  {"references-entry", "/IDs/0"},
		`{"IDs":["tea"]}`:              {"references-entry", "/IDs/0"},
		`{"IDs":[[]]}`:                 {"references-entry", "/IDs/0"},
		`{"IDs":[{}]}`:                 {"references-entry", "/IDs/0/ID"},
		`{"IDs":[{"ID":"tea"}]}`:       {"references-entry", "/IDs/0/ReplicaIndex"},
		`{"IDs":[{"ReplicaIndex":0}]}`: {"references-entry", "/IDs/0/ID"},
		`{"IDs":[{"ID":"tea","ReplicaIndex":0},{"ID":1,"ReplicaIndex":0}]}`:        {"references-entry", "/IDs/1/ID"},
		`{"IDs":[{"ID":"","ReplicaIndex":0}]}`:                                     {"references-entry", "/IDs/0/ID"},
		`{"IDs":[{"ID":"a b","ReplicaIndex":0}]}`:                                  {"references-entry", "/IDs/0/ID"},
		`{"IDs":[{"ID":"references","ReplicaIndex":0}]}`:                           {"references-entry", "/IDs/0/ID"},
		`{"IDs":[{"ID":"a#","ReplicaIndex":0}]}`:                                   {"references-entry", "/IDs/0/ID"},
		`{"IDs":[{"ID":"tea","ReplicaIndex":-1}]}`:                                 {"references-entry", "/IDs/0/ReplicaIndex"},
		`{"IDs":[{"ID":"tea","ReplicaIndex":0.5}]}`:                                {"references-entry", "/IDs/0/ReplicaIndex"},
		`{"IDs":[{"ID":"tea","ReplicaIndex":1e99}]}`:                               {"references-entry", "/IDs/0/ReplicaIndex"},
		`{"IDs":[{"ID":"tea","ReplicaIndex":"0"}]}`:                                {"references-entry", "/IDs/0/ReplicaIndex"},
		`{"IDs":[{"ID":"tea","ReplicaIndex":null}]}`:                               {"references-entry", "/IDs/0/ReplicaIndex"},
		`{"IDs":[{"ID":"tea","ID":"tea","ReplicaIndex":0}]}`:                       {"member-duplicate", "/IDs/0/ID"},
		`{"IDs":[{"ID":"` + "\xff" + `","ReplicaIndex":0}]}`:                       {"string-utf8", "/IDs/0/ID"},
		`{"IDs":[{"ID":"\ud800","ReplicaIndex":0}]}`:                               {"string-surrogate", "/IDs/0/ID"},
		`{"x":` + strings.Repeat("[", 40) + strings.Repeat("]", 40) + `,"IDs":[]}`: {"body-depth", ""},
		`{"IDs":` + strings.Repeat("[", 20000):                                     {"references-entry", "/IDs/0"},
		references(make([]string, 1)...):                                           {"references-entry", "/IDs/0/ID"},
		references(strings.Split(strings.Repeat("k,", maxReferences)+"k", ",")...): {"references-too-many", "/IDs"},
	} {
		apitest.WantProblem(t, ask(t, s, "DELETE", path, body), 400, want[0], want[1])
	}
	apitest.WantProblem(t, ask(t, s, "DELETE", path, references("tea"), "Content-Encoding", "gzip"), 415, "content-encoding", apitest.NoPointer)
	for _, query := range []string{"", "?node-for-replicas=", "?node-for-replicas=a&node-for-replicas=a"} {
		apitest.WantProblem(t, ask(t, s, "DELETE", "/timers/references"+query, references("tea")), 400, "node-for-replicas", apitest.NoPointer)
	}
}

// The method's role suffices to have a body held, but must not suffice for the request.
func TestLargeReferencesNeedTheRole(t *testing.T) {
	many := make([]string, maxReferences)
	for i := range many {
		many[i] = fmt.Sprint("k", i)
	}
	body := references(many...)
	for role, status := range map[tokens.Role]int{tokens.Read: 403, tokens.Write: 403, tokens.Admin: 202} {
		s, byRole := guarded(t, &fakeTimers{})
		got, _ := apitest.Send(t, apitest.Dial(t, apitest.Serve(t, s)), fmt.Sprintf("DELETE /timers/references?node-for-replicas=d HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s",
			byRole[role], len(body), body))
		if got.Status != status || len(body) <= 8<<10 {
			t.Errorf("as %s, %d bytes: have %d, want %d", role, len(body), got.Status, status)
		}
	}
}

// Without tokens the public listener would show everybody all timers.
func TestResyncWithoutTokensIsOnTheAdminListener(t *testing.T) {
	timers := &fakeTimers{page: resync.Page{View: "2f1c86d0a7b9e453", Timers: []resync.Entry{resynced()}, Next: &store.Place{Key: "tea"}}}
	s := New(Config{Timers: timers, Limits: transport.Limits{MaxBody: 4096}})
	const drop = "/timers/references?node-for-replicas=d"
	for _, request := range []string{"GET " + resyncOf("d"), "GET /timers", "GET /%74imers", "DELETE " + drop, "DELETE /timers/%72eferences"} {
		method, path, _ := strings.Cut(request, " ")
		got := ask(t, s, method, path, references("tea"))
		apitest.WantProblem(t, got, http.StatusForbidden, "admin-listener", apitest.NoPointer)
		if !strings.Contains(got.Header.Get("Reason"), "CHRONOS_ADMIN_LISTEN") {
			t.Errorf("%s: the answer does not say where to ask: %s", request, got.Body)
		}
	}
	if got := ask(t, s, "HEAD", resyncOf("d"), ""); got.Status != http.StatusForbidden {
		t.Errorf("HEAD: %d", got.Status)
	}
	if timers.query.Shard != "" || timers.dropped != nil {
		t.Errorf("asked %+v, dropped %v", timers.query, timers.dropped)
	}

	withTokens, byRole := guarded(t, timers)
	admin := NewAdmin(AdminConfig{Authorizer: withTokens.authorizer, OpenReads: true, Resync: s.Resynchronisation()})
	same := ask(t, New(Config{Timers: timers, Authorizer: anyone{}}), "GET", resyncOf("d"), "")
	for _, role := range []tokens.Role{openRead, tokens.Read, tokens.Write, tokens.List, tokens.Admin} {
		timers.dropped = nil
		read, dropped := askAdmin(t, admin, "GET", resyncOf("d"), byRole[role]), askAdmin(t, admin, "DELETE", drop, byRole[role], references("tea"))
		if role != tokens.Admin {
			if status := read.Status; status != dropped.Status || status != 401 && status != 403 || timers.dropped != nil {
				t.Errorf("as %s: %d and %d, dropped %v", role, read.Status, dropped.Status, timers.dropped)
			}
			continue
		}
		if read.Status != http.StatusPartialContent || string(read.Body) != string(same.Body) || read.Header.Get("Link") != same.Header.Get("Link") ||
			dropped.Status != http.StatusAccepted || len(timers.dropped["d"]) != 1 {
			t.Errorf("as %s: %d %v %s, %d, dropped %v", role, read.Status, read.Header, read.Body, dropped.Status, timers.dropped)
		}
	}
	token := byRole[tokens.Admin]
	for _, path := range []string{strings.ReplaceAll(resyncOf("d"), "&", ";"), strings.Replace(resyncOf("d"), "?", "/?", 1)} {
		if got := askAdmin(t, admin, "GET", path, token); got.Status != http.StatusPartialContent || string(got.Body) != string(same.Body) {
			t.Errorf("%s: %d %s", path, got.Status, got.Body)
		}
	}
	apitest.WantProblem(t, askAdmin(t, admin, "GET", "/timers", token), http.StatusBadRequest, "node-for-replicas", apitest.NoPointer)
	apitest.WantProblem(t, askAdmin(t, admin, "DELETE", drop, token, strings.Repeat(" ", 4097)), http.StatusRequestEntityTooLarge, "body-too-large", apitest.NoPointer)
	if got := askAdmin(t, admin, "GET", "/timers/tea", token); got.Status != http.StatusNotFound {
		t.Errorf("a timer on the admin listener: %d %s", got.Status, got.Body)
	}
}
