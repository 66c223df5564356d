package api

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"chronos/api/apitest"
	"chronos/scheduler/timer"
)

func TestIdempotencyKey(t *testing.T) {
	timers := &fakeTimers{}
	s := New(Config{Timers: timers})
	for name, key := range map[string]string{
		"a UUID": "8e03978e-40d5-43dd-bc93-6894a57f9324", "quoted": `"8e03978e"`, "one character": "k", "spaces": "a b  c",
		"as long as may be": strings.Repeat("k", 255),
	} {
		t.Run(name, func(t *testing.T) {
			got := ask(t, s, "POST", "/timers", apitest.Simple, "Idempotency-Key", key)
			receipt := apitest.Parse[receiptView](t, got.Body)
			if got.Status != http.StatusOK || receipt.Key != timer.OnceKey(key) {
				t.Fatalf("have %d, key %q, want 200, %q", got.Status, receipt.Key, timer.OnceKey(key))
			}
			if got.Header.Get("Location") != "/timers/"+receipt.ID || got.Header.Get("Idempotent-Replayed") != "" {
				t.Errorf("headers %v", got.Header)
			}
		})
	}
	if got := ask(t, s, "POST", "/timers", apitest.Simple, "idempotency-key", "k"); got.Header.Get("Idempotent-Replayed") != "true" || got.Status != http.StatusOK {
		t.Errorf("replayed: %d, headers %v", got.Status, got.Header)
	}
}

// TestIdempotencyBody: the scheduler gets the bytes unchanged, since the bytes decide whether the
// body is the same.
func TestIdempotencyBody(t *testing.T) {
	seen := ""
	s := New(Config{Timers: onceTimers{constantTimers{timer.Receipt{ID: timer.ID{Key: "k", RF: 2}, Copies: 1}}, &seen}})
	for _, body := range []string{apitest.Simple, " " + apitest.Simple, apitest.Simple + "\n"} {
		if got := ask(t, s, "POST", "/timers", body, "Idempotency-Key", "k"); got.Status != http.StatusOK || seen != body {
			t.Errorf("have %d, the scheduler was given %q, want %q", got.Status, seen, body)
		}
	}
}

type onceTimers struct {
	constantTimers
	body *string
}

func (o onceTimers) CreateOnce(_ context.Context, _ string, body []byte, _ timer.Timer) (timer.Receipt, error) {
	*o.body = string(body)
	return o.receipt, nil
}

func TestIdempotencyKeyRefused(t *testing.T) {
	timers := &fakeTimers{}
	s := New(Config{Timers: timers})
	for name, key := range map[string]string{
		"empty": "", "too long": strings.Repeat("k", 256), "not ASCII": "schlüssel", "a tab": "a\tb",
	} {
		t.Run(name, func(t *testing.T) {
			apitest.WantProblem(t, ask(t, s, "POST", "/timers", apitest.Simple, "Idempotency-Key", key), http.StatusBadRequest, "idempotency-key", apitest.NoPointer)
		})
	}
	timers.before = func(context.Context, string, timer.ID) error {
		return fmt.Errorf("create: %w", timer.ErrKeyReused)
	}
	apitest.WantProblem(t, ask(t, s, "POST", "/timers", apitest.Simple, "Idempotency-Key", "k"), http.StatusUnprocessableEntity, "idempotency-key-reused", apitest.NoPointer)
}

// The answer to a repeated create tells an ended timer from a waiting timer.
func TestReplayOfATimerThatIsOver(t *testing.T) {
	over := timer.Receipt{ID: timer.ID{Key: "k", RF: 2}, Due: fakeEpoch(), Replayed: true, Over: true}
	s := New(Config{Timers: constantTimers{over}})
	got := ask(t, s, "POST", "/timers", apitest.Simple, "Idempotency-Key", "k")
	if receipt := apitest.Parse[receiptView](t, got.Body); got.Status != http.StatusOK || receipt.State != "over" || receipt.Copies != 0 || receipt.Key != "k" {
		t.Errorf("have %d %s", got.Status, got.Body)
	}
	batch := ask(t, s, "POST", "/timers/batch", apitest.ListOf(apitest.Simple, apitest.Simple), "Idempotency-Key", "k")
	for i, result := range apitest.Parse[batchView](t, batch.Body).Results {
		if result.State != "over" || result.Copies != 0 || !result.Replayed {
			t.Errorf("result %d: have %+v", i, result)
		}
	}
	live := over
	live.Over, live.Copies = false, 2
	got = ask(t, New(Config{Timers: constantTimers{live}}), "POST", "/timers", apitest.Simple, "Idempotency-Key", "k")
	if receipt := apitest.Parse[receiptView](t, got.Body); receipt.State != "" || receipt.Copies != 2 {
		t.Errorf("of a timer that waits: have %s", got.Body)
	}
}
