package client_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"

	"chronos/api"
	"chronos/api/client"
	"chronos/api/openapitest"
	"chronos/scheduler/dispatch"
	"chronos/scheduler/timer"
	"chronos/scheduler/webhook"
)

// popped is a callback as a node sends the callback.
func popped() *http.Request {
	r := httptest.NewRequestWithContext(context.Background(), http.MethodPost, "/hello", strings.NewReader("tea is ready"))
	for name, value := range map[string]string{
		"Content-Type": "text/plain; charset=utf-8", "X-Sequence-Number": "1", "X-Chronos-Timer": "tea-2-2010000000000040", "X-Chronos-Attempt": "2",
		"X-Chronos-Due": "2026-11-21T02:22:48.508Z", "webhook-id": "tea.01a1fbe0aefb231c.1", "webhook-timestamp": "1795227769",
	} {
		r.Header.Set(name, value)
	}
	return r
}

func TestParseCallback(t *testing.T) {
	got, err := client.ParseCallback(popped())
	if err != nil {
		t.Fatal(err)
	}
	want := client.Callback{
		Timer: "tea-2-2010000000000040", Key: "tea", Sequence: 1, Attempt: 2, WebhookID: "tea.01a1fbe0aefb231c.1",
		Due: time.Date(2026, 11, 21, 2, 22, 48, 508e6, time.UTC), Sent: time.Unix(1795227769, 0).UTC(), Body: []byte("tea is ready"),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("callback (-want +have):\n%s", diff)
	}
}

func TestParseCallbackReadsHowManyPopsWereLeftOut(t *testing.T) {
	r := popped()
	r.Header.Set("X-Chronos-Left-Out", "14")
	if got, err := client.ParseCallback(r); err != nil || got.LeftOut != 14 {
		t.Errorf("have %d, %v, want 14", got.LeftOut, err)
	}
}

func TestParseCallbackRefuses(t *testing.T) {
	for header, values := range map[string][]string{
		"X-Sequence-Number": {"", "0", "-1", "one", "1.5"},
		"X-Chronos-Attempt": {"", "0"},
		"X-Chronos-Timer":   {""},
		"X-Chronos-Due":     {"", "soon"},
		"webhook-id":        {"", "tea", "tea.1", "..", ".1.1"},
		"webhook-timestamp": {"", "now"},

		"X-Chronos-Left-Out": {"0", "some"},
	} {
		for _, value := range values {
			r := popped()
			r.Header.Set(header, value)
			if _, err := client.ParseCallback(r); err == nil || !strings.Contains(err.Error(), header) {
				t.Errorf("%s %q: have %v, want an error that names the header", header, value, err)
			}
		}
	}
	r := popped()
	r.Method = http.MethodGet
	if _, err := client.ParseCallback(r); err == nil {
		t.Error("a GET passes")
	}
	cut := errors.New("cut")
	r = httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/hello", iotest.ErrReader(cut))
	r.Header = popped().Header
	if _, err := client.ParseCallback(r); !errors.Is(err, cut) {
		t.Errorf("have %v, want what went wrong with the body", err)
	}
}

// A callback that a node really sends is as described, and can be read in full.
func TestParseDelivered(t *testing.T) {
	var got client.Callback
	receiver := httptest.NewServer(openapitest.Callbacks(t, api.OpenAPI(), http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var err error
		if got, err = client.ParseCallback(r); err != nil {
			t.Error(err)
		}
	})))
	defer receiver.Close()
	deliverer := webhook.New(webhook.Config{})
	defer deliverer.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	due := time.Date(2026, 11, 21, 2, 22, 48, 508e6, time.UTC)
	delivered := deliverer.Deliver(ctx, dispatch.Delivery{
		Callback: timer.Callback{URI: receiver.URL + "/hello", Opaque: "tea\x00é"}, ID: timer.ID{Key: "my.own~key", RF: 2, Hint: 7},
		Version: 0x01a1fbe0aefb231c, Seq: 3, Attempt: 2, Due: due,
	})
	if delivered.Verdict != dispatch.VerdictDelivered {
		t.Fatalf("not delivered: %+v", delivered)
	}
	if since := time.Since(got.Sent); since < 0 || since > time.Minute {
		t.Errorf("sent %v ago", since)
	}
	want := client.Callback{
		Timer: "my.own~key-2-0000000000000007", Key: "my.own~key", Sequence: 3, Attempt: 2, Due: due,
		WebhookID: "my.own~key.01a1fbe0aefb231c.3", Sent: got.Sent, Body: []byte("tea\x00é"),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("callback (-want +have):\n%s", diff)
	}
}

// FuzzParseCallback: every callback that ParseCallback accepts has all that its fields promise.
func FuzzParseCallback(f *testing.F) {
	f.Add("k-2-0000000000008421", "k.019b76679000beef.1", "1", "1", "2026-11-21T00:33:39.390Z", "1795221219", "body")
	f.Add("", "", "-1", "0", "now", "x", "")
	f.Add("a.b", "a.b.019b76679000beef.07", "+1", "9999999999999999999", "0000-01-01T00:00:00Z", "-1", "\x00")
	f.Fuzz(func(t *testing.T, asked, id, sequence, attempt, due, sent, body string) {
		r := &http.Request{Method: http.MethodPost, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body))}
		for name, value := range map[string]string{
			"X-Chronos-Timer": asked, "Webhook-Id": id, "X-Sequence-Number": sequence, "X-Chronos-Attempt": attempt,
			"X-Chronos-Due": due, "Webhook-Timestamp": sent,
		} {
			r.Header.Set(name, value)
		}
		c, err := client.ParseCallback(r)
		if err != nil {
			return
		}
		if c.Sequence < 1 || c.Attempt < 1 || c.Due.IsZero() && due != "0001-01-01T00:00:00Z" || c.Key == "" || c.Timer != asked || c.WebhookID != id || string(c.Body) != body {
			t.Errorf("taken as %+v", c)
		}
		if !strings.HasPrefix(id, c.Key+".") {
			t.Errorf("key %q of webhook-id %q", c.Key, id)
		}
	})
}
