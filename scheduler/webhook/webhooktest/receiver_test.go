package webhooktest_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"chronos/scheduler/dispatch"
	"chronos/scheduler/timer"
	"chronos/scheduler/webhook"
	"chronos/scheduler/webhook/webhooktest"
)

func delivery(uri string) dispatch.Delivery {
	return dispatch.Delivery{
		Callback: timer.Callback{URI: uri, Opaque: "opaque"},
		ID:       timer.ID{Key: "k", RF: 2, Hint: 5},
		Version:  0x123, Seq: 7, Attempt: 3,
		Due: time.Date(2026, 11, 20, 10, 0, 0, 5e6, time.UTC),
	}
}

func newClient(t *testing.T, cfg webhook.Config) *webhook.Client {
	t.Helper()
	client := webhook.New(cfg)
	t.Cleanup(client.Close)
	return client
}

func TestReceiverRecordsCalls(t *testing.T) {
	receiver := webhooktest.New(t)
	client := newClient(t, webhook.Config{})
	before := time.Now()
	d := delivery(receiver.URL() + "/a/b?c=d")
	if got := client.Deliver(t.Context(), d); got.Verdict != dispatch.VerdictDelivered {
		t.Fatalf("not delivered: %+v", got)
	}
	calls := receiver.WaitFor(t, 5*time.Second, webhooktest.AtLeast(1))
	call := calls[0]
	if call.Arrived.Before(before) || call.Arrived.After(time.Now()) || call.Late() != call.Arrived.Sub(d.Due) {
		t.Errorf("arrived %v, late %v", call.Arrived, call.Late())
	}
	if len(call.Header) == 0 || call.Key() != "k" {
		t.Errorf("header %v, key %q", call.Header, call.Key())
	}
	if call.From == "" {
		t.Error("no client's address")
	}
	call.Arrived, call.Header, call.From = time.Time{}, nil, ""
	want := webhooktest.Call{
		Number: 1, Target: "/a/b?c=d", Body: "opaque", ID: d.ID, Version: d.Version, Seq: 7, Attempt: 3, Due: d.Due,
		WebhookID: "k.0000000000000123.7",
	}
	if diff := cmp.Diff(want, call); diff != "" {
		t.Errorf("call (-want +got):\n%s", diff)
	}
}

func TestReceiverAnswersAsScripted(t *testing.T) {
	receiver := webhooktest.New(t)
	client := newClient(t, webhook.Config{})
	receiver.Respond(webhooktest.Script(
		webhooktest.Answer{Status: 503, RetryAfter: "7"},
		webhooktest.Answer{Drop: true},
		webhooktest.Answer{Status: 410, Close: true, Body: "no more"},
		webhooktest.Answer{Status: 302, Location: "/elsewhere"},
		webhooktest.Answer{Delay: 20 * time.Millisecond},
	))
	var got []dispatch.Delivered
	for range 6 {
		got = append(got, client.Deliver(t.Context(), delivery(receiver.URL())))
	}
	want := []dispatch.Delivered{
		{Class: dispatch.Class5xx, Reason: "status 503", RetryAfter: 7 * time.Second},
		{Reason: "connection closed before an answer"},
		{Verdict: dispatch.VerdictGone, Class: dispatch.Class4xx, Reason: "status 410"},
		{Class: dispatch.Class3xx, Reason: "status 302"},
		{Verdict: dispatch.VerdictDelivered, Class: dispatch.Class2xx, Answer: "status 200"},
		{Verdict: dispatch.VerdictDelivered, Class: dispatch.Class2xx, Answer: "status 200"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("answers (-want +got):\n%s", diff)
	}
	if calls := receiver.Calls(); len(calls) != 6 || calls[0].Answer.Status != 503 || calls[5].Number != 6 {
		t.Errorf("calls: %v", calls)
	}
}

func TestReceiverFindsFaults(t *testing.T) {
	receiver := webhooktest.New(t)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, receiver.URL()+"/x", strings.NewReader("body"))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"X-Sequence-Number": "0", "X-Chronos-Timer": "k", "X-Chronos-Attempt": "one",
		"X-Chronos-Due": "2026-11-20T10:00:00Z", "Webhook-Id": "other.0000000000000123.7",
	} {
		req.Header.Set(name, value)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	faults := strings.Join(receiver.Faults(), "\n")
	for _, want := range []string{
		"method", "Content-Type", "Webhook-Timestamp is there 0 times", "X-Sequence-Number", "X-Chronos-Attempt",
		"X-Chronos-Due", "webhook-id", "call 1 to /x",
	} {
		if !strings.Contains(faults, want) {
			t.Errorf("no fault speaks of %q:\n%s", want, faults)
		}
	}
	if again := receiver.Faults(); len(again) != 0 {
		t.Errorf("faults are not forgotten: %v", again)
	}
}

func TestReceiverWaits(t *testing.T) {
	receiver := webhooktest.New(t)
	client := newClient(t, webhook.Config{})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if calls, err := receiver.Wait(ctx, webhooktest.AtLeast(1)); !errors.Is(err, context.DeadlineExceeded) || len(calls) != 0 {
		t.Fatalf("without a call: %v, %v", calls, err)
	}
	const n = 200
	var senders sync.WaitGroup
	for range 4 {
		senders.Go(func() {
			for range n / 4 {
				if got := client.Deliver(t.Context(), delivery(receiver.URL())); got.Verdict != dispatch.VerdictDelivered {
					t.Errorf("not delivered: %+v", got)
				}
			}
		})
	}
	calls := receiver.WaitFor(t, 10*time.Second, webhooktest.AtLeast(n))
	senders.Wait()
	for i, call := range calls {
		if call.Number != i+1 {
			t.Errorf("call %d has number %d", i+1, call.Number)
		}
	}
}

func TestReceiverLetsGoOfWhatHangs(t *testing.T) {
	receiver := webhooktest.New(t)
	client := newClient(t, webhook.Config{})
	receiver.Respond(func(webhooktest.Call) webhooktest.Answer { return webhooktest.Answer{Hang: true} })
	done := make(chan dispatch.Delivered, 1)
	go func() { done <- client.Deliver(t.Context(), delivery(receiver.URL())) }()
	receiver.WaitFor(t, 5*time.Second, webhooktest.AtLeast(1))
	receiver.Close()
	select {
	case got := <-done:
		if got.Reason != "connection closed before an answer" {
			t.Errorf("got %+v", got)
		}
	case <-time.After(5 * time.Second):
		t.Fatal("the call still hangs after Close")
	}
	if got := client.Deliver(t.Context(), delivery(receiver.URL())); got.Reason != "connection refused" {
		t.Errorf("after Close: %+v", got)
	}
}

func TestReceiverInMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := webhooktest.NewMemory()
		receiver := webhooktest.Serve(t, memory)
		client := webhook.New(webhook.Config{Dial: memory.Dial})
		defer client.Close()
		receiver.Respond(webhooktest.Script(webhooktest.Answer{Delay: time.Second}, webhooktest.Answer{Hang: true}))
		start := time.Now()
		for i, want := range []struct {
			after   time.Duration
			verdict dispatch.Verdict
		}{{time.Second, dispatch.VerdictDelivered}, {3 * time.Second, dispatch.VerdictFailed}, {3 * time.Second, dispatch.VerdictDelivered}} {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			got := client.Deliver(ctx, delivery(receiver.URL()))
			cancel()
			if got.Verdict != want.verdict || time.Since(start) != want.after {
				t.Errorf("call %d: %+v after %v, want %+v", i+1, got, time.Since(start), want)
			}
		}
	})
}
