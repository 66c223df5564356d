package api

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"

	"chronos/scheduler/statistics"
	"chronos/scheduler/timer"
)

func TestStatistics(t *testing.T) {
	timers := &fakeTimers{}
	s := New(Config{Timers: timers})
	get := func(want string) {
		t.Helper()
		got := ask(t, s, "GET", "/statistics", "")
		if got.status != http.StatusOK || got.header.Get("Content-Type") != "application/json" || string(got.body) != want {
			t.Errorf("have %d %q %s, want %s", got.status, got.header.Get("Content-Type"), got.body, want)
		}
	}
	get(`{"tags":{}}`)
	if got := ask(t, s, "PUT", "/timers/a", withMore(`"statistics":{"tag-info":[{"type":"REG","count":2},{"type":"\u00e9 \"\\"}]}`)); got.status != http.StatusOK {
		t.Fatalf("have %d %s", got.status, got.body)
	}
	if got := ask(t, s, "PUT", "/timers/b", withMore(`"statistics":{"tag-info":[{"type":"CALL","count":2147483647},{"type":"REG"}]}`)); got.status != http.StatusOK {
		t.Fatalf("have %d %s", got.status, got.body)
	}
	get(`{"tags":{"CALL":2147483647,"REG":3,"é \"\\":1}}`)
	timers.counted = statistics.Sums{Truncated: true, Incomplete: []string{"a", "c"}}
	get(`{"tags":{"CALL":2147483647,"REG":3,"é \"\\":1},"truncated":true,"incomplete":["a","c"]}`)
	if got := ask(t, s, "HEAD", "/statistics", ""); got.status != http.StatusOK || len(got.body) > 0 {
		t.Errorf("HEAD: %d %s", got.status, got.body)
	}
	timers.before = func(context.Context, string, timer.ID) error {
		return fmt.Errorf("read statistics: %w: %w", timer.ErrUnavailable, errors.New("redis://secret"))
	}
	got := ask(t, s, "GET", "/statistics", "")
	wantProblem(t, got, http.StatusServiceUnavailable, "store-unavailable", noPointer)
	if got.header.Get("Retry-After") == "" || strings.Contains(string(got.body), "secret") {
		t.Errorf("have %v %s", got.header, got.body)
	}
}

// What is written is never longer than what was set aside for it, whatever types
// clients choose.
func TestStatisticsOfHostileTypes(t *testing.T) {
	found := statistics.Sums{Tags: map[string]int64{}}
	size := 64
	for i := range statistics.MaxTagTypes {
		typ := strings.Repeat(string(rune(1+i%31)), timer.MaxTagType-4) + fmt.Sprintf("%04d", i)
		found.Tags[typ] = math.MaxInt64
		size += 64 + 6*len(typ)
	}
	body := appendStatistics(nil, &found)
	if len(body) > size {
		t.Errorf("%d bytes, more than the %d that are set aside", len(body), size)
	}
	if have := len(parse[struct{ Tags map[string]int64 }](t, body).Tags); have != statistics.MaxTagTypes {
		t.Errorf("%d types, want %d", have, statistics.MaxTagTypes)
	}
}
