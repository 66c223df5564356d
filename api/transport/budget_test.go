package transport

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"chronos/api/apitest"
	"chronos/api/wire"

	"github.com/prometheus/client_golang/prometheus"
)

// Clients that don't read their answers can't fill the memory with answers.
func TestAnswersThatNobodyReads(t *testing.T) {
	const size = 100_000
	registry := prometheus.NewRegistry()
	s := newRig(Limits{MaxBody: size, MaxBodies: 2*size + firstHeld}, registry) // room for two such answers
	s.found = make([]byte, size)
	ln := newPipeListener()
	served := make(chan error, 1)
	go func() { served <- s.Serve(ln) }()
	begin := func() (net.Conn, *bufio.Reader) {
		c := ln.dial()
		t.Cleanup(func() { _ = c.Close() })
		if _, err := io.WriteString(c, strings.Repeat(lookup, 3)); err != nil {
			t.Fatal(err)
		}
		return c, bufio.NewReader(c)
	}
	used := s.budget.used.Load
	slowly, slow := begin()
	until(t, "an answer is charged", func() bool { return used() == size })
	one := used()
	gone, _ := begin()
	until(t, "two answers are charged", func() bool { return used() == 2*one })

	_, reader := begin()
	for range 3 {
		apitest.WantOverloaded(t, apitest.Receive(t, reader))
	}
	for range 3 { // in sequence the answers take no more than a single answer
		if got := apitest.Receive(t, slow); got.Status != 200 || used() > 2*one {
			t.Errorf("have %d, %d bytes are charged", got.Status, used())
		}
	}
	until(t, "the answers were written", func() bool { return used() == one })
	if _, err := io.WriteString(slowly, lookup); err != nil || apitest.Receive(t, slow).Status != 200 {
		t.Errorf("the slow connection is of no use any more: %v", err)
	}
	until(t, "that answer was written", func() bool { return used() == one })
	_, reader = begin()
	for range 3 {
		if got := apitest.Receive(t, reader); got.Status != 200 {
			t.Errorf("when there is room again: have %d %.300s", got.Status, got.Body)
		}
	}
	_ = gone.Close()
	until(t, "nothing is charged", func() bool { return used() == 0 })
	if have := apitest.Samples(t, registry, "chronos_api_overload_refusals_total"); have["bodies"] != 3 || len(have) != 1 {
		t.Errorf("counted %v", have)
	}
	ctx, cancel := context.WithTimeout(context.Background(), apitest.Patience)
	defer cancel()
	if err := s.Shutdown(ctx); err != nil {
		t.Error(err)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
}

// The body of a request that is not allowed gets no memory.
func TestBodiesOfStrangersAreNotReceived(t *testing.T) {
	s := newRig(Limits{}, nil)
	s.denied = wire.NewProblem(http.StatusUnauthorized, "token-missing", "no token")
	address := apitest.Serve(t, s)
	for _, header := range []string{"Content-Length: 8193", "Transfer-Encoding: chunked", "Expect: 100-continue\r\nContent-Length: 9"} {
		c := apitest.Dial(t, address)
		got, closed := apitest.Send(t, c, "POST /timers HTTP/1.1\r\nHost: h\r\n"+header+"\r\n\r\n")
		apitest.WantProblem(t, got, http.StatusUnauthorized, "token-missing", apitest.NoPointer)
		if n := s.budget.used.Load(); n != 0 || !closed {
			t.Errorf("%s: %d bytes are charged, closed %v", header, n, closed)
		}
	}
	if got, _ := apitest.Send(t, apitest.Dial(t, address), apitest.WithLength("POST /timers HTTP/1.1\r\nHost: h\r\n")); got.Status != http.StatusOK || s.executed.Load() != 1 {
		t.Errorf("a small body, which is the handler's to refuse: %d", got.Status)
	}
}
