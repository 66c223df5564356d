package webhook_test

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"chronos/scheduler/dispatch"
	"chronos/scheduler/webhook"
	"chronos/scheduler/webhook/webhooktest"
)

// failing is a connection whose writes fail once broken is set, after the writes took so many bytes.
type failing struct {
	net.Conn
	broken atomic.Bool
	takes  int
}

func (f *failing) Write(p []byte) (int, error) {
	if !f.broken.Load() {
		return f.Conn.Write(p)
	}
	n, _ := f.Conn.Write(p[:f.takes])
	return n, syscall.EPIPE
}

func TestIdleConnectionClosedByReceiver(t *testing.T) {
	t.Run("seen before sending", func(t *testing.T) {
		server := serveRaw(t, func(c *rawConn) {
			if c.request() != "" {
				c.say(ok)
			}
		})
		var dialer dialer
		client := newClient(t, webhook.Config{Dial: dialer.dial})
		const calls = 10
		for range calls {
			wantDelivered(t, deliver(t, client, delivery(server.url)))
			dialer.waitReadable(t)
		}
		if requests, conns := len(server.seen()), len(server.conns()); requests != calls || conns != calls {
			t.Errorf("%d calls made %d requests on %d connections", calls, requests, conns)
		}
	})
	t.Run("a whole pool of them", func(t *testing.T) {
		release := make(chan struct{})
		server := serveRaw(t, func(c *rawConn) {
			if c.request() == "" {
				return
			}
			<-release
			c.say(ok)
		})
		var dialer dialer
		client := newClient(t, webhook.Config{Dial: dialer.dial})
		var calls sync.WaitGroup
		for range 20 {
			calls.Go(func() { wantDelivered(t, deliver(t, client, delivery(server.url))) })
		}
		eventually(t, "20 connections", func() bool { return len(server.seen()) == 20 })
		close(release)
		calls.Wait()
		for _, c := range server.conns() {
			_ = c.Close()
		}
		dialer.waitReadable(t)
		wantDelivered(t, deliver(t, client, delivery(server.url)))
		if n := len(server.seen()); n != 21 {
			t.Errorf("%d requests for 21 calls", n)
		}
	})
	for name, tt := range map[string]struct {
		takes, conns int
		reason       string
	}{
		"takes no byte":   {takes: 0, conns: 2},
		"takes some byte": {takes: 1, conns: 1, reason: "connection closed before an answer"},
	} {
		t.Run(name, func(t *testing.T) {
			server := serveRaw(t, func(c *rawConn) {
				if c.request() != "" {
					c.say(ok)
				}
				_, _ = c.r.Peek(1)
			})
			var conns []*failing
			client := newClient(t, webhook.Config{Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
				c, err := new(net.Dialer).DialContext(ctx, network, address)
				conns = append(conns, &failing{Conn: c, takes: tt.takes})
				return conns[len(conns)-1], err
			}})
			wantDelivered(t, deliver(t, client, delivery(server.url)))
			conns[0].broken.Store(true)
			if got := deliver(t, client, delivery(server.url)); got.Reason != tt.reason {
				t.Errorf("got %+v, want %q", got, tt.reason)
			}
			if len(conns) != tt.conns {
				t.Errorf("%d connections, want %d", len(conns), tt.conns)
			}
		})
	}
	t.Run("new connection that takes no byte", func(t *testing.T) {
		server := serveRaw(t, func(c *rawConn) { _, _ = c.r.Peek(1) })
		dialed := 0
		client := newClient(t, webhook.Config{Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			dialed++
			c, err := new(net.Dialer).DialContext(ctx, network, address)
			broken := &failing{Conn: c}
			broken.broken.Store(true)
			return broken, err
		}})
		wantFailed(t, deliver(t, client, delivery(server.url)), "connection closed before an answer")
		if dialed != 1 {
			t.Errorf("dialed %d times", dialed)
		}
	})
}

