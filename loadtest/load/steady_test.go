package main

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"chronos/loadtest/check"
	"chronos/loadtest/fakenode"
)

// TestSteady: the scenario creates timers at the rate, makes all creates known, and is over when the callbacks have
// come.
func TestSteady(t *testing.T) {
	o := options{root: t.TempDir(), scenario: named(t, "steady"), rate: 200, duration: time.Second, fake: true, bug: fakenode.None}
	node, stop, err := startNode(t.Context(), &o)
	if err != nil {
		t.Fatal(err)
	}
	defer stop() //nolint:errcheck // the fake one can't fail to
	var mu sync.Mutex
	told, called := map[string]check.Operation{}, map[string]string{}
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if session, ok := strings.CutPrefix(req.URL.Path, "/cb/"); ok {
			body, _ := io.ReadAll(req.Body) // a body that is cut short differs from op.Body
			called[strings.TrimSuffix(session, "/1")] = string(body)
			return
		}
		decoder := json.NewDecoder(req.Body)
		for {
			var op check.Operation
			if err := decoder.Decode(&op); errors.Is(err, io.EOF) {
				return
			} else if err != nil {
				t.Errorf("what is told isn't JSON: %v", err)
				return
			}
			told[op.Session] = op
		}
	}))
	defer receiver.Close()

	figures, err := runSteady(t.Context(), &o, node, receiver.URL)
	if err != nil {
		t.Fatal(err)
	}
	deadline, tick := time.After(10*time.Second), time.NewTicker(10*time.Millisecond)
	defer tick.Stop()
	for all := false; !all; { // the last callbacks may still be under way
		select {
		case <-deadline:
			all = true
		case <-tick.C:
			mu.Lock()
			all = len(called) == 200
			mu.Unlock()
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if got := figures.Metrics["operations{op:create}"].figures["count"]; got != 200 || len(told) != 200 {
		t.Errorf("%v timers created, %d told, want 200", got, len(told))
	}
	for session, op := range told {
		if body, ok := called[session]; !op.OK || !ok || body != op.Body || len(body) != steadyOpaque {
			t.Errorf("%+v was called back %v with %q", op, ok, body)
		}
	}
	var b strings.Builder
	r := &result{options: &o, summary: figures}
	if err := r.write(&b); err != nil || !strings.Contains(b.String(), "| create (POST) | 200 | 0 |") || strings.Contains(b.String(), "refresh") {
		t.Errorf("want a row for creates alone, %v:\n%s", err, b.String())
	}
}

func TestSteadyTellsWhatFailed(t *testing.T) {
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }))
	defer node.Close()
	receiver := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer receiver.Close()
	o := options{scenario: named(t, "steady"), rate: 20, duration: time.Second}
	figures, err := runSteady(t.Context(), &o, node.URL, receiver.URL)
	if err == nil || !strings.Contains(err.Error(), "status 503") {
		t.Errorf("error %v, want one that says status 503", err)
	}
	if got := figures.Metrics["http_req_failed{op:create}"].figures["passes"]; got != 20 {
		t.Errorf("%v failed, want 20", got)
	}
}
