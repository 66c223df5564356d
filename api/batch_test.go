package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"chronos/api/apitest"
	"chronos/api/transport"
	"chronos/scheduler/timer"
)

// batchView is the answer to a batch.
type batchView struct {
	Created int          `json:"created"`
	Failed  int          `json:"failed"`
	Results []resultView `json:"results"`
	Ignored []string     `json:"ignored"`
}

type resultView struct {
	receiptView

	Replayed bool         `json:"replayed"`
	Error    *failureOnly `json:"error"`
}

type failureOnly struct {
	apitest.Problem

	RetryAfter int `json:"retry-after"`
}

func wantBatch(t *testing.T, a apitest.Answer, status, created, failed int) batchView {
	t.Helper()
	if a.Status != status || a.Header.Get("Content-Type") != "application/json" || a.Header.Get("Location") != "" || a.Header.Get("Reason") != "" {
		t.Fatalf("have %d %v: %.500s", a.Status, a.Header, a.Body)
	}
	view := apitest.Parse[batchView](t, a.Body)
	if view.Created != created || view.Failed != failed || len(view.Results) != created+failed {
		t.Fatalf("have %d created, %d failed, %d results; want %d, %d", view.Created, view.Failed, len(view.Results), created, failed)
	}
	return view
}

func TestBatch(t *testing.T) {
	timers := &fakeTimers{}
	s := New(Config{Timers: timers})
	got := ask(t, s, "POST", "/timers/batch", `{"color":1,"timers" : [`+apitest.Due(7)+` , `+apitest.WithMore(`"a/b":[{}],"reliability":{"sites":[],"replication-factor":3}`)+"\n],\"\u00e9\":null}")
	view := wantBatch(t, got, http.StatusOK, 2, 0)
	if diff := cmp.Diff([]string{"/color", "/\u00e9"}, view.Ignored); diff != "" {
		t.Errorf("ignored (-want +have):\n%s", diff)
	}
	for i, want := range []receiptView{
		{Due: "2030-01-31T12:00:07.000Z", Copies: 1},
		{Due: "2030-01-31T12:00:01.000Z", Copies: 1, Ignored: []string{"/timers/1/a~1b", "/timers/1/reliability/sites"}},
	} {
		result := view.Results[i]
		stored, ok := timers.get(result.Key)
		if factor := 2 + i; !ok || stored.Record.Timer.ReplicationFactor != factor || result.ID != fmt.Sprintf("%s-%d-0000000000008421", result.Key, factor) {
			t.Errorf("timer %d: id %q, stored %+v", i, result.ID, stored)
		}
		want.ID, want.Key = result.ID, result.Key
		if diff := cmp.Diff(resultView{receiptView: want}, result, cmp.AllowUnexported(resultView{})); diff != "" {
			t.Errorf("timer %d (-want +have):\n%s", i, diff)
		}
	}
	if got.Header.Get("Idempotent-Replayed") != "" {
		t.Error("nothing was replayed, but the answer says so")
	}
}

func TestBatchSizes(t *testing.T) {
	for _, n := range []int{1, maxBatch} {
		timers := &fakeTimers{}
		s := New(Config{Timers: timers})
		entries := make([]string, n)
		for i := range entries {
			entries[i] = apitest.Due(i)
		}
		view := wantBatch(t, ask(t, s, "POST", "/timers/batch", apitest.ListOf(entries...)), http.StatusOK, n, 0)
		for i, result := range view.Results {
			stored, ok := timers.get(result.Key)
			if want := fakeEpoch().Add(stored.Record.Timer.Interval); !ok || int(stored.Record.Timer.Interval.Seconds()) != i || result.Due != string(timer.AppendInstant(nil, want)) {
				t.Fatalf("result %d is of a timer in %v", i, stored.Record.Timer.Interval)
			}
		}
		if len(timers.records) != n {
			t.Errorf("%d timers are stored, want %d", len(timers.records), n)
		}
	}
	timers := &fakeTimers{}
	got := ask(t, New(Config{Timers: timers}), "POST", "/timers/batch", apitest.TimersOf(maxBatch+1, apitest.Due(1)))
	apitest.WantProblem(t, got, 400, "timers-too-many", "/timers")
	if len(timers.records) != 0 {
		t.Errorf("%d timers are stored, want none", len(timers.records))
	}
}