// TestUnaskedAnswerIsNotTaken: unasked bytes of a receiver must not pass for the answer to the next
// call.
func TestUnaskedAnswerIsNotTaken(t *testing.T) {
	answered := make(chan struct{})
	server := serveRaw(t, func(c *rawConn) {
		for c.request() != "" {
			c.say("HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n")
			if c.number == 1 {
				<-answered
				c.say(ok)
			}
		}
	})
	var dialer dialer
	client := newClient(t, webhook.Config{Dial: dialer.dial})
	wantFailed(t, deliver(t, client, delivery(server.url)), "status 500")
	close(answered)
	dialer.waitReadable(t)
	wantFailed(t, deliver(t, client, delivery(server.url)), "status 500")
	if n := len(server.conns()); n != 2 {
		t.Errorf("%d connections", n)
	}
}

func TestRequestIsNeverSentTwice(t *testing.T) {
	t.Run("closed without an answer", func(t *testing.T) {
		server := serveRaw(t, func(c *rawConn) {
			for i := 0; c.request() != ""; i++ {
				if c.number%2 == 1 && i == 0 {
					c.say(ok) // so that the next request comes on a used connection
					continue
				}
				return
			}
		})
		client := newClient(t, webhook.Config{})
		for i := range 9 { // delivered, lost on the same connection, lost on a new one
			got := deliver(t, client, delivery(server.url))
			if i%3 == 0 {
				wantDelivered(t, got)
			} else {
				wantFailed(t, got, "connection closed before an answer")
			}
		}
		if n := len(server.seen()); n != 9 {
			t.Errorf("9 calls made %d requests", n)
		}
	})
	t.Run("closed in the answer", func(t *testing.T) {
		for _, part := range []string{"H", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n"} {
			server := serveRaw(t, func(c *rawConn) {
				if c.request() != "" {
					c.say(part)
				}
			})
			wantFailed(t, deliver(t, newClient(t, webhook.Config{}), delivery(server.url)), "connection closed in mid-answer")
			if n := len(server.seen()); n != 1 {
				t.Errorf("sent %d times", n)
			}
		}
	})
	t.Run("receiver at its worst", func(t *testing.T) {
		server := serveRaw(t, func(c *rawConn) {
			for rand.IntN(4) > 0 && c.request() != "" {
				switch rand.IntN(4) {
				case 0:
					return
				case 1:
					c.say("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
					return
				default:
					c.say(ok)
				}
			}
		})
		client := newClient(t, webhook.Config{})
		var calls sync.WaitGroup
		const workers, each = 8, 100
		for w := range workers {
			calls.Go(func() {
				for i := range each {
					d := delivery(server.url)
					d.Seq = 1 + w*each + i
					deliver(t, client, d)
				}
			})
		}
		calls.Wait()
		times := map[string]int{}
		for _, request := range server.seen() {
			_, after, _ := strings.Cut(request, "X-Sequence-Number: ")
			seq, _, _ := strings.Cut(after, "\r\n")
			times[seq]++
		}
		if len(times) < workers*each/4 {
			t.Errorf("only %d of %d requests arrived", len(times), workers*each)
		}
		for seq, n := range times {
			if n > 1 {
				t.Errorf("call %s arrived %d times", seq, n)
			}
		}
	})
}

func TestEarlyAnswerToLongRequest(t *testing.T) {
	for name, tt := range map[string]struct {
		answer string
		want   dispatch.Delivered
	}{
		"refused": {"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n", dispatch.Delivered{Reason: "status 413"}},
		"gone":    {"HTTP/1.1 410 Gone\r\nContent-Length: 0\r\n\r\n", dispatch.Delivered{Verdict: dispatch.VerdictGone, Reason: "status 410"}},
	} {
		t.Run(name, func(t *testing.T) {
			server := serveRaw(t, func(c *rawConn) {
				_, _ = c.r.Peek(1)
				c.say(tt.answer) // and the connection is reset, with most of the request unread
			})
			d := delivery(server.url)
			d.Callback.Opaque = strings.Repeat("x", 16<<20)
			if got := deliver(t, newClient(t, webhook.Config{}), d); got != classed(tt.want) {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}

func TestNoConnection(t *testing.T) {
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	free := listener.Addr().String()
	_ = listener.Close()
	const secret = "hunter2"
	for _, tt := range []struct {
		name, uri string
		dial      error // nil: a real dial
		reason    string
	}{
		{"refused", "http://" + secret + ":" + secret + "@" + free + "/?" + secret, nil, "connection refused"},
		{"no such host", "http://" + secret + ".test/", &net.DNSError{Err: secret, Name: secret, IsNotFound: true}, "host not found"},
		{"lookup fails", "http://a.test/", &net.DNSError{Err: secret, Name: secret, Server: secret}, "host lookup failed"},
		{"lookup takes long", "http://a.test/", &net.DNSError{Err: secret, IsTimeout: true}, "no connection within 0 ms"},
		{"anything else", "http://a.test/", errors.New(secret), "no connection"},
		{"no port that exists", "http://127.0.0.1:99999/", nil, "no connection"},
		{"not in ASCII", "http://ü.test/", nil, "host not in ASCII"},
		{"not a URI", "ftp://a.test/", nil, "uri not usable"},
		{"no host", "http:///", nil, "uri not usable"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := webhook.Config{}
			if tt.dial != nil {
				cfg.Dial = func(context.Context, string, string) (net.Conn, error) { return nil, tt.dial }
			}
			wantFailed(t, deliver(t, newClient(t, cfg), delivery(tt.uri)), tt.reason)
		})
	}
}

func TestProxyOfTheEnvironmentIsNotUsed(t *testing.T) {
	proxy := serveRaw(t, answering(ok))
	for _, name := range []string{"HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"} {
		t.Setenv(name, proxy.url)
	}
	var dialed string
	client := newClient(t, webhook.Config{Dial: func(_ context.Context, network, address string) (net.Conn, error) {
		dialed = network + " " + address
		return nil, errors.New("no network")
	}})
	wantFailed(t, deliver(t, client, delivery("http://a.test/")), "no connection")
	if dialed != "tcp a.test:80" {
		t.Errorf("dialed %q", dialed)
	}
	server := serveRaw(t, answering(ok))
	wantDelivered(t, deliver(t, newClient(t, webhook.Config{}), delivery(server.url+"/path")))
	if requests := server.seen(); len(requests) != 1 || !strings.HasPrefix(requests[0], "POST /path HTTP/1.1\r\n") {
		t.Errorf("at the receiver arrived %q", requests)
	}
	if n := len(proxy.conns()); n != 0 {
		t.Errorf("the proxy got %d connections", n)
	}
}

func TestConcurrentCallsShareConnections(t *testing.T) {
	receiver := webhooktest.New(t)
	var mu sync.Mutex
	dialed := 0
	before := runtime.NumGoroutine()
	client := webhook.New(webhook.Config{Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		mu.Lock()
		dialed++
		mu.Unlock()
		return new(net.Dialer).DialContext(ctx, network, address)
	}})
	const workers, each = 16, 50
	var calls sync.WaitGroup
	for w := range workers {
		calls.Go(func() {
			for i := range each {
				d := delivery(receiver.URL() + "/" + strconv.Itoa(w))
				d.Seq = i + 1
				d.Callback.Opaque = strings.Repeat(strconv.Itoa(w), i)
				wantDelivered(t, deliver(t, client, d))
			}
		})
	}
	calls.Wait()
	if dialed > workers {
		t.Errorf("%d connections for at most %d calls at a time", dialed, workers)
	}
	got := receiver.WaitFor(t, 5*time.Second, webhooktest.AtLeast(workers*each))
	if len(got) != workers*each {
		t.Errorf("%d calls arrived", len(got))
	}
	for _, call := range got {
		if call.Body != strings.Repeat(call.Target[1:], call.Seq-1) {
			t.Errorf("%v has another call's body", call)
		}
	}
	client.Close()
	client.Close()
	receiver.Close()
	eventually(t, "all goroutines end", func() bool { return runtime.NumGoroutine() <= before })
}

func TestDeliverAfterClose(t *testing.T) {
	server := serveRaw(t, func(c *rawConn) {
		answering(ok)(c)
		_, _ = io.Copy(io.Discard, c)
	})
	client := webhook.New(webhook.Config{})
	client.Close()
	for range 2 {
		wantDelivered(t, deliver(t, client, delivery(server.url)))
	}
	if n := len(server.conns()); n != 2 {
		t.Errorf("%d connections, want one for each call", n)
	}
}
