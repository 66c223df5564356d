package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"chronos/api/apitest"
	"chronos/scheduler/statistics"
	"chronos/scheduler/timer"
)

func TestStatistics(t *testing.T) {
	timers := &fakeTimers{}
	s := New(Config{Timers: timers})
	get := func(want string) {
		t.Helper()
		got := ask(t, s, "GET", "/statistics", "")
		if got.Status != http.StatusOK || got.Header.Get("Content-Type") != "application/json" || string(got.Body) != want {
			t.Errorf("have %d %q %s, want %s", got.Status, got.Header.Get("Content-Type"), got.Body, want)
		}
	}
	get(`{"tags":{}}`)
	if got := ask(t, s, "PUT", "/timers/a", apitest.WithMore(`"statistics":{"tag-info":[{"type":"REG","count":2},{"type":"\u00e9 \"\\"}]}`)); got.Status != http.StatusOK {
		t.Fatalf("have %d %s", got.Status, got.Body)
	}
	if got := ask(t, s, "PUT", "/timers/b", apitest.WithMore(`"statistics":{"tag-info":[{"type":"CALL","count":2147483647},{"type":"REG"}]}`)); got.Status != http.StatusOK {
		t.Fatalf("have %d %s", got.Status, got.Body)
	}
	get(`{"tags":{"CALL":2147483647,"REG":3,"é \"\\":1}}`)
	timers.counted = statistics.Sums{Truncated: true, Incomplete: []string{"a", "c"}}
	get(`{"tags":{"CALL":2147483647,"REG":3,"é \"\\":1},"truncated":true,"incomplete":["a","c"]}`)
	if got := ask(t, s, "HEAD", "/statistics", ""); got.Status != http.StatusOK || len(got.Body) > 0 {
		t.Errorf("HEAD: %d %s", got.Status, got.Body)
	}
	timers.before = func(context.Context, string, timer.ID) error {
		return fmt.Errorf("read statistics: %w: %w", timer.ErrUnavailable, errors.New("redis://secret"))
	}
	got := ask(t, s, "GET", "/statistics", "")
	apitest.WantProblem(t, got, http.StatusServiceUnavailable, "store-unavailable", apitest.NoPointer)
	if got.Header.Get("Retry-After") == "" || strings.Contains(string(got.Body), "secret") {
		t.Errorf("have %v %s", got.Header, got.Body)
	}
}