// A fault of the whole batch keeps every timer from being created.
func TestBatchIsRefused(t *testing.T) {
	timers := &fakeTimers{}
	s := New(Config{Timers: timers})
	one := apitest.Due(1)
	for name, tc := range map[string][3]string{
		"empty":                {"", "body-missing", ""},
		"blank":                {"\n ", "body-missing", ""},
		"array":                {"[" + one + "]", "body-not-object", ""},
		"no JSON":              {"timers", "body-not-object", ""},
		"one timer":            {one, "timers-missing", "/timers"},
		"empty object":         {"{}", "timers-missing", "/timers"},
		"null":                 {`{"timers":null}`, "timers-type", "/timers"},
		"object":               {`{"timers":` + one + `}`, "timers-type", "/timers"},
		"empty list":           {apitest.ListOf(), "timers-empty", "/timers"},
		"list twice":           {`{"timers":[` + one + `],"timers":[` + one + `]}`, "member-duplicate", "/timers"},
		"list twice, escaped":  {`{"timers":[` + one + `],"t\u0069mers":[` + one + `]}`, "member-duplicate", "/timers"},
		"cut off":              {apitest.ListOf(one, one)[:100], "body-syntax", ""},
		"list not closed":      {`{"timers":[` + one, "body-syntax", ""},
		"not closed":           {`{"timers":[` + one + `]`, "body-syntax", ""},
		"comma missing":        {`{"timers":[` + one + " " + one + `]}`, "body-syntax", ""},
		"comma first":          {`{"timers":[,` + one + `]}`, "body-syntax", ""},
		"comma last":           {`{"timers":[` + one + `,]}`, "body-syntax", ""},
		"two commas":           {`{"timers":[` + one + `,,` + one + `]}`, "body-syntax", ""},
		"closed wrongly":       {`{"timers":[` + one + `}}`, "body-syntax", ""},
		"value missing":        {`{"timers":}`, "body-syntax", ""},
		"something after":      {apitest.ListOf(one) + "{}", "body-trailing", ""},
		"list after":           {apitest.ListOf(one) + ",[]", "body-trailing", ""},
		"other too deep":       {`{"timers":[` + one + `],"a":` + strings.Repeat("[", maxDepth+1) + strings.Repeat("]", maxDepth+1) + `}`, "body-depth", ""},
		"other malformed":      {`{"timers":[` + one + `],"a":nul}`, "body-syntax", ""},
		"other not UTF-8":      {`{"timers":[` + one + "],\"a\":\"\xff\"}", "string-utf8", ""},
		"entry malformed":      {apitest.ListOf(one, `{"timing":{"interval":01}}`, one), "body-syntax", ""},
		"refused, then broken": {apitest.ListOf(one, `{"timing":1,"a":tru}`, one), "body-syntax", ""},
		"deep and broken":      {apitest.ListOf(strings.Repeat("[", 1000)+strings.Repeat("]", 999), one), "body-syntax", ""},
		"entry is a word":      {apitest.ListOf(one, "timer"), "body-syntax", ""},
		"bad escape":           {apitest.ListOf(one, `{"a":"\x"}`), "body-syntax", ""},
		"control character":    {apitest.ListOf(one, "\"\x01\""), "body-syntax", ""},
		"not UTF-8 outside":    {apitest.ListOf(one, "\xff"), "string-utf8", ""},
		"name not UTF-8":       {`{"timers":[` + one + "],\"\xff\":1}", "string-utf8", ""},
		"other half a pair":    {`{"timers":[` + one + `],"a":[{"\ud800":1}]}`, "string-surrogate", ""},
		"pair cut off":         {apitest.ListOf(one, `{"a":"\ud83d\ude"}`), "body-syntax", ""},
		"array for a name":     {`{"timers":[` + one + `],[]:1}`, "body-syntax", ""},
		"far too deep":         {apitest.ListOf(one, apitest.Nest(maxParserDepth-1)), "body-depth", ""},
		"other far too deep":   {`{"timers":[` + one + `],"a":` + apitest.Nest(maxParserDepth) + `}`, "body-depth", ""},
	} {
		t.Run(name, func(t *testing.T) {
			apitest.WantProblem(t, ask(t, s, "POST", "/timers/batch", tc[0]), 400, tc[1], tc[2])
		})
	}
	apitest.WantProblem(t, ask(t, s, "POST", "/timers/batch", apitest.ListOf(one), "Content-Encoding", "gzip"), 415, "content-encoding", apitest.NoPointer)
	apitest.WantProblem(t, ask(t, s, "POST", "/timers/batch", apitest.ListOf(one), "Idempotency-Key", ""), 400, "idempotency-key", apitest.NoPointer)
	if len(timers.records) != 0 {
		t.Errorf("%d timers are stored, want none", len(timers.records))
	}
}

