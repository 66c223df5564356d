package webhook_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/textproto"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"chronos/scheduler/dispatch"
	"chronos/scheduler/timer"
	"chronos/scheduler/webhook"
	"chronos/scheduler/webhook/webhooktest"
)

// headerNames are the names of a request's header lines, in their order.
func headerNames(t *testing.T, request string) (names []string) {
	t.Helper()
	head, _, found := strings.Cut(request, "\r\n\r\n")
	if !found {
		t.Fatalf("no end of the head in %q", request)
	}
	for _, line := range strings.Split(head, "\r\n")[1:] {
		name, value, ok := strings.Cut(line, ": ")
		if !ok || value == "" || textproto.TrimString(value) != value {
			t.Errorf("line %q", line)
		}
		if strings.ContainsFunc(line, func(r rune) bool { return r < ' ' || r > '~' }) {
			t.Errorf("line %q", line)
		}
		names = append(names, name)
	}
	return names
}

// TestHeadersAreThereOnce: whatever the URI and the opaque try to end, the client sends one request
// with the intended headers.
func TestHeadersAreThereOnce(t *testing.T) {
	server := serveRaw(t, answering(ok))
	plain := newClient(t, webhook.Config{})
	signing := newClient(t, webhook.Config{Secrets: secrets(t, secretOf(24, 1)+","+secretOf(24, 2))})
	for _, tt := range []struct {
		name, userinfo, resource, opaque string
		client                           *webhook.Client
		more                             []string
	}{
		{name: "plain", resource: "/", opaque: "opaque"},
		{name: "empty body", resource: "/"},
		{name: "1 MiB", resource: "/", opaque: strings.Repeat("x", 1<<20)},
		{name: "opaque like a head", resource: "/", opaque: "\r\nContent-Length: 0\r\nContent-Type: a/b\r\n\r\nPOST / HTTP/1.1\r\n\r\n"},
		{name: "encoded line end in the path", resource: "/%0d%0aX-Evil:%20y%0d%0a%0d%0a"},
		{name: "encoded line end in the query", resource: "/?%0D%0AX-Evil: y"},
		{name: "line end in the path", resource: "/a\r\nX-Evil: y\r\n\r\n"},
		{name: "line end in the query", resource: "?a\nX-Evil: y"},
		{name: "line end in the fragment", resource: "/#\r\nX-Evil: y"},
		{name: "NUL and more", resource: "/\x00\x7f\u0085\u2028\xff"},
		{name: "second request line", resource: "/ HTTP/1.1\r\nHost: evil.test\r\n\r\n"},
		{name: "line end in userinfo", userinfo: "a%0d%0aX-Evil:y:b%0a@", resource: "/", more: []string{"Authorization"}},
		{name: "long userinfo", userinfo: strings.Repeat("u", 4000) + ":p@", resource: "/", more: []string{"Authorization"}},
		{name: "signed", resource: "/", opaque: "opaque", client: signing, more: []string{"webhook-signature"}},
		{name: "signed, empty body", resource: "/", client: signing, more: []string{"webhook-signature"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := delivery("http://" + tt.userinfo + server.addr + tt.resource)
			d.Callback.Opaque = tt.opaque
			client := tt.client
			if client == nil {
				client = plain
			}
			before := len(server.seen())
			wantDelivered(t, deliver(t, client, d))
			requests := server.seen()[before:]
			if len(requests) != 1 {
				t.Fatalf("%d requests arrived", len(requests))
			}
			if line, _, _ := strings.Cut(requests[0], "\r\n"); strings.Count(line, " ") != 2 || !strings.HasSuffix(line, " HTTP/1.1") {
				t.Errorf("request line %q", line)
			}
			want := append([]string{
				"Content-Length", "Content-Type", "Host", "User-Agent", "X-Chronos-Attempt", "X-Chronos-Due", "X-Chronos-Timer",
				"X-Sequence-Number", "webhook-id", "webhook-timestamp",
			}, tt.more...)
			names := headerNames(t, requests[0])
			slices.Sort(names)
			slices.Sort(want)
			if diff := cmp.Diff(want, names); diff != "" {
				t.Errorf("headers (-want +got):\n%s", diff)
			}
			if !strings.Contains(requests[0], "\r\nHost: "+server.addr+"\r\n") ||
				!strings.Contains(requests[0], "\r\nContent-Length: "+strconv.Itoa(len(tt.opaque))+"\r\n") {
				t.Errorf("Host or Content-Length isn't right in %.300q", requests[0])
			}
		})
	}
}

