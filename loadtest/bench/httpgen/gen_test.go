//go:build linux

package httpgen

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func serve(t *testing.T, handle http.HandlerFunc) (address string) {
	t.Helper()
	server := httptest.NewServer(handle)
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

func get(n int, buf []byte) []byte {
	return fmt.Appendf(buf, "POST /%d HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", n)
}

func TestSoManyRequestsAreMadeOnceEach(t *testing.T) {
	const n = 500
	var seen [n]atomic.Int32
	address := serve(t, func(w http.ResponseWriter, r *http.Request) {
		var i int
		if _, err := fmt.Sscanf(r.URL.Path, "/%d", &i); err != nil || i >= n {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		seen[i].Add(1)
		w.Header().Set("Content-Length", "5000")
		_, _ = io.WriteString(w, strings.Repeat("x", 5000))
	})
	r, err := Run(t.Context(), Config{Addresses: []string{address}, Connections: 8, Requests: n, Request: get})
	if err != nil {
		t.Fatal(err)
	}
	if r.Answered != n || r.Wrong != 0 || len(r.Took) != n {
		t.Errorf("answered %d, wrong %d (%v), took %d, want %d, 0, %d", r.Answered, r.Wrong, r.Why, len(r.Took), n, n)
	}
	for i := range seen {
		if got := seen[i].Load(); got != 1 {
			t.Errorf("request %d came %d times", i, got)
		}
	}
}

func TestLargeRequestArrivesWhole(t *testing.T) {
	const size = 8 << 20 // more than the socket takes at once
	var got atomic.Int64
	address := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		got.Add(n)
	})
	body := strings.Repeat("x", size)
	r, err := Run(t.Context(), Config{Addresses: []string{address}, Connections: 1, Requests: 2, Request: func(_ int, buf []byte) []byte {
		return fmt.Appendf(buf, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", size, body)
	}})
	if err != nil || r.Answered != 2 || got.Load() != 2*size {
		t.Errorf("answered %d, wrong %d (%v), %d bytes came, error %v", r.Answered, r.Wrong, r.Why, got.Load(), err)
	}
}

func TestWrongAnswersAreCounted(t *testing.T) {
	address := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/3":
			w.WriteHeader(http.StatusTeapot)
		case "/5": // no answer at all
			panic(http.ErrAbortHandler)
		case "/7": // right, but the connection must not be used again
			w.Header().Set("Connection", "close")
		}
	})
	r, err := Run(t.Context(), Config{Addresses: []string{address}, Connections: 2, Requests: 20, Request: get})
	if err != nil {
		t.Fatal(err)
	}
	if r.Answered != 18 || r.Wrong != 2 {
		t.Errorf("answered %d, wrong %d (%v), want 18 and 2", r.Answered, r.Wrong, r.Why)
	}
}

func TestWaitingCountsInAnOpenLoad(t *testing.T) {
	const stall = 200 * time.Millisecond
	var first atomic.Bool
	address := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		if first.CompareAndSwap(false, true) {
			timer := time.NewTimer(stall)
			defer timer.Stop()
			select {
			case <-timer.C:
			case <-r.Context().Done():
			}
		}
	})
	// A single connection: requests that are due during the stall must wait.
	r, err := Run(t.Context(), Config{Addresses: []string{address}, Connections: 1, Rate: 100, Requests: 15, Request: get})
	if err != nil || r.Answered != 15 {
		t.Fatalf("answered %d, error %v", r.Answered, err)
	}
	waited := 0
	for _, took := range r.Took {
		if took > stall/4 {
			waited++
		}
	}
	if waited < 10 { // the requests of the first 150 ms
		t.Errorf("%d of 15 waited, want at least 10: %v", waited, r.Took)
	}
}

func TestWindow(t *testing.T) {
	address := serve(t, func(http.ResponseWriter, *http.Request) {})
	var begin, end time.Time
	r, err := Run(t.Context(), Config{
		Addresses: []string{address}, Connections: 4, Warm: 20 * time.Millisecond, Duration: 50 * time.Millisecond, Request: get,
		Begin: func() { begin = time.Now() }, End: func() { end = time.Now() },
	})
	if err != nil {
		t.Fatal(err)
	}
	if r.Answered == 0 || begin.IsZero() || !end.After(begin) || r.Elapsed <= 0 || r.Rate() <= 0 {
		t.Errorf("answered %d in %s, window from %v to %v", r.Answered, r.Elapsed, begin, end)
	}
}

func TestContextEndsALoad(t *testing.T) {
	block := make(chan struct{})
	address := serve(t, func(http.ResponseWriter, *http.Request) { <-block })
	defer close(block)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := Run(ctx, Config{Addresses: []string{address}, Connections: 1, Requests: 1, Request: get}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}
