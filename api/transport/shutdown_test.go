package transport

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"chronos/api/apitest"
)

// pipeListener accepts given connections, so time can be virtual.
type pipeListener struct {
	pipes chan net.Conn
	done  chan struct{}
}

func newPipeListener() pipeListener {
	return pipeListener{make(chan net.Conn), make(chan struct{})}
}

func (l pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.pipes:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l pipeListener) Close() error {
	close(l.done)
	return nil
}

func (l pipeListener) Addr() net.Addr { return &net.TCPAddr{} }

func (l pipeListener) dial() net.Conn {
	ours, theirs := net.Pipe()
	l.pipes <- theirs
	return ours
}

func TestShutdownFinishesWhatIsUnderWay(t *testing.T) {
	const takes = 2 * time.Second
	s := newRig(Limits{}, nil)
	s.before = func() { time.Sleep(takes) }
	s.serveOne() // starts background work outside the bubble
	synctest.Test(t, func(t *testing.T) {
		ln := newPipeListener()
		served, stopped := make(chan error, 1), make(chan error, 1)
		go func() { served <- s.Serve(ln) }()
		c := ln.dial()
		if _, err := io.WriteString(c, "DELETE /timers/k HTTP/1.1\r\nHost: h\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // the request is under way
		began := time.Now()
		go func() { stopped <- s.Shutdown(t.Context()) }()
		got, closed := apitest.Await(t, c)
		if took := time.Since(began); got.Status != http.StatusCreated || !closed || took != takes {
			t.Errorf("the request under way is answered with %d after %v, closed %v", got.Status, took, closed)
		}
		if err := <-stopped; err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		if took := time.Since(began); took < takes || took > takes+200*time.Millisecond {
			t.Errorf("Shutdown took %v with a request of %v under way", took, takes)
		}
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
		time.Sleep(time.Minute) // fasthttp looks for idle workers once more
	})
}

func TestShutdownCutsHalfOpenConnections(t *testing.T) {
	s := newRig(Limits{}, nil)
	address := apitest.Serve(t, s)
	idle := apitest.Dial(t, address)
	if got, _ := apitest.Send(t, idle, "GET /timers/k HTTP/1.1\r\nHost: h\r\n\r\n"); got.Status != http.StatusNotFound {
		t.Fatalf("have %d", got.Status)
	}
	waiting := []net.Conn{idle}
	for _, raw := range []string{"", "POST /ti", "POST /timers HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\n{"} {
		c := apitest.Dial(t, address)
		if _, err := io.WriteString(c, raw); err != nil {
			t.Fatal(err)
		}
		waiting = append(waiting, c)
	}
	// An answer on a fifth connection says that the four before it were accepted.
	if got, _ := apitest.Send(t, apitest.Dial(t, address), "GET /timers/k HTTP/1.1\r\nHost: h\r\n\r\n"); got.Status != http.StatusNotFound {
		t.Fatalf("have %d", got.Status)
	}

	ctx, cancel := context.WithTimeout(t.Context(), apitest.Patience)
	defer cancel()
	began := time.Now()
	if err := s.Shutdown(ctx); err != nil {
		t.Errorf("Shutdown: %v", err)
	}
	if took := time.Since(began); took > 4*time.Second { // fasthttp alone takes over 5 s
		t.Errorf("Shutdown took %v with connections that are half open", took)
	}
	for i, c := range waiting {
		if _, err := io.ReadAll(c); err != nil && !errors.Is(err, net.ErrClosed) && !strings.Contains(err.Error(), "reset") {
			t.Errorf("connection %d: %v", i, err)
		}
	}
}

func TestShutdownIsBounded(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	s := newRig(Limits{}, nil)
	s.before = func() {
		close(entered)
		<-leave
	}
	ln, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(ln) }()
	c := apitest.Dial(t, ln.Addr().String())
	if _, err := io.WriteString(c, "DELETE /timers/k HTTP/1.1\r\nHost: h\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	<-entered
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := s.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Shutdown: have %v, want the context's error", err)
	}
	if _, err := c.Read(make([]byte, 1)); err == nil {
		t.Error("the connection lives on after Shutdown gave up")
	}
	close(leave)
	if err := <-served; err != nil {
		t.Errorf("Serve: %v", err)
	}
}

func TestServeAfterShutdown(t *testing.T) {
	s := newRig(Limits{}, nil)
	if err := s.Shutdown(t.Context()); err != nil {
		t.Errorf("Shutdown before Serve: %v", err)
	}
	ln, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Serve(ln); err != nil {
		t.Errorf("Serve after Shutdown: %v", err)
	}
	if _, err := ln.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("the listener isn't closed: %v", err)
	}
}

func TestServeSaysWhyItEnds(t *testing.T) {
	broken := errors.New("listener broken")
	s := newRig(Limits{}, nil)
	if err := s.Serve(brokenListener{broken}); !errors.Is(err, broken) {
		t.Errorf("have %v, want %v", err, broken)
	}
}

type brokenListener struct{ err error }

func (l brokenListener) Accept() (net.Conn, error) { return nil, l.err }
func (l brokenListener) Close() error              { return nil }
func (l brokenListener) Addr() net.Addr            { return &net.TCPAddr{} }
