package api

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/valyala/fasthttp"

	"chronos/api/apitest"
	"chronos/api/tokens"
	"chronos/scheduler/resync"
	"chronos/scheduler/statistics"
	"chronos/scheduler/timer"
)

// confined is a server with tokens of the role write: for each prefix, and "" for all timers.
func confined(t testing.TB, timers Timers, prefixes ...string) (s *Server, byPrefix map[string]string) {
	t.Helper()
	all := confinedAs(t, tokens.Write, prefixes...)
	byPrefix = map[string]string{}
	for prefix, token := range all.tokens {
		byPrefix[prefix] = "Bearer " + token
	}
	return New(Config{Timers: timers, Authorizer: all.set}), byPrefix
}

// prefixed are tokens by prefix.
type prefixed struct {
	set    *tokens.Set
	tokens map[string]string
}

// confinedAs makes tokens of a role: for each prefix, and "" for all timers.
func confinedAs(t testing.TB, role tokens.Role, prefixes ...string) prefixed {
	t.Helper()
	var file strings.Builder
	byPrefix := map[string]string{}
	for i, prefix := range prefixes {
		token, line, err := tokens.Generate("name-"+strconv.Itoa(i), role, prefix, rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		byPrefix[prefix] = token.Reveal()
		file.WriteString(line + "\n")
	}
	set, err := tokens.Parse([]byte(file.String()))
	if err != nil {
		t.Fatal(err)
	}
	return prefixed{set, byPrefix}
}

// known are timers of the given keys; the callbacks tell the keys.
func known(t testing.TB, keys ...string) *fakeTimers {
	t.Helper()
	f := &fakeTimers{}
	for _, key := range keys {
		if _, err := f.store(timer.ID{Key: key}, timer.Timer{ReplicationFactor: 2, Callback: timer.Callback{URI: "http://h/" + key}}); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

// routeAnswer is the answer to a request; code is "" for a success.
type routeAnswer struct {
	path, body string
	status     int
	code       string
}

// publicAnswers are the answers to a token with the prefix a., by route.
func publicAnswers() map[string][]routeAnswer {
	const noCode = ""
	return map[string][]routeAnswer{
		"POST /timers":       {{"/timers", apitest.Simple, 200, noCode}, {"/timers/", apitest.Simple, 200, noCode}},
		"POST /timers/batch": {{"/timers/batch", apitest.ListOf(apitest.Simple), 200, noCode}},
		"GET /timers": {
			{resyncOf("a"), "", 403, "token-scope"}, {"/timers", "", 403, "token-scope"}, {"/timers/", "", 403, "token-scope"},
		},
		"DELETE /timers/references": {{"/timers/references?node-for-replicas=a", references("b.secret"), 403, "token-scope"}},
		"GET /timers/:id": {
			{"/timers/a.own", "", 200, noCode}, {"/timers/a.none", "", 404, "timer-not-found"}, {"/timers/a.", "", 404, "timer-not-found"},
			{"/timers/b.secret", "", 403, "id-prefix"}, {"/timers/b.none", "", 403, "id-prefix"}, {"/timers/a", "", 403, "id-prefix"},
			{"/timers/batch", "", 405, "method-not-allowed"}, {"/timers/references", "", 403, "token-scope"},
		},
		"PUT /timers/:id": {
			{"/timers/a.new", apitest.Simple, 200, noCode}, {"/timers/b.secret", apitest.Simple, 403, "id-prefix"}, {"/timers/b.none", apitest.Simple, 403, "id-prefix"},
			{"/timers/b.secret", "nonsense", 403, "id-prefix"}, {"/timers/batch", apitest.Simple, 405, "method-not-allowed"},
		},
		"PATCH /timers/:id": {
			{"/timers/a.own", apitest.Simple, 200, noCode}, {"/timers/a.none", apitest.Simple, 404, "timer-not-found"}, {"/timers/b.secret", apitest.Simple, 403, "id-prefix"},
			{"/timers/b.none", apitest.Simple, 403, "id-prefix"}, {"/timers/b.secret", "nonsense", 403, "id-prefix"}, {"/timers/batch", apitest.Simple, 405, "method-not-allowed"},
		},
		"DELETE /timers/:id": {
			{"/timers/a.new", "", 201, noCode}, {"/timers/a.none", "", 201, noCode}, {"/timers/b.secret", "", 403, "id-prefix"}, {"/timers/b.none", "", 403, "id-prefix"},
		},
		"GET /timers/:id/deliveries": {
			{"/timers/a.own/deliveries", "", 404, "deliveries-off"}, {"/timers/b.secret/deliveries", "", 403, "id-prefix"}, {"/timers/b.none/deliveries", "", 403, "id-prefix"},
		},
		"GET /statistics":   {{"/statistics", "", 403, "id-prefix"}, {"/%73tatistics", "", 403, "id-prefix"}},
		"GET /openapi.yaml": {{"/openapi.yaml", "", 200, noCode}},
		"GET /ping":         {{"/ping", "", 200, noCode}, {"/%70ing", "", 200, noCode}},
	}
}

// Every route of the public listener, as a token with the prefix a. gets it.
func TestPublicRoutesWithAPrefix(t *testing.T) {
	tests := publicAnswers()
	secret := resynced()
	secret.Record.ID.Key = "b.secret"
	timers := known(t, "a.own", "b.secret")
	timers.page, timers.counted = resync.Page{Timers: []resync.Entry{secret}}, statistics.Sums{Incomplete: []string{"b.secret"}}
	s, byPrefix := confined(t, timers, "a.")
	served := map[string]bool{}
	for _, r := range s.app.GetRoutes(true) {
		if route := routeOf([]byte(strings.ReplaceAll(r.Path, ":id", "k"))); route == routeOther {
			t.Errorf("%s %s counts as a path that leads nowhere", r.Method, r.Path)
		}
		served[strings.Replace(r.Method, http.MethodHead, http.MethodGet, 1)+" "+r.Path] = true
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(served)), slices.Sorted(maps.Keys(tests))); diff != "" {
		t.Fatalf("routes (-server +table):\n%s", diff)
	}
	for name, requests := range tests {
		method, _, _ := strings.Cut(name, " ")
		methods := []string{method}
		if method == http.MethodGet {
			methods = append(methods, http.MethodHead)
		}
		for _, method := range methods {
			for _, c := range requests {
				got := ask(t, s, method, c.path, c.body, "Authorization", byPrefix["a."])
				if got.Status != c.status || !bytes.Contains(got.Body, []byte(c.code)) && method != http.MethodHead {
					t.Errorf("%s %s: %d %s, want %d %s", method, c.path, got.Status, got.Body, c.status, c.code)
				}
				if all := fmt.Sprint(got.Header, string(got.Body)); strings.Contains(all, "secret") && c.path != openAPIPath {
					t.Errorf("%s %s shows another timer: %s", method, c.path, all)
				}
			}
		}
	}
	if _, ok := timers.get("b.secret"); !ok || len(timers.dropped) > 0 || timers.query.Shard != "" {
		t.Errorf("the other timer is there %v; dropped %v, listed %v", ok, timers.dropped, timers.query)
	}
	apitest.WantProblem(t, ask(t, s, "GET", "/nothing", "", "Authorization", byPrefix["a."]), 404, "path-unknown", apitest.NoPointer)
	apitest.WantProblem(t, ask(t, s, "POST", "/timers/b.secret", "", "Authorization", byPrefix["a."]), 405, "method-not-allowed", apitest.NoPointer)
}

// The key decides, as the handler reads the key: not the spelling in the path, and not what stands behind the key.
func TestIDsOfAPrefix(t *testing.T) {
	timers := known(t, "a.own", "a.b.own", "A.own", "b.secret", "x", "x-2-own", "xa.")
	s, byPrefix := confined(t, timers, "a.", "a.b.", "x-2-", "")
	for _, c := range []struct {
		prefix, id string
		status     int
	}{
		{"a.", "a.own", 200}, {"a.", "a%2Eown", 200}, {"a.", "%61%2e%6f%77%6e", 200}, {"a.", "a.own-2-0000000000000001", 200}, {"a.", "a.own?prefix=b.", 200},
		{"a.", "a.b.own", 200}, // begins with a., too
		{"a.b.", "a.b.own", 200}, {"a.b.", "a.own", 403}, {"a.b.", "a.b-own", 403},
		{"a.", "A.own", 403}, {"a.", "%41.own", 403}, {"a.", "xa.", 403}, {"a.", "b%2Esecret", 403}, {"a.", "b.secret-2-0000000000000001", 403},
		{"a.", "b.secret#a.", 403}, {"a.", "b.secret?a.own", 403}, {"a.", "b.secret;a.", 400},
		{"a.", "a%252Eown", 400}, {"a.", "%00a.own", 400}, {"a.", "a.%ff", 400}, {"a.", strings.Repeat("a.", 100), 400},
		{"a.", "a.%2F..%2Fb.secret", 404}, {"a.", "a./../b.secret", 404}, {"a.", "../b.secret", 404}, {"a.", ".%2e", 400},
		{"x-2-", "x-2-own", 200}, {"x-2-", "x-2-0123456789abcdef", 403}, // the id of the key x
		{"", "x-2-0123456789abcdef", 200}, {"", "b.secret", 200}, {"", "a.own", 200},
	} {
		got := ask(t, s, "GET", "/timers/"+c.id, "", "Authorization", byPrefix[c.prefix])
		if code := []byte("id-prefix"); got.Status != c.status || bytes.Contains(got.Body, code) != (c.status == 403) {
			t.Errorf("prefix %q, id %.40q: %d %s, want %d", c.prefix, c.id, got.Status, got.Body, c.status)
		}
	}
}

// A refusal is the same, byte by byte, whether or not the timer exists.
func TestNobodyLearnsWhichOtherTimersExist(t *testing.T) {
	timers := known(t, "b.secret")
	timers.before = func(_ context.Context, operation string, id timer.ID) error {
		t.Errorf("%s of %s was asked for", operation, id)
		return nil
	}
	s, byPrefix := confined(t, timers, "a.")
	for _, method := range []string{"GET", "HEAD", "PUT", "PATCH", "DELETE"} {
		var answers []string
		for _, id := range []string{"b.secret", "b.absent"} {
			got := ask(t, s, method, "/timers/"+id, apitest.Simple, "Authorization", byPrefix["a."])
			got.Header.Del("Date")
			answers = append(answers, fmt.Sprint(got.Status, got.Header, string(got.Body)))
		}
		if answers[0] != answers[1] {
			t.Errorf("%s: %s\n%s", method, answers[0], answers[1])
		}
	}
}

func TestCreatesUnderAPrefix(t *testing.T) {
	timers := &fakeTimers{}
	s, byPrefix := confined(t, timers, "a.", "a.b.", "")
	create := func(prefix, body string, headers ...string) (receiptView, string) {
		t.Helper()
		got := ask(t, s, "POST", "/timers", body, append(headers, "Authorization", byPrefix[prefix])...)
		view := apitest.Parse[receiptView](t, got.Body)
		if got.Status != 200 || got.Header.Get("Location") != "/timers/"+view.ID || view.ID != view.Key+"-2-0000000000008421" {
			t.Errorf("prefix %q: %d %v %s", prefix, got.Status, got.Header, got.Body)
		}
		return view, got.Header.Get("Idempotent-Replayed")
	}
	const once = "Idempotency-Key"
	for prefix := range byPrefix {
		minted := regexp.MustCompile(`^` + regexp.QuoteMeta(prefix) + `[0-9a-f]{32}$`)
		if made, _ := create(prefix, apitest.Simple); !minted.MatchString(made.Key) {
			t.Errorf("prefix %q: key %s", prefix, made.Key)
		}
		body := apitest.Due(1 + len(prefix)) // another one under each prefix
		first, replayed := create(prefix, body, once, "k1")
		again, replayedAgain := create(prefix, body, once, "k1")
		if want := prefix + timer.OnceKey("k1"); first.Key != want || !cmp.Equal(first, again) || replayed != "" || replayedAgain != "true" {
			t.Errorf("prefix %q: keys %s and %s, replayed %q and %q; want %s twice", prefix, first.Key, again.Key, replayed, replayedAgain, want)
		}
		got := ask(t, s, "POST", "/timers", apitest.Due(99), once, "k1", "Authorization", byPrefix[prefix])
		apitest.WantProblem(t, got, 422, "idempotency-key-reused", apitest.NoPointer)
	}
	if n := len(timers.records); n != 6 {
		t.Errorf("%d timers, want one with and one without an idempotency key under each prefix", n)
	}
	apitest.WantProblem(t, ask(t, s, "POST", "/timers", apitest.WithMore(`"timing":1`), "Authorization", byPrefix["a."]), 400, "member-duplicate", "/timing")
}

// All entries of a batch are made under the prefix, whatever an entry says about ids.
func TestBatchUnderAPrefix(t *testing.T) {
	timers := &fakeTimers{}
	s, byPrefix := confined(t, timers, "a.", "b.")
	body := apitest.ListOf(apitest.Due(1), apitest.WithMore(`"id":"b.secret","key":"b.secret"`), apitest.WithMore(`"id":"a.own"`), apitest.Due(-1))
	batch := func(prefix, key string) (keys []string) {
		t.Helper()
		headers := []string{"Authorization", byPrefix[prefix]}
		if key != "" {
			headers = append(headers, "Idempotency-Key", key)
		}
		for _, result := range wantBatch(t, ask(t, s, "POST", "/timers/batch", body, headers...), http.StatusMultiStatus, 3, 1).Results {
			if result.Error == nil {
				keys = append(keys, result.Key)
			}
		}
		for _, made := range keys {
			if rest, begins := strings.CutPrefix(made, prefix); !begins || strings.Contains(rest, ".") {
				t.Errorf("prefix %q: key %s", prefix, made)
			}
		}
		return keys
	}
	batch("a.", "")
	batch("b.", "")
	first, other, again := batch("a.", "k"), batch("b.", "k"), batch("a.", "k")
	if !slices.Equal(first, again) || slices.Equal(first, other) || len(timers.records) != 4*3 {
		t.Errorf("%v, then %v, and %v under another prefix; %d timers", first, again, other, len(timers.records))
	}
}

// A large body is authorized before its path is judged; the prefix counts for this request alone.
func TestLargeBodiesWithAPrefix(t *testing.T) {
	timers := &fakeTimers{}
	s, byPrefix := confined(t, timers, "a.", "b.", "")
	large := apitest.WithMore(`"x":"` + strings.Repeat("x", 9000) + `"`)
	whole := func(method, path, prefix string) string {
		return method + " " + path + " HTTP/1.1\r\nHost: h\r\nAuthorization: " + byPrefix[prefix] + "\r\nContent-Length: " + strconv.Itoa(len(large)) + "\r\n\r\n" + large
	}
	chunked := func(method, path, prefix string) string {
		return method + " " + path + " HTTP/1.1\r\nHost: h\r\nAuthorization: " + byPrefix[prefix] + "\r\nTransfer-Encoding: chunked\r\n\r\n" + apitest.InChunks(large, 500) + "\r\n"
	}
	small := func(method, path, prefix string) string {
		return method + " " + path + " HTTP/1.1\r\nHost: h\r\nAuthorization: " + byPrefix[prefix] + "\r\n\r\n"
	}
	c := apitest.Dial(t, apitest.Serve(t, s))
	var raw strings.Builder
	var want, have []int
	for _, r := range []struct {
		request string
		status  int
	}{
		{whole("PUT", "/timers/a.1", "a."), 200}, {whole("PUT", "/timers/b.1", "a."), 403}, {whole("PUT", "/timers/b.1", "b."), 200},
		{small("GET", "/timers/a.1", "b."), 403}, {small("GET", "/timers/a.1", ""), 200}, {chunked("PUT", "/timers/b.1", ""), 200},
		{chunked("PUT", "/timers/b.2", "a."), 403}, {small("GET", "/timers/b.1", ""), 200}, {whole("POST", "/timers", "a."), 200},
		{whole("PUT", "/timers/b.1", ""), 200}, {small("DELETE", "/timers/b.1", "a."), 403}, {chunked("DELETE", "/timers/b.1", "a."), 403},
	} {
		raw.WriteString(r.request)
		want = append(want, r.status)
	}
	go func() { _, _ = io.WriteString(c, raw.String()) }() // ends when all is read, or with the connection
	answers := bufio.NewReader(c)
	for range want {
		have = append(have, apitest.Receive(t, answers).Status)
	}
	keys := slices.Sorted(maps.Keys(timers.records))
	if diff := cmp.Diff(want, have); diff != "" || len(keys) != 3 || !strings.HasPrefix(keys[0], "a.0") || keys[1] != "a.1" || keys[2] != "b.1" {
		t.Errorf("timers %v; -want +have:\n%s", keys, diff)
	}
}

// What a prefix that the file accepts becomes is a key that a timer may have.
func TestPrefixesMakeValidKeys(t *testing.T) {
	for _, prefix := range []string{
		"a", "~", "-", "-2-", "x-2-", "x-2-0123456789abcdef", "00a5c3d2e4f60001-", "00a5c3d2e4f60001", "batch.", "references-", "...", "ik-", strings.Repeat("-1", 32),
	} {
		key, err := timer.NewKey()
		if _, _, refused := tokens.Generate("n", tokens.Read, prefix, rand.Reader); refused != nil || err != nil {
			t.Errorf("%q is refused: %v, %v", prefix, refused, err)
		}
		for _, key := range []string{prefix + key, prefix + timer.OnceKey("k")} {
			if id, err := timer.ParseID(timer.ID{Key: key, RF: 16, Hint: ^timer.Hint(0)}.String()); err != nil || id.Key != key || !timer.ValidKey(key) {
				t.Errorf("%s is read as %+v, %v", key, id, err)
			}
		}
	}
	for _, c := range []string{"a/", "a b", "%61", "ä", "", "batch", "references", ".", "..", strings.Repeat("a", 65)} {
		if _, _, err := tokens.Generate("n", tokens.Read, c, rand.Reader); err == nil && c != "" {
			t.Errorf("%q is accepted", c)
		}
	}
}

// A token without a prefix costs no allocation on its way through the guard.
func TestConfineDoesNotAllocate(t *testing.T) {
	s, byPrefix := confined(t, &fakeTimers{}, "", "a.")
	var rc fasthttp.RequestCtx
	rc.Request.SetRequestURI("/timers/k")
	rc.Request.Header.SetMethod("GET")
	rc.Request.Header.Set("Authorization", byPrefix[""])
	if n := testing.AllocsPerRun(1000, func() {
		if s.refuseUnauthorized(&rc) || prefixOf(&rc) != "" {
			t.Error("refused, or held to a prefix")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