// TestBodyByteForByte: a receiver finds the bytes of the JSON string's text, whatever the text.
func TestBodyByteForByte(t *testing.T) {
	server := serveRaw(t, answering(ok))
	client := newClient(t, webhook.Config{})
	fromJSON := func(text string) (s string) {
		t.Helper()
		if err := json.Unmarshal([]byte(`"`+text+`"`), &s); err != nil {
			t.Fatal(err)
		}
		return s
	}
	var escapes, every strings.Builder
	for i := range 0x100 {
		_, _ = fmt.Fprintf(&escapes, `\u%04x`, i)
	}
	for r := range rune(utf8.MaxRune + 1) {
		if utf8.ValidRune(r) {
			every.WriteRune(r)
		}
	}
	for name, tt := range map[string]struct {
		body  string
		bytes int
	}{
		"empty":            {"", 0},
		"NUL":              {fromJSON(`\u0000`), 1},
		"NULs around":      {fromJSON(`\u0000a\u0000`), 3},
		"u0000 to u00ff":   {fromJSON(escapes.String()), 128 + 2*128},
		"surrogate pairs":  {fromJSON(`\ud83d\ude00\udbff\udfff\ud800\udc00`), 12},
		"lone surrogate":   {fromJSON(`\ud800`), 3}, // decoded as U+FFFD
		"line ends":        {"\r\n\n\r\u0085\u2028\u2029", 4 + 2 + 3 + 3},
		"byte order marks": {"\ufeff\ufffe\uffff", 9},
		"combining":        {"e\u0301\u00e9", 5}, // not normalized
		"final line end":   {"a\r\n", 3},
		"every code point": {every.String(), 0x80 + 0x780*2 + (0x10000-0x800-0x800)*3 + 0x100000*4},
		"1 MiB":            {strings.Repeat("ü\x00", (1<<20)/3) + "x", 1 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			if len(tt.body) != tt.bytes {
				t.Fatalf("the body has %d bytes, want %d", len(tt.body), tt.bytes)
			}
			d := delivery(server.url)
			d.Callback.Opaque = tt.body
			wantDelivered(t, deliver(t, client, d))
			requests := server.seen()
			head, got, _ := strings.Cut(requests[len(requests)-1], "\r\n\r\n")
			if !strings.Contains(head, "\r\nContent-Length: "+strconv.Itoa(tt.bytes)+"\r\n") {
				t.Errorf("Content-Length isn't %d in %q", tt.bytes, head)
			}
			if got != tt.body {
				t.Errorf("%d bytes arrived that differ from the %d sent", len(got), len(tt.body))
			}
		})
	}
}

// TestHeadersOfAttempts: by these headers a receiver can tell a repeat from a new call.
func TestHeadersOfAttempts(t *testing.T) {
	due := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	attempt := func(key string, version timer.Version, seq, n int, due time.Time) dispatch.Delivery {
		return dispatch.Delivery{
			Callback: timer.Callback{URI: "http://memory.test/"}, ID: timer.ID{Key: key, RF: 2, Hint: 5},
			Version: version, Seq: seq, Attempt: n, Due: due,
		}
	}
	synctest.Test(t, func(t *testing.T) {
		memory := webhooktest.NewMemory()
		receiver := webhooktest.Serve(t, memory)
		receiver.Respond(webhooktest.Script(webhooktest.Answer{Status: http.StatusServiceUnavailable}, webhooktest.Answer{Drop: true}))
		client := webhook.New(webhook.Config{Dial: memory.Dial})
		defer client.Close()
		for i, d := range []dispatch.Delivery{
			attempt("k", 0x123, 1, 1, due),
			attempt("k", 0x123, 1, 2, due),
			attempt("k", 0x123, 1, 3, due),
			attempt("k", 0x123, 2, 1, due.Add(time.Second)),
			attempt("k", 0x124, 1, 1, due),
			attempt("k.1", 0x123, 1, 1, due),
			attempt("k", 0x123, 11, 1, due),
			attempt("K", 0x123, 1, 1, due),
			attempt("~._-0", 1<<64-1, 1<<31, 999, due.Add(999*time.Millisecond).In(time.FixedZone("", -3600))),
		} {
			if i > 0 {
				time.Sleep(1500 * time.Millisecond)
			}
			sent := time.Now().Unix()
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			client.Deliver(ctx, d)
			cancel()
			synctest.Wait()
			calls := receiver.Calls()
			if len(calls) != i+1 {
				t.Fatalf("%d calls for %d attempts", len(calls), i+1)
			}
			if got := calls[i].Header.Get("Webhook-Timestamp"); got != strconv.FormatInt(sent, 10) {
				t.Errorf("attempt %d has timestamp %s, sent at %d", i, got, sent)
			}
		}
		var got [][5]string
		for _, call := range receiver.Calls() {
			h := call.Header
			got = append(got, [5]string{
				h.Get("Webhook-Id"), h.Get("X-Sequence-Number"), h.Get("X-Chronos-Attempt"), h.Get("X-Chronos-Due"), h.Get("X-Chronos-Timer"),
			})
		}
		const at, k = "2026-11-20T10:00:00.000Z", "k-2-0000000000000005"
		want := [][5]string{
			{"k.0000000000000123.1", "1", "1", at, k},
			{"k.0000000000000123.1", "1", "2", at, k},
			{"k.0000000000000123.1", "1", "3", at, k},
			{"k.0000000000000123.2", "2", "1", "2026-11-20T10:00:01.000Z", k},
			{"k.0000000000000124.1", "1", "1", at, k},
			{"k.1.0000000000000123.1", "1", "1", at, "k.1-2-0000000000000005"},
			{"k.0000000000000123.11", "11", "1", at, k},
			{"K.0000000000000123.1", "1", "1", at, "K-2-0000000000000005"},
			{"~._-0.ffffffffffffffff.2147483648", "2147483648", "999", "2026-11-20T10:00:00.999Z", "~._-0-2-0000000000000005"},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("headers (-want +got):\n%s", diff)
		}
		receiver.Close() // within the bubble, since Close waits for goroutines of the bubble
	})
}
