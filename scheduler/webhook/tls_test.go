package webhook_test

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"chronos/scheduler/webhook"
)

func TestHTTPS(t *testing.T) {
	var mu sync.Mutex
	conns := map[string]bool{}
	var requests []string
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		mu.Lock()
		defer mu.Unlock()
		conns[r.RemoteAddr] = true
		requests = append(requests, fmt.Sprintf("%s %s %d", r.Proto, r.Host, n))
	}))
	server.EnableHTTP2 = true
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	server.StartTLS()
	t.Cleanup(server.Close)
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	_, port, _ := net.SplitHostPort(server.Listener.Addr().String())
	t.Run("trusted", func(t *testing.T) {
		client := newClient(t, webhook.Config{TLS: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS10}})
		d := delivery("https://127.0.0.1:" + port + "/")
		d.Callback.Opaque = strings.Repeat("x", 1<<20)
		for range 3 {
			wantDelivered(t, deliver(t, client, d))
		}
		mu.Lock()
		defer mu.Unlock()
		want := "HTTP/1.1 127.0.0.1:" + port + " 1048576"
		if diff := cmp.Diff([]string{want, want, want}, requests); diff != "" {
			t.Errorf("requests (-want +got):\n%s", diff)
		}
		if len(conns) != 1 {
			t.Errorf("%d connections for three calls", len(conns))
		}
	})
	t.Run("unknown authority", func(t *testing.T) {
		wantFailed(t, deliver(t, newClient(t, webhook.Config{}), delivery(server.URL)), "certificate not accepted")
	})
	t.Run("other name", func(t *testing.T) {
		client := newClient(t, webhook.Config{TLS: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}})
		wantFailed(t, deliver(t, client, delivery("https://localhost:"+port+"/")), "certificate not accepted")
	})
	t.Run("no TLS", func(t *testing.T) {
		plain := serveRaw(t, func(c *rawConn) {
			_, _ = c.r.Peek(1)
			c.say("HTTP/1.1 400 Bad Request\r\n\r\n")
		})
		wantFailed(t, deliver(t, newClient(t, webhook.Config{}), delivery("https://"+plain.addr)), "receiver speaks no TLS")
	})
}

// segments is a connection below TLS that can send several records at once.
type segments struct {
	net.Conn
	held    []byte
	holding bool
}

func (s *segments) Write(p []byte) (int, error) {
	if !s.holding {
		return s.Conn.Write(p)
	}
	s.held = append(s.held, p...)
	return len(p), nil
}

// rawTLS is serveRaw for TLS, with a certificate that the returned client trusts.
func rawTLS(t *testing.T, config *tls.Config, handle func(*rawConn)) (*rawServer, *webhook.Client, *dialer) {
	t.Helper()
	dialer := new(dialer)
	issuer := httptest.NewTLSServer(http.NotFoundHandler()) // for its certificate
	t.Cleanup(issuer.Close)
	config.Certificates = issuer.TLS.Certificates
	server := serveRaw(t, func(c *rawConn) {
		segments := &segments{Conn: c.Conn}
		secure := tls.Server(segments, config)
		c.Conn, c.segments = secure, segments
		c.r.Reset(secure)
		handle(c)
		_ = secure.Close()
	})
	server.url = "https://" + server.addr
	roots := x509.NewCertPool()
	roots.AddCert(issuer.Certificate())
	return server, newClient(t, webhook.Config{
		TLS: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, Dial: dialer.dial,
	}), dialer
}

func TestTLSVersions(t *testing.T) {
	for version, accepted := range map[uint16]bool{
		tls.VersionTLS11: false, tls.VersionTLS12: true, tls.VersionTLS13: true,
	} {
		server, client, _ := rawTLS(t, &tls.Config{MinVersion: version, MaxVersion: version}, answering(ok))
		for range 2 {
			got := deliver(t, client, delivery(server.url))
			if accepted {
				wantDelivered(t, got)
			} else {
				wantFailed(t, got, "TLS handshake failed")
			}
		}
		if n := len(server.conns()); accepted && n != 1 {
			t.Errorf("%s: %d connections for two calls", tls.VersionName(version), n)
		}
	}
}

// TestIdleTLSConnection: as on a plain connection, a connection that is closed or has unasked bytes
// isn't used, and nothing was sent.
func TestIdleTLSConnection(t *testing.T) {
	t.Run("closed", func(t *testing.T) {
		server, client, dialer := rawTLS(t, &tls.Config{MinVersion: tls.VersionTLS12}, func(c *rawConn) {
			if c.request() != "" {
				c.say(ok)
			}
		})
		for range 5 {
			wantDelivered(t, deliver(t, client, delivery(server.url)))
			dialer.waitReadable(t)
		}
		if n := len(server.seen()); n != 5 {
			t.Errorf("5 calls made %d requests", n)
		}
	})
	const oops = "HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n"
	for name, say := range map[string]func(*rawConn){
		"second answer in the same record": func(c *rawConn) { c.say(oops + ok) },
		"second answer in the same segment": func(c *rawConn) { // so that TLS has the answer before the client asks
			c.segments.holding = true
			c.say(oops)
			c.say(ok)
			_, _ = c.segments.Conn.Write(c.segments.held)
		},
	} {
		t.Run(name, func(t *testing.T) {
			server, client, _ := rawTLS(t, &tls.Config{MinVersion: tls.VersionTLS12}, func(c *rawConn) {
				if c.request() != "" {
					say(c)
					_, _ = c.r.Peek(1)
				}
			})
			for range 3 {
				wantFailed(t, deliver(t, client, delivery(server.url)), "status 500")
			}
			if n := len(server.conns()); n != 3 {
				t.Errorf("%d connections for three calls", n)
			}
		})
	}
	t.Run("second answer later", func(t *testing.T) {
		answered := make(chan struct{})
		server, client, dialer := rawTLS(t, &tls.Config{MinVersion: tls.VersionTLS12}, func(c *rawConn) {
			if c.request() != "" {
				c.say(oops)
				<-answered
				c.say(ok)
				_, _ = c.r.Peek(1)
			}
		})
		wantFailed(t, deliver(t, client, delivery(server.url)), "status 500")
		close(answered)
		dialer.waitReadable(t)
		wantFailed(t, deliver(t, client, delivery(server.url)), "status 500")
		if n := len(server.conns()); n != 2 {
			t.Errorf("%d connections for two calls", n)
		}
	})
}
