package webhook_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"chronos/scheduler/dispatch"
	"chronos/scheduler/timer"
	"chronos/scheduler/verify/testkit"
	"chronos/scheduler/webhook"
)

// rawServer is a listener that shows the received bytes.
type rawServer struct {
	url, addr string
	listener  net.Listener

	mu       sync.Mutex
	accepted []net.Conn
	requests []string
}

// rawConn is a connection to a rawServer.
type rawConn struct {
	net.Conn
	server *rawServer
	number int // from 1
	r      *bufio.Reader

	segments *segments // below TLS, nil without TLS
}

// serveRaw calls handle for every connection, and closes the connection afterwards. All connections are
// closed when the test ends.
func serveRaw(t *testing.T, handle func(*rawConn)) *rawServer {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &rawServer{addr: listener.Addr().String(), url: "http://" + listener.Addr().String(), listener: listener}
	var handlers sync.WaitGroup
	handlers.Go(func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			s.accepted = append(s.accepted, c)
			number := len(s.accepted)
			s.mu.Unlock()
			handlers.Go(func() {
				defer func() { _ = c.Close() }()
				handle(&rawConn{Conn: c, server: s, number: number, r: bufio.NewReader(c)})
			})
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		for _, c := range s.conns() {
			_ = c.Close()
		}
		handlers.Wait()
	})
	return s
}

func (s *rawServer) conns() []net.Conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]net.Conn(nil), s.accepted...)
}

func (s *rawServer) seen() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.requests...)
}

// request reads the next request, "" at the end.
func (c *rawConn) request() string {
	var head strings.Builder
	length := 0
	for {
		line, err := c.r.ReadString('\n')
		if err != nil {
			return ""
		}
		head.WriteString(line)
		if value, ok := strings.CutPrefix(line, "Content-Length: "); ok {
			length, _ = strconv.Atoi(strings.TrimSpace(value))
		}
		if line == "\r\n" {
			break
		}
	}
	body := make([]byte, length)
	if _, err := io.ReadFull(c.r, body); err != nil {
		return ""
	}
	request := head.String() + string(body)
	c.server.mu.Lock()
	c.server.requests = append(c.server.requests, request)
	c.server.mu.Unlock()
	return request
}

func (c *rawConn) say(s string) { _, _ = io.WriteString(c, s) }

// answering answers every request of every connection with the same bytes.
func answering(answer string) func(*rawConn) {
	return func(c *rawConn) {
		for c.request() != "" {
			c.say(answer)
		}
	}
}

const ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

func newClient(t *testing.T, cfg webhook.Config) *webhook.Client {
	t.Helper()
	client := webhook.New(cfg)
	t.Cleanup(client.Close)
	return client
}

func delivery(uri string) dispatch.Delivery {
	return dispatch.Delivery{
		Callback: timer.Callback{URI: uri, Opaque: "opaque"},
		ID:       timer.ID{Key: "k", RF: 2, Hint: 5},
		Version:  0x123, Seq: 7, Attempt: 3,
		Due: time.Date(2026, 11, 20, 11, 0, 0, 5e6+999e3, time.FixedZone("CET", 3600)),
	}
}

func deliver(t *testing.T, client *webhook.Client, d dispatch.Delivery) dispatch.Delivered {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	return client.Deliver(ctx, d)
}

func wantDelivered(t *testing.T, got dispatch.Delivered) {
	t.Helper()
	if !strings.HasPrefix(got.Answer, "status 2") || got != (dispatch.Delivered{Verdict: dispatch.VerdictDelivered, Class: dispatch.Class2xx, Answer: got.Answer}) {
		t.Errorf("got %+v, want delivered", got)
	}
}

// classed is an attempt with the class that the words of the attempt stand for.
func classed(d dispatch.Delivered) dispatch.Delivered {
	words := d.Reason + d.Answer
	switch {
	case strings.HasPrefix(words, "status "):
		d.Class = map[byte]dispatch.Class{'1': dispatch.ClassOther, '2': dispatch.Class2xx, '3': dispatch.Class3xx, '4': dispatch.Class4xx}[words[len("status ")]]
		if words[len("status ")] >= '5' {
			d.Class = dispatch.Class5xx
		}
	case strings.HasPrefix(words, "address "), strings.HasPrefix(words, "not in CHRONOS_"), strings.Contains(words, "CHRONOS_CALLBACK"):
		d.Class = dispatch.ClassDenied
	case strings.Contains(words, " within "), strings.HasPrefix(words, "too late to send"):
		d.Class = dispatch.ClassTimeout
	case strings.HasPrefix(words, "host not found"), strings.HasPrefix(words, "host lookup failed"):
		d.Class = dispatch.ClassDNS
	case words == "connection refused", strings.HasSuffix(words, "unreachable"):
		d.Class = dispatch.ClassRefused
	}
	return d
}

func wantFailed(t *testing.T, got dispatch.Delivered, reason string) {
	t.Helper()
	if got != classed(dispatch.Delivered{Reason: reason}) {
		t.Errorf("got %+v, want failed: %s", got, reason)
	}
}

// dialer remembers the client's side of connections.
type dialer struct {
	mu    sync.Mutex
	conns []net.Conn
}

func (d *dialer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.conns = append(d.conns, c)
	return c, nil
}

// waitReadable waits for the receiver's last bytes or hang-up to arrive, on every connection that the
// client hasn't closed.
func (d *dialer) waitReadable(t *testing.T) {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range d.conns {
		eventually(t, "the receiver's last word", func() bool {
			tcp, ok := c.(*net.TCPConn)
			if !ok {
				t.Fatalf("dialed a %T", c)
			}
			raw, err := tcp.SyscallConn()
			if err != nil {
				t.Fatal(err)
			}
			arrived := false
			if err := raw.Control(func(fd uintptr) {
				_, _, err := syscall.Recvfrom(int(fd), make([]byte, 1), syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
				arrived = !errors.Is(err, syscall.EAGAIN)
			}); err != nil {
				return true // closed
			}
			return arrived
		})
	}
}

// eventually waits for a condition that comes about by itself.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	testkit.Eventually(t, 5*time.Second, what, ok)
}
