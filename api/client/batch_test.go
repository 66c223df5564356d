package client_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"chronos/api/client"
	"chronos/scheduler/timer"
)

// A full batch, through a real server.
func TestCreateBatch(t *testing.T) {
	m := newMemory()
	c, _ := connect(t, m)
	timers := make([]client.Timer, client.MaxBatch)
	for i := range timers {
		timers[i] = client.Timer{Interval: time.Duration(i) * time.Second, URI: "http://a/b", Opaque: fmt.Sprintf("\"%d\" é", i), ReplicationFactor: 1 + i%16}
	}
	results, err := c.CreateBatch(t.Context(), timers)
	if err != nil || len(results) != len(timers) {
		t.Fatalf("%d results, %v", len(results), err)
	}
	for i, result := range results {
		key := result.Receipt.Key
		want := client.Receipt{ID: fmt.Sprintf("%s-%d-0000000000008421", key, 1+i%16), Key: key, Due: epoch.Add(timers[i].Interval), Copies: 2}
		if diff := cmp.Diff(client.Result{Receipt: want}, result); diff != "" {
			t.Fatalf("result %d (-want +have):\n%s", i, diff)
		}
		if stored := m.records[key].Record.Timer.Callback.Opaque; stored != timers[i].Opaque {
			t.Fatalf("result %d is of the timer with %q", i, stored)
		}
	}
}

func TestCreateBatchFailsInPart(t *testing.T) {
	c, _ := connect(t, newMemory())
	good := client.Timer{Interval: time.Second, URI: "http://a/b"}
	results, err := c.CreateBatch(t.Context(), []client.Timer{good, {Interval: -time.Second, URI: "http://a/b"}, good})
	if err != nil || len(results) != 3 {
		t.Fatalf("%d results, %v", len(results), err)
	}
	want := &client.Problem{Status: 400, Code: "interval-negative", Pointer: "/timers/1/timing/interval", Detail: "interval is negative; give a number of seconds from 0 up"}
	problem, _ := errors.AsType[*client.Problem](results[1].Err)
	if diff := cmp.Diff(want, problem); diff != "" || results[1].Receipt.ID != "" {
		t.Errorf("problem (-want +have):\n%s", diff)
	}
	for _, i := range []int{0, 2} {
		if results[i].Err != nil || results[i].Receipt.ID == "" {
			t.Errorf("result %d: %+v", i, results[i])
		}
	}
}

func TestCreateBatchOnce(t *testing.T) {
	m := newMemory()
	c, _ := connect(t, m, client.WithTries(1))
	timers := []client.Timer{{Interval: time.Second, URI: "http://a/b"}, {Interval: 2 * time.Second, URI: "http://a/b"}}
	first, err := c.CreateBatch(t.Context(), timers, client.Once("key 1"))
	if err != nil || first[0].Receipt.Replayed || first[0].Receipt.ID == first[1].Receipt.ID {
		t.Fatalf("first: %+v, %v", first, err)
	}
	m.over = true
	timers[1].Opaque = "other"
	again, err := c.CreateBatch(t.Context(), timers, client.Once("key 1"))
	if err != nil || !again[0].Receipt.Replayed || again[0].Receipt.ID != first[0].Receipt.ID || !again[0].Receipt.Over || again[0].Receipt.Copies != 0 {
		t.Fatalf("again: %+v, %v", again, err)
	}
	if problem, ok := errors.AsType[*client.Problem](again[1].Err); !ok || problem.Status != 422 || problem.Code != "idempotency-key-reused" {
		t.Errorf("with another body: %v", again[1].Err)
	}
	m.fails = timer.ErrUnavailable
	_, err = c.CreateBatch(t.Context(), timers)
	if problem, ok := errors.AsType[*client.Problem](err); !ok || problem.Code != "store-unavailable" || problem.RetryAfter != timer.RetryAfter {
		t.Errorf("have %v, want that the store is unavailable, and for how long", err)
	}
}