// A faulty timer gets the same error as in a POST, and doesn't affect the remaining timers.
func TestBatchEntriesAreRefused(t *testing.T) {
	s := New(Config{Timers: &fakeTimers{}})
	for name, tc := range map[string][3]string{
		"uri missing":      {apitest.WithHTTP(`"opaque":""`), "uri-missing", "/callback/http/uri"},
		"interval zero":    {apitest.WithCallback(`"timing":{"interval":0,"repeat-for":1}`), "interval-zero", "/timing/interval"},
		"number":           {"-7.5e1", "body-not-object", ""},
		"too deep":         {apitest.WithMore(`"a":` + apitest.Nest(maxDepth+1)), "body-depth", ""},
		"opaque twice":     {apitest.WithHTTP(`"uri":"http://a/b","opaque":"","opaque":""`), "member-duplicate", "/callback/http/opaque"},
		"half a character": {apitest.WithHTTP(`"uri":"http://a/b","opaque":"x\ud800"`), "string-surrogate", "/callback/http/opaque"},
	} {
		t.Run(name, func(t *testing.T) {
			view := wantBatch(t, ask(t, s, "POST", "/timers/batch", apitest.ListOf(apitest.Due(1), tc[0], apitest.Due(3), tc[0], apitest.Due(5))), http.StatusMultiStatus, 3, 2)
			for i, result := range view.Results {
				if i%2 == 0 {
					if want := "2030-01-31T12:00:0" + strconv.Itoa(i+1) + ".000Z"; result.Due != want || result.Error != nil {
						t.Errorf("result %d: have %+v, want one due at %s", i, result, want)
					}
					continue
				}
				failure := result.Error
				if failure == nil || failure.Pointer == nil || result.ID != "" {
					t.Fatalf("result %d: have %+v, want an error", i, result)
				}
				if want := fmt.Sprintf("/timers/%d%s", i, tc[2]); failure.Status != 400 || failure.Title != "Bad Request" || failure.Code != tc[1] || *failure.Pointer != want || failure.Detail == "" || failure.RetryAfter != 0 {
					t.Errorf("result %d: have %+v, want 400 %s at %s", i, failure, tc[1], want)
				}
			}
		})
	}
}

func TestBatchAllRefused(t *testing.T) {
	timers := &fakeTimers{}
	view := wantBatch(t, ask(t, New(Config{Timers: timers}), "POST", "/timers/batch", apitest.ListOf("1", `{"a":"\ud800"}`, apitest.Nest(maxParserDepth-2))), http.StatusMultiStatus, 0, 3)
	for i, code := range []string{"body-not-object", "string-surrogate", "body-not-object"} {
		if view.Results[i].Error.Code != code {
			t.Errorf("result %d: have %s, want %s", i, view.Results[i].Error.Code, code)
		}
	}
}

// TestBatchOnce: a batch that is sent again is answered with the same timers.
func TestBatchOnce(t *testing.T) {
	timers := &fakeTimers{}
	s := New(Config{Timers: timers})
	first, second, third := apitest.Due(1), " \n"+apitest.WithHTTP(`"uri":"http://a/b","opaque":"]},{["`)+"\t", apitest.Due(3)
	send := func(entries ...string) apitest.Answer {
		t.Helper()
		return ask(t, s, "POST", "/timers/batch", apitest.ListOf(entries...), "Idempotency-Key", "k")
	}
	before := wantBatch(t, send(first, second), http.StatusOK, 2, 0)
	for i, body := range []string{first, strings.TrimSpace(second)} {
		key := "k\x00" + strconv.Itoa(i)
		if have := timers.bodies[key]; have != body || before.Results[i].Key != timer.OnceKey(key) || before.Results[i].Replayed {
			t.Errorf("entry %d: %+v with body %q, want %q", i, before.Results[i], have, body)
		}
	}
	again := send(first, strings.TrimSpace(second))
	after := wantBatch(t, again, http.StatusOK, 2, 0)
	for i := range after.Results {
		if after.Results[i].ID != before.Results[i].ID || !after.Results[i].Replayed {
			t.Errorf("entry %d: %+v, want %s again", i, after.Results[i], before.Results[i].ID)
		}
	}
	if again.Header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("headers %v", again.Header)
	}
	more := send(first, third, third)
	after = wantBatch(t, more, http.StatusMultiStatus, 2, 1)
	if p := after.Results[1].Error; p == nil || p.Status != 422 || p.Code != "idempotency-key-reused" || p.Pointer != nil {
		t.Errorf("another body: %+v", after.Results[1])
	}
	if !after.Results[0].Replayed || after.Results[2].Replayed || more.Header.Get("Idempotent-Replayed") != "" {
		t.Errorf("replayed: %+v, %v", after.Results, more.Header)
	}
	// The key of an entry differs from the keys of all other entries and of single timers.
	for _, key := range []string{"k", "k0", "k/0", "k 0", "k\\x000"} {
		if got := ask(t, s, "POST", "/timers", third, "Idempotency-Key", key); got.Status != 200 || got.Header.Get("Idempotent-Replayed") != "" {
			t.Errorf("key %q: %d %v", key, got.Status, got.Header)
		}
	}
	if got := ask(t, s, "POST", "/timers/batch", apitest.ListOf(third), "Idempotency-Key", "k0"); got.Status != 200 || got.Header.Get("Idempotent-Replayed") != "" {
		t.Errorf("another batch: %d %v", got.Status, got.Header)
	}
}

