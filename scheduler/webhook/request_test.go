package webhook_test

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"chronos/scheduler/timer"
	"chronos/scheduler/webhook"
)

func TestRequestOnTheWire(t *testing.T) {
	server := serveRaw(t, answering("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nSet-Cookie: a=b\r\n\r\n"))
	client := newClient(t, webhook.Config{})
	for _, tt := range []struct {
		name, userinfo, resource string // of the URI
		target, authorization    string // of the request
	}{
		{name: "plain", resource: "/call/back", target: "/call/back"},
		{name: "no path", resource: "", target: "/"},
		{name: "query alone", resource: "?a=b", target: "/?a=b"},
		{name: "empty query", resource: "/?", target: "/?"},
		{name: "as it stands", resource: "/a/../b//c;d=e,f%2Fg?h=%20&i=[j]#k?l", target: "/a/../b//c;d=e,f%2Fg?h=%20&i=[j]"},
		{name: "fragment alone", resource: "#top", target: "/"},
		{name: "what a request line can't hold", resource: "/é\"<{|}>?q=ü^`\\", target: "/%C3%A9%22%3C%7B%7C%7D%3E?q=%C3%BC%5E%60%5C"},
		{name: "userinfo", userinfo: "me:p%40ss:w@", resource: "/", target: "/", authorization: "Basic bWU6cEBzczp3"},
		{name: "user alone", userinfo: "me@", resource: "/", target: "/", authorization: "Basic bWU6"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := time.Now().Unix()
			wantDelivered(t, deliver(t, client, delivery("http://"+tt.userinfo+server.addr+tt.resource)))
			requests := server.seen()
			got := requests[len(requests)-1]
			stamp := regexp.MustCompile(`webhook-timestamp: (\d+)`).FindStringSubmatch(got)
			if stamp == nil {
				t.Fatalf("no timestamp in %q", got)
			}
			if sent, _ := strconv.ParseInt(stamp[1], 10, 64); sent < before || sent > time.Now().Unix() {
				t.Errorf("sent at %d, not between %d and now", sent, before)
			}
			authorization := ""
			if tt.authorization != "" {
				authorization = "Authorization: " + tt.authorization + "\r\n"
			}
			want := "POST " + tt.target + " HTTP/1.1\r\n" +
				"Host: " + server.addr + "\r\n" +
				"User-Agent: chronos\r\n" +
				"Content-Type: text/plain; charset=utf-8\r\n" +
				"Content-Length: 6\r\n" +
				authorization +
				"X-Sequence-Number: 7\r\n" +
				"X-Chronos-Timer: k-2-0000000000000005\r\n" +
				"X-Chronos-Attempt: 3\r\n" +
				"X-Chronos-Due: 2026-11-20T10:00:00.005Z\r\n" +
				"webhook-id: k.0000000000000123.7\r\n" +
				"webhook-timestamp: " + stamp[1] + "\r\n" +
				"\r\n" +
				"opaque"
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("request (-want +got):\n%s", diff)
			}
		})
	}
	if n := len(server.conns()); n != 1 {
		t.Errorf("%d connections for calls one after the other", n)
	}
}