func TestCreateBatchRefusesItself(t *testing.T) {
	c, listener := connect(t, newMemory())
	good := client.Timer{URI: "http://a/b"}
	for name, tc := range map[string]struct {
		timers  []client.Timer
		options []client.BatchOption
		text    string
	}{
		"none":      {nil, nil, "create timers: there are 0 timers; give 1 to 1000"},
		"too many":  {make([]client.Timer, client.MaxBatch+1), nil, "create timers: there are 1001 timers; give 1 to 1000"},
		"no UTF-8":  {[]client.Timer{good, {URI: "http://a/b", Opaque: "\xff"}}, nil, "create timers: timer 1: the opaque data is not UTF-8; encode it, for example as Base64"},
		"empty key": {[]client.Timer{good}, []client.BatchOption{client.Once("")}, "create timers: the key is empty"},
	} {
		t.Run(name, func(t *testing.T) {
			if results, err := c.CreateBatch(t.Context(), tc.timers, tc.options...); err == nil || err.Error() != tc.text || results != nil {
				t.Errorf("have %v, want %s", err, tc.text)
			}
		})
	}
	if n := listener.n.Load(); n != 0 {
		t.Errorf("%d connections were made, want none", n)
	}
}

// Repeated requests, and answers that the client doesn't believe.
func TestCreateBatchAnswers(t *testing.T) {
	const receipt = `{"id":"k-2-2010000000000040","key":"k","due":"2026-11-21T02:22:48.508Z","copies":2}`
	for name, tc := range map[string]struct {
		answers []string // one for each request: status, space, body
		once    bool
		tries   int64
		fails   string // "" if the call succeeds
		partial bool
	}{
		"at once":            {[]string{`200 {"results":[` + receipt + `]}`}, false, 1, "", false},
		"in part":            {[]string{`207 {"results":[{"error":{"status":503,"detail":"d","code":"overloaded","retry-after":7}}]}`}, true, 1, "", true},
		"unavailable, once":  {[]string{`503 {"code":"store-unavailable"}`, `200 {"results":[` + receipt + `]}`}, true, 2, "", false},
		"unavailable":        {[]string{`503 {"code":"store-unavailable"}`}, false, 1, "store-unavailable", false},
		"overloaded":         {[]string{`503 {"code":"overloaded"}`, `200 {"results":[` + receipt + `]}`}, false, 2, "", false},
		"refused":            {[]string{`400 {"code":"timers-type","detail":"no"}`}, true, 1, "timers-type", false},
		"too few results":    {[]string{`200 {"results":[]}`}, false, 1, "is the base URL right?", false},
		"something else":     {[]string{`200 hello`}, false, 1, "is the base URL right?", false},
		"a result of naught": {[]string{`200 {"results":[{}]}`}, false, 1, "neither a receipt nor an error", false},
	} {
		t.Run(name, func(t *testing.T) {
			var asked atomic.Int64
			node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				status, body, _ := strings.Cut(tc.answers[min(int(asked.Add(1)), len(tc.answers))-1], " ")
				w.Header().Set("Content-Type", "application/problem+json")
				w.WriteHeader(map[string]int{"200": 200, "207": 207, "400": 400, "503": 503}[status])
				_, _ = io.WriteString(w, body)
			}))
			defer node.Close()
			c, err := client.New(node.URL)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			var options []client.BatchOption
			if tc.once {
				options = append(options, client.Once("k"))
			}
			results, err := c.CreateBatch(t.Context(), []client.Timer{{URI: "http://a/b"}}, options...)
			if asked.Load() != tc.tries {
				t.Errorf("sent %d times, want %d", asked.Load(), tc.tries)
			}
			if (err == nil) != (tc.fails == "") || err != nil && !strings.Contains(err.Error(), tc.fails) {
				t.Fatalf("have %v, want %q", err, tc.fails)
			}
			if err != nil {
				return
			}
			problem, failed := errors.AsType[*client.Problem](results[0].Err)
			if failed != tc.partial || failed && problem.RetryAfter != 7*time.Second || !failed && results[0].Receipt.Key != "k" {
				t.Errorf("have %+v", results[0])
			}
		})
	}
}
