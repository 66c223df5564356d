package webhook_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"chronos/scheduler/dispatch"
	"chronos/scheduler/webhook"
	"chronos/scheduler/webhook/webhooktest"
)

func TestVerdict(t *testing.T) {
	const empty = "Content-Length: 0\r\n\r\n"
	failed := func(reason string) dispatch.Delivered { return dispatch.Delivered{Reason: reason} }
	delivered := dispatch.Delivered{Verdict: dispatch.VerdictDelivered, Answer: "status 200"}
	answered := func(status string) dispatch.Delivered {
		return dispatch.Delivered{Verdict: dispatch.VerdictDelivered, Answer: status}
	}
	long := "X-Long: " + strings.Repeat("v", 9000) + "\r\n"
	for _, tt := range []struct {
		name, answer string
		want         dispatch.Delivered
		again        bool // the connection is used again
	}{
		{"200", ok, delivered, true},
		{"201 without reason phrase", "HTTP/1.1 201\r\n" + empty, answered("status 201"), true},
		{"204", "HTTP/1.1 204 No Content\r\n\r\n", answered("status 204"), true},
		{"299", "HTTP/1.1 299 Any\r\n" + empty, answered("status 299"), true},
		{"chunked", "HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n3;x=y\r\nabc\r\n0\r\n\r\n", delivered, true},
		{"chunked with a trailer", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nTrailer: a\r\n\r\n", delivered, false},
		{"chunked, a bare line end at last", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\n", delivered, false},
		{"bare line feeds", "HTTP/1.1 200 OK\ncontent-length:0\n\n", delivered, true},
		{"long header", "HTTP/1.1 200 OK\r\n" + long + empty, delivered, true},
		{"early hints", "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n" + empty, delivered, true},
		{"nonsense in an interim answer", "HTTP/1.1 103 Early Hints\r\nnonsense\r\n\r\nHTTP/1.1 200 OK\r\n" + empty, delivered, false},
		{"HTTP/1.0", "HTTP/1.0 200 OK\r\n" + empty, delivered, false},
		{"HTTP/1.0 kept", "HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\n" + empty, delivered, true},
		{"close", "HTTP/1.1 200 OK\r\nConnection: x, Close\r\n" + empty, delivered, false},
		{"two lengths", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n" + empty, delivered, false},
		{"equal lengths", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n" + empty, delivered, true},
		{"negative length", "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", delivered, false},
		{"length and chunked", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n" + empty + "0\r\n\r\n", delivered, false},
		{"other coding", "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", delivered, false},
		{"broken chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", delivered, false},
		{"folded header", "HTTP/1.1 200 OK\r\nX: y\r\n z\r\n" + empty, delivered, false},
		{"header without colon", "HTTP/1.1 200 OK\r\nnonsense\r\n" + empty, delivered, false},
		{"more than announced", ok + "HTTP/1.1 200 OK\r\n" + empty, delivered, false},
		{"410", "HTTP/1.1 410 Gone\r\n" + empty, dispatch.Delivered{Verdict: dispatch.VerdictGone, Reason: "status 410"}, true},
		{"switching protocols", "HTTP/1.1 101 Switching\r\n\r\n", failed("status 101"), false},
		{"304", "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", failed("status 304"), true},
		{"400", "HTTP/1.1 400 secret\r\nX: secret\r\nContent-Length: 6\r\n\r\nsecret", failed("status 400"), true},
		{"503", "HTTP/1.1 503 Busy\r\nRetry-After: 3\r\n" + empty, dispatch.Delivered{Reason: "status 503", RetryAfter: 3 * time.Second}, true},
		{"999", "HTTP/1.1 999 ?\r\n" + empty, failed("status 999"), true},
		{"status too small", "HTTP/1.1 099 ?\r\n" + empty, failed("answer is not HTTP/1"), false},
		{"status too long", "HTTP/1.1 2000 OK\r\n" + empty, failed("answer is not HTTP/1"), false},
		{"status with sign", "HTTP/1.1 +20 OK\r\n" + empty, failed("answer is not HTTP/1"), false},
		{"HTTP/2", "HTTP/2.0 200 OK\r\n" + empty, failed("answer is not HTTP/1"), false},
		{"not HTTP", "220 mail.test ESMTP\r\n", failed("answer is not HTTP/1"), false},
		{"interim for ever", strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", 100), failed("answer is not HTTP/1"), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			server := serveRaw(t, func(c *rawConn) {
				if c.request() == "" {
					return
				}
				c.say(tt.answer)
				if tt.again {
					answering(ok)(c)
				}
			})
			client := newClient(t, webhook.Config{})
			if diff := cmp.Diff(classed(tt.want), deliver(t, client, delivery(server.url))); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
			if !tt.again {
				return
			}
			wantDelivered(t, deliver(t, client, delivery(server.url)))
			if n := len(server.conns()); n != 1 {
				t.Errorf("%d connections for two calls", n)
			}
		})
	}
}

// TestUnclearAnswerCostsTheConnection: if an answer makes the connection unusable, no request follows,
// although the receiver keeps the connection open.
func TestUnclearAnswerCostsTheConnection(t *testing.T) {
	for name, answer := range map[string]string{
		"close":              "HTTP/1.1 200 OK\r\nConnection: Close\r\nContent-Length: 0\r\n\r\n",
		"HTTP/1.0":           "HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n",
		"two lengths":        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 0\r\n\r\n",
		"length and chunked": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n0\r\n\r\n",
		"odd interim answer": "HTTP/1.1 103 Early Hints\r\nnonsense\r\n\r\n" + ok,
		"two answers":        ok + "HTTP/1.1 500 Not Yours\r\nContent-Length: 0\r\n\r\n",
		"too long":           "HTTP/1.1 200 OK\r\nContent-Length: 70000\r\n\r\n" + strings.Repeat("x", 70000),
		"too many chunks":    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + strings.Repeat("1000\r\n"+strings.Repeat("x", 4096)+"\r\n", 17) + "0\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			server := serveRaw(t, answering(answer))
			client := newClient(t, webhook.Config{})
			for range 3 {
				wantDelivered(t, deliver(t, client, delivery(server.url)))
			}
			if n := len(server.conns()); n != 3 {
				t.Errorf("%d connections for three calls", n)
			}
		})
	}
}

