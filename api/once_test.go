package api

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

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
			got := ask(t, s, "POST", "/timers", simple, "Idempotency-Key", key)
			receipt := parse[receiptView](t, got.body)
			if got.status != http.StatusOK || receipt.Key != timer.OnceKey(key) {
				t.Fatalf("have %d, key %q, want 200, %q", got.status, receipt.Key, timer.OnceKey(key))
			}
			if got.header.Get("Location") != "/timers/"+receipt.ID || got.header.Get("Idempotent-Replayed") != "" {
				t.Errorf("headers %v", got.header)
			}
		})
	}
	if got := ask(t, s, "POST", "/timers", simple, "idempotency-key", "k"); got.header.Get("Idempotent-Replayed") != "true" || got.status != http.StatusOK {
		t.Errorf("replayed: %d, headers %v", got.status, got.header)
	}
}

// TestIdempotencyBody: the scheduler is given the very bytes, which decide
// whether the body is the same.
func TestIdempotencyBody(t *testing.T) {
	seen := ""
	s := New(Config{Timers: onceTimers{constantTimers{timer.Receipt{ID: timer.ID{Key: "k", RF: 2}, Copies: 1}}, &seen}})
	for _, body := range []string{simple, " " + simple, simple + "\n"} {
		if got := ask(t, s, "POST", "/timers", body, "Idempotency-Key", "k"); got.status != http.StatusOK || seen != body {
			t.Errorf("have %d, the scheduler was given %q, want %q", got.status, seen, body)
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
			wantProblem(t, ask(t, s, "POST", "/timers", simple, "Idempotency-Key", key), http.StatusBadRequest, "idempotency-key", noPointer)
		})
	}
	timers.before = func(context.Context, string, timer.ID) error {
		return fmt.Errorf("create: %w", timer.ErrKeyReused)
	}
	wantProblem(t, ask(t, s, "POST", "/timers", simple, "Idempotency-Key", "k"), http.StatusUnprocessableEntity, "idempotency-key-reused", noPointer)
}

// The answer to a repeated create tells a timer that is over from one that waits.
func TestReplayOfATimerThatIsOver(t *testing.T) {
	over := timer.Receipt{ID: timer.ID{Key: "k", RF: 2}, Due: fakeEpoch(), Replayed: true, Over: true}
	s := New(Config{Timers: constantTimers{over}})
	got := ask(t, s, "POST", "/timers", simple, "Idempotency-Key", "k")
	if receipt := parse[receiptView](t, got.body); got.status != http.StatusOK || receipt.State != "over" || receipt.Copies != 0 || receipt.Key != "k" {
		t.Errorf("have %d %s", got.status, got.body)
	}
	batch := ask(t, s, "POST", "/timers/batch", listOf(simple, simple), "Idempotency-Key", "k")
	for i, result := range parse[batchView](t, batch.body).Results {
		if result.State != "over" || result.Copies != 0 || !result.Replayed {
			t.Errorf("result %d: have %+v", i, result)
		}
	}
	live := over
	live.Over, live.Copies = false, 2
	got = ask(t, New(Config{Timers: constantTimers{live}}), "POST", "/timers", simple, "Idempotency-Key", "k")
	if receipt := parse[receiptView](t, got.body); receipt.State != "" || receipt.Copies != 2 {
		t.Errorf("of a timer that waits: have %s", got.body)
	}
}
