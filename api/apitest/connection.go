package apitest

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"testing"
	"time"
)

// Patience bounds every wait.
const Patience = time.Minute

// Serving is a server that can be started and stopped.
type Serving interface {
	// Serve accepts connections until Shutdown is called.
	Serve(ln net.Listener) error
	// Shutdown ends Serve and closes all connections.
	Shutdown(ctx context.Context) error
}

// Serve starts s on a free port and stops s with the test.
func Serve(t testing.TB, s Serving) (address string) {
	t.Helper()
	ln, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(ln) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), Patience)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			t.Errorf("shut down: %v", err)
		}
		select {
		case err := <-served:
			if err != nil {
				t.Errorf("serve: %v", err)
			}
		case <-ctx.Done():
			t.Error("Serve doesn't return after Shutdown")
		}
	})
	return ln.Addr().String()
}

// Dial connects to the address, and ends the connection with the test.
func Dial(t testing.TB, address string) net.Conn {
	t.Helper()
	return DialFrom(t, "", address)
}

// DialFrom connects from the loopback address client. If client is "", the system takes 127.0.0.1.
func DialFrom(t testing.TB, client, address string) net.Conn {
	t.Helper()
	var dialer net.Dialer
	if client != "" {
		dialer.LocalAddr = &net.TCPAddr{IP: net.ParseIP(client)}
	}
	c, err := dialer.DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if err := c.SetDeadline(time.Now().Add(Patience)); err != nil {
		t.Fatal(err)
	}
	return c
}

// Send writes a request unchanged and reads the answer. closed says that the server closed the
// connection after the answer.
func Send(t *testing.T, c net.Conn, raw string) (a Answer, closed bool) {
	t.Helper()
	if _, err := io.WriteString(c, raw); err != nil {
		t.Fatalf("send: %v", err)
	}
	return Await(t, c)
}

// Await reads the answer to a request that is already written, like Send.
func Await(t *testing.T, c net.Conn) (a Answer, closed bool) {
	t.Helper()
	reader := bufio.NewReader(c)
	a = Receive(t, reader)
	if a.Header.Get("Connection") != "close" {
		return a, false
	}
	if _, err := reader.ReadByte(); err != io.EOF {
		t.Errorf("after Connection: close have %v, want the end", err)
	}
	return a, true
}

// Receive reads the next of several answers.
func Receive(t *testing.T, reader *bufio.Reader) Answer {
	t.Helper()
	resp, err := http.ReadResponse(reader, nil)
	if err != nil {
		t.Fatalf("read answer: %v", err)
	}
	defer resp.Body.Close() //nolint:errcheck // read to its end
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("read body: %v", err)
	}
	a := Answer{resp.StatusCode, resp.Header, body}
	if resp.Close {
		a.Header.Set("Connection", "close")
	}
	return a
}