func TestRedirectIsNotFollowed(t *testing.T) {
	elsewhere := webhooktest.New(t)
	receiver := webhooktest.New(t)
	client := newClient(t, webhook.Config{})
	statuses := []int{301, 302, 303, 307, 308}
	receiver.Respond(func(c webhooktest.Call) webhooktest.Answer {
		return webhooktest.Answer{Status: statuses[c.Number-1], Location: elsewhere.URL()}
	})
	for range statuses {
		if got := deliver(t, client, delivery(receiver.URL())); got.Verdict != dispatch.VerdictFailed || !strings.HasPrefix(got.Reason, "status 30") {
			t.Errorf("got %+v", got)
		}
	}
	if calls := elsewhere.Calls(); len(calls) != 0 {
		t.Errorf("followed: %v", calls)
	}
}

func TestRetryAfter(t *testing.T) {
	const date = "Date: Fri, 20 Nov 2026 10:00:00 GMT\r\n"
	for _, tt := range []struct {
		name, header string
		want         time.Duration
	}{
		{"none", date, 0},
		{"seconds", "Retry-After: 120\r\n", 2 * time.Minute},
		{"seconds, spaces", "retry-after:  7 \r\n", 7 * time.Second},
		{"zero", "Retry-After: 0\r\n", 0},
		{"an hour", "Retry-After: 3600\r\n", time.Hour},
		{"over an hour", "Retry-After: 3601\r\n", time.Hour},
		{"far over", "Retry-After: 999999999999999999\r\n", time.Hour},
		{"no number", "Retry-After: 99999999999999999999\r\n", 0},
		{"negative", "Retry-After: -1\r\n", 0},
		{"fraction", "Retry-After: 1.5\r\n", 0},
		{"nonsense", "Retry-After: soon\r\n", 0},
		{"empty", "Retry-After:\r\n", 0},
		{"long", "Retry-After: " + strings.Repeat(" ", 100) + strings.Repeat("1", 100) + "\r\n", 0},
		{"two", "Retry-After: 5\r\nRetry-After: 6\r\n", 5 * time.Second},
		{"date", date + "Retry-After: Fri, 20 Nov 2026 10:00:30 GMT\r\n", 30 * time.Second},
		{"date first", "Retry-After: Fri, 20 Nov 2026 10:00:30 GMT\r\n" + date, 30 * time.Second},
		{"date, old form", date + "Retry-After: Friday, 20-Nov-26 10:00:30 GMT\r\n", 30 * time.Second},
		{"date over an hour", date + "Retry-After: Fri, 20 Nov 2026 12:00:00 GMT\r\n", time.Hour},
		{"date in the past", date + "Retry-After: Fri, 20 Nov 2026 09:59:59 GMT\r\n", 0},
		{"far date, local clock", "Retry-After: Fri, 31 Dec 9999 23:59:59 GMT\r\n", time.Hour},
		{"past date, local clock", "Retry-After: Thu, 01 Jan 1970 00:00:00 GMT\r\n", 0},
		{"date, receiver's is nonsense", "Date: today\r\nRetry-After: Fri, 31 Dec 9999 23:59:59 GMT\r\n", time.Hour},
	} {
		t.Run(tt.name, func(t *testing.T) {
			server := serveRaw(t, answering("HTTP/1.1 429 Slow Down\r\nContent-Length: 0\r\n"+tt.header+"\r\n"))
			got := deliver(t, newClient(t, webhook.Config{}), delivery(server.url))
			if diff := cmp.Diff(classed(dispatch.Delivered{Reason: "status 429", RetryAfter: tt.want}), got); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
		})
	}
	t.Run("of a delivered callback", func(t *testing.T) {
		server := serveRaw(t, answering("HTTP/1.1 200 OK\r\nRetry-After: 9\r\nContent-Length: 0\r\n\r\n"))
		wantDelivered(t, deliver(t, newClient(t, webhook.Config{}), delivery(server.url)))
	})
}