func TestBatchErrorsOfTimers(t *testing.T) {
	const secret = "redis://user:password@host"
	unavailable := fmt.Errorf("merge at %s: %w", secret, timer.ErrUnavailable)
	overloaded := fmt.Errorf("queue of %s: %w", secret, timer.ErrOverloaded)
	for name, tc := range map[string]struct {
		errs   []error // by entry
		status int
		codes  []string // by entry, or of the whole batch
		logged int
	}{
		"all unavailable":     {[]error{unavailable, context.DeadlineExceeded}, 503, []string{"store-unavailable"}, 0},
		"all overloaded":      {[]error{overloaded, overloaded}, 503, []string{"overloaded"}, 0},
		"one of each":         {[]error{overloaded, unavailable, overloaded}, 503, []string{"store-unavailable"}, 0},
		"some unavailable":    {[]error{nil, unavailable, overloaded}, 207, []string{"", "store-unavailable", "overloaded"}, 0},
		"internal":            {[]error{errors.New(secret), nil, errors.New(secret)}, 207, []string{"internal", "", "internal"}, 1},
		"internal, all":       {[]error{errors.New(secret), errors.New(secret)}, 207, []string{"internal", "internal"}, 1},
		"refused by the rest": {[]error{&timer.InvalidError{Pointer: "/callback/http/uri", Code: "uri-denied", Detail: "no"}, unavailable}, 207, []string{"uri-denied", "store-unavailable"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			next := 0
			s := New(Config{
				Timers: &fakeTimers{before: func(context.Context, string, timer.ID) error { next++; return tc.errs[next-1] }},
				Log:    slog.New(slog.NewTextHandler(&log, nil)),
			})
			got := ask(t, s, "POST", "/timers/batch", apitest.TimersOf(len(tc.errs), apitest.Due(1)))
			if strings.Contains(string(got.Body)+fmt.Sprint(got.Header), "password") {
				t.Errorf("the answer shows what is inside: %s", got.Body)
			}
			if logged := strings.Count(log.String(), "request failed"); logged != tc.logged {
				t.Errorf("log: %q", log.String())
			}
			if tc.status == 503 {
				apitest.WantProblem(t, got, 503, tc.codes[0], apitest.NoPointer)
				if got.Header.Get("Retry-After") != "1" {
					t.Errorf("headers %v", got.Header)
				}
				return
			}
			for i, result := range apitest.Parse[batchView](t, got.Body).Results {
				code, retry := "", 0
				if result.Error != nil {
					code, retry = result.Error.Code, result.Error.RetryAfter
				}
				if code != tc.codes[i] || (retry == 1) != (tc.errs[i] != nil && result.Error.Status == 503) {
					t.Errorf("result %d: %q with retry-after %d, want %q", i, code, retry, tc.codes[i])
				}
			}
			if got.Status != tc.status {
				t.Errorf("have %d, want %d", got.Status, tc.status)
			}
		})
	}
}

// TestBatchRoom: a batch that would take too much memory is refused before any timer is created.
func TestBatchRoom(t *testing.T) {
	timers := &fakeTimers{}
	s := New(Config{Timers: timers, Limits: transport.Limits{MaxBody: 20_000, MaxBodies: 1}}) // room for about 85 timers
	address := apitest.Serve(t, s)
	post := func(n int) apitest.Answer {
		t.Helper()
		body := apitest.TimersOf(n, apitest.Due(1))
		got, _ := apitest.Send(t, apitest.Dial(t, address), "POST /timers/batch HTTP/1.1\r\nHost: h\r\nContent-Length: "+strconv.Itoa(len(body))+"\r\n\r\n"+body)
		return got
	}
	apitest.WantOverloaded(t, post(100))
	if len(timers.records) != 0 {
		t.Errorf("%d timers are stored, want none", len(timers.records))
	}
	wantBatch(t, post(80), http.StatusOK, 80, 0)
	apitest.WantProblem(t, post(300), http.StatusRequestEntityTooLarge, "body-too-large", apitest.NoPointer)
}