// The members of a callback that say what to send, as a receiver gets the request.
func TestOwnMethodAndHeadersOnTheWire(t *testing.T) {
	server := serveRaw(t, answering(ok))
	client := newClient(t, webhook.Config{})
	const own = "\r\nAuthorization: Bearer s3cret\r\nX-Odd~: a: \"b\""
	for name, c := range map[string]struct {
		callback timer.Callback
		want     string // from the request line to the headers of chronos
	}{
		"get": {timer.Callback{Method: "GET"}, "GET / HTTP/1.1\r\nHost: @\r\nUser-Agent: chronos\r\n"},
		"put": {timer.Callback{Method: "PUT", Opaque: "x"}, "PUT / HTTP/1.1\r\nHost: @\r\nUser-Agent: chronos\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 1\r\n"},
		"delete without a body": {
			timer.Callback{Method: "DELETE"},
			"DELETE / HTTP/1.1\r\nHost: @\r\nUser-Agent: chronos\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 0\r\n",
		},
		"headers": {
			timer.Callback{Method: "PATCH", Opaque: "{}", Headers: own + "\r\ncontent-type: application/json\r\nUser-agent: mine"},
			"PATCH / HTTP/1.1\r\nHost: @\r\nContent-Length: 2" + own + "\r\ncontent-type: application/json\r\nUser-agent: mine\r\n",
		},
		"headers of a get": {timer.Callback{Method: "GET", Headers: own}, "GET / HTTP/1.1\r\nHost: @\r\nUser-Agent: chronos" + own + "\r\n"},
		// Nobody can ask for a GET with a body. Without its length the body would be a second request.
		"body of a get": {timer.Callback{Method: "GET", Opaque: "x"}, "GET / HTTP/1.1\r\nHost: @\r\nUser-Agent: chronos\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 1\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			d := delivery("http://" + server.addr + "/")
			c.callback.URI = d.Callback.URI
			d.Callback = c.callback
			wantDelivered(t, deliver(t, client, d))
			requests := server.seen()
			got := requests[len(requests)-1]
			want := strings.ReplaceAll(c.want, "@", server.addr)
			if head, _, _ := strings.Cut(got, "X-Sequence-Number: 7\r\n"); head != want {
				t.Errorf("the request is %q, want %q", head, want)
			}
			if _, body, _ := strings.Cut(got, "\r\n\r\n"); body != c.callback.Opaque {
				t.Errorf("the body is %q, want %q", body, c.callback.Opaque)
			}
		})
	}
}

func TestPopsLeftOutAreAHeader(t *testing.T) {
	server := serveRaw(t, answering(ok))
	client := newClient(t, webhook.Config{})
	d := delivery("http://" + server.addr + "/")
	wantDelivered(t, deliver(t, client, d))
	d.LeftOut = 14
	wantDelivered(t, deliver(t, client, d))
	requests := server.seen()
	if strings.Contains(requests[0], "Left-Out") || !strings.Contains(requests[1], "\r\nX-Chronos-Left-Out: 14\r\n") {
		t.Errorf("without and with pops left out:\n%s\n%s", requests[0], requests[1])
	}
}

func TestBodyIsSentUnchanged(t *testing.T) {
	server := serveRaw(t, answering(ok))
	client := newClient(t, webhook.Config{})
	var all strings.Builder
	for i := range 256 {
		all.WriteByte(byte(i))
	}
	for name, body := range map[string]string{
		"empty":     "",
		"all bytes": all.String(),
		"head":      "\r\n\r\nPOST / HTTP/1.1\r\n\r\n",
		"8 KiB":     strings.Repeat("0123456789abcdef", 512),
		"1 MiB":     strings.Repeat(all.String(), 4096),
	} {
		t.Run(name, func(t *testing.T) {
			d := delivery(server.url)
			d.Callback.Opaque = body
			wantDelivered(t, deliver(t, client, d))
			requests := server.seen()
			head, got, _ := strings.Cut(requests[len(requests)-1], "\r\n\r\n")
			if !strings.Contains(head, "\r\nContent-Length: "+strconv.Itoa(len(body))+"\r\n") {
				t.Errorf("Content-Length isn't %d in %q", len(body), head)
			}
			if got != body {
				t.Errorf("%d bytes arrived that differ from the %d sent", len(got), len(body))
			}
		})
	}
}

func TestLongURI(t *testing.T) {
	server := serveRaw(t, answering(ok))
	client := newClient(t, webhook.Config{})
	path := "/" + strings.Repeat("p", 8<<10-len(server.url)-1)
	for range 2 {
		wantDelivered(t, deliver(t, client, delivery(server.url+path)))
	}
	for _, request := range server.seen() {
		if !strings.HasPrefix(request, "POST "+path+" HTTP/1.1\r\n") || !strings.HasSuffix(request, "\r\n\r\nopaque") {
			t.Errorf("not as sent: %.20q … %q", request, request[len(request)-20:])
		}
	}
}

func TestIDWithoutReplication(t *testing.T) {
	server := serveRaw(t, answering(ok))
	d := delivery(server.url)
	d.ID.RF = 0
	wantDelivered(t, deliver(t, newClient(t, webhook.Config{}), d))
	if got := server.seen()[0]; !strings.Contains(got, "\r\nX-Chronos-Timer: k\r\n") || !strings.Contains(got, "\r\nwebhook-id: k.") {
		t.Errorf("a bare key is sent as %q", got)
	}
}
