package transport

import (
	"bufio"
	"io"
	"net"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"chronos/api/apitest"
)

func open(s *rig) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.open)
}

// engage opens connections and begins a request on each, so no connection is idle. Every connection
// belongs to a different client, since a client may begin requests on only a part of all
// connections.
func engage(t testing.TB, s *rig, address string, n int) []net.Conn {
	t.Helper()
	conns := make([]net.Conn, n)
	for i := range conns {
		conns[i] = apitest.DialFrom(t, "127.0.1."+strconv.Itoa(i+1), address)
		if _, err := io.WriteString(conns[i], lookup[:1]); err != nil {
			t.Fatal(err)
		}
		until(t, "the connection is busy", func() bool { return open(s) == i+1 && idle(s) == 0 })
	}
	return conns
}

func TestTooManyConnections(t *testing.T) {
	const most = 3
	registry := prometheus.NewRegistry()
	s := newRig(Limits{MaxConnections: most}, registry)
	address := apitest.Serve(t, s)
	held := engage(t, s, address, most)
	for range 5 {
		got, closed := apitest.Send(t, apitest.Dial(t, address), lookup)
		if apitest.WantOverloaded(t, got); !closed {
			t.Error("the connection stays open")
		}
	}
	c := apitest.Dial(t, address)
	if _, err := io.WriteString(c, strings.Replace(lookup, "GET", "HEAD", 1)); err != nil {
		t.Fatal(err)
	}
	if raw, err := io.ReadAll(c); err != nil || !strings.HasPrefix(string(raw), "HTTP/1.1 503 ") || !strings.HasSuffix(string(raw), "\r\n\r\n") {
		t.Errorf("HEAD: have %q and %v", raw, err)
	}
	silent := apitest.Dial(t, address)
	if got, _ := apitest.Await(t, silent); got.Status != 503 {
		t.Errorf("without a request: have %d", got.Status)
	}
	if got, _ := apitest.Send(t, held[0], lookup[1:]); got.Status != 404 {
		t.Errorf("a connection from before: have %d", got.Status)
	}
	if have := apitest.Samples(t, registry, "chronos_api_overload_refusals_total"); have["connections"] != 7 || len(have) != 1 {
		t.Errorf("counted %v", have)
	}
	if err := held[1].Close(); err != nil {
		t.Fatal(err)
	}
	until(t, "there is room again", func() bool { return open(s) < most })
	if got, _ := apitest.Send(t, apitest.Dial(t, address), lookup); got.Status != 404 {
		t.Errorf("when there is room again: have %d", got.Status)
	}
}

// A client that opens connections without end gets refusals. The server keeps accepting, and
// doesn't keep the refused connections.
func TestFloodOfConnections(t *testing.T) {
	s := newRig(Limits{MaxConnections: 1}, nil)
	address := apitest.Serve(t, s)
	held := engage(t, s, address, 1)[0]
	conns := make([]net.Conn, 2*maxTurnedAway)
	for i := range conns {
		conns[i] = apitest.Dial(t, address)
	}
	for i, c := range conns {
		if got, closed := apitest.Await(t, c); got.Status != 503 || !closed {
			t.Fatalf("connection %d: have %d, closed %v", i, got.Status, closed)
		}
	}
	if got, _ := apitest.Send(t, held, lookup[1:]); got.Status != 404 {
		t.Errorf("have %d", got.Status)
	}
}

// Large bodies are refused once the bodies together take too much; small bodies aren't.
func TestTooManyBodies(t *testing.T) {
	const size = 100_000
	registry := prometheus.NewRegistry()
	s := newRig(Limits{MaxBody: size, MaxBodies: 3*size + 1000}, registry)
	address := apitest.Serve(t, s)
	head := "POST /timers HTTP/1.1\r\nHost: h\r\nContent-Length: " + strconv.Itoa(size) + "\r\n\r\n"
	body := apitest.WithMore(`"a":"` + strings.Repeat("x", size-len(apitest.WithMore(`"a":""`))) + `"`)
	var waiting []net.Conn
	for i := range 3 {
		c := apitest.Dial(t, address)
		if _, err := io.WriteString(c, head+body[:size-1]); err != nil {
			t.Fatal(err)
		}
		until(t, "the body is there", func() bool { return s.budget.used.Load() > int64(i*size+size/2) })
		waiting = append(waiting, c)
	}
	c := apitest.Dial(t, address)
	if _, err := io.WriteString(c, head); err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(c, body) // may be reset by now
	got, closed := apitest.Await(t, c)
	if apitest.WantOverloaded(t, got); !closed {
		t.Error("the connection stays open")
	}
	if got, _ := apitest.Send(t, apitest.Dial(t, address), apitest.WithLength("POST /timers HTTP/1.1\r\nHost: h\r\n")); got.Status != 200 {
		t.Errorf("a small body: have %d", got.Status)
	}
	for _, c := range waiting {
		if got, _ := apitest.Send(t, c, body[size-1:]); got.Status != 200 {
			t.Errorf("a body from before: have %d %s", got.Status, got.Body)
		}
		if got, _ := apitest.Send(t, c, lookup); got.Status != 404 {
			t.Errorf("the next request: have %d", got.Status)
		}
	}
	if n := s.budget.used.Load(); n != 0 {
		t.Errorf("%d bytes are still counted", n)
	}
	if have := apitest.Samples(t, registry, "chronos_api_overload_refusals_total"); have["bodies"] != 1 || len(have) != 1 {
		t.Errorf("counted %v", have)
	}
}

// Connections on which half a request has arrived cost little memory, whatever the requests
// announce, and don't disturb other connections.
func TestSlowConnections(t *testing.T) {
	const slow = 1000
	s := newRig(Limits{}, nil)
	s.http.ReadTimeout = apitest.Patience
	address := apitest.Serve(t, s)
	alone := askOrdinary(t, address, 8, 100)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	openSlow(t, s, address, slow)
	runtime.GC()
	runtime.ReadMemStats(&after)
	grown := int64(after.HeapAlloc) - int64(before.HeapAlloc) + int64(after.StackInuse) - int64(before.StackInuse)
	if grown > slow*128<<10 {
		t.Errorf("%d slow connections take %d MiB", slow, grown>>20)
	}
	beside := askOrdinary(t, address, 8, 100)
	if len(alone) != 800 || len(beside) != 800 {
		t.Errorf("%d and %d requests were answered, want 800", len(alone), len(beside))
	}
	if len(alone) > 0 && len(beside) > 0 {
		slices.Sort(alone)
		slices.Sort(beside)
		t.Logf("p99 %v alone, %v beside %d slow connections, which take %d KiB each", alone[len(alone)*99/100], beside[len(beside)*99/100], slow, grown>>10/slow)
	}
}

// The time limits of a connection, in virtual time.
func TestTimeouts(t *testing.T) {
	const idle = "PUT /timers/k HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n"
	s := newRig(Limits{}, nil)
	s.serveOne() // starts background work outside the bubble
	within := func(t *testing.T, run func(t *testing.T, c net.Conn)) {
		synctest.Test(t, func(t *testing.T) {
			ours, theirs := net.Pipe()
			var group sync.WaitGroup
			group.Go(func() {
				tracked := &conn{Conn: theirs, server: s.Server}
				_ = s.http.ServeConn(tracked) // the answer says what went wrong
			})
			run(t, ours)
			_ = ours.Close() // ends the remaining work
			group.Wait()
		})
	}
	for name, raw := range map[string]string{
		"headers":    "POST /timers HTTP/1.1\r\nHost: h\r\nA: bcdefghijklmnop",
		"small body": "POST /timers HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\n{\"timing\":{\"int",
		"large body": "POST /timers HTTP/1.1\r\nHost: h\r\nContent-Length: 100000\r\n\r\n{\"timing\":{\"int",
		"chunks":     "POST /timers HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n64\r\n{\"timing\":{\"int",
	} {
		t.Run("a byte a second of "+name, func(t *testing.T) {
			within(t, func(t *testing.T, c net.Conn) {
				if got, _ := apitest.Send(t, c, idle); got.Status != 400 {
					t.Fatalf("have %d", got.Status)
				}
				time.Sleep(30 * time.Second) // a connection may be idle for longer than its last answer took
				began := time.Now()
				if _, err := io.WriteString(c, raw[:len(raw)-12]); err != nil {
					t.Fatal(err)
				}
				var sending sync.WaitGroup
				defer sending.Wait()
				sending.Go(func() {
					for i := len(raw) - 12; i < len(raw); i++ {
						time.Sleep(time.Second)
						if _, err := io.WriteString(c, raw[i:i+1]); err != nil {
							return
						}
					}
				})
				got, closed := apitest.Await(t, c)
				apitest.WantProblem(t, got, 408, "request-timeout", apitest.NoPointer)
				if took := time.Since(began); took != readTimeout || !closed {
					t.Errorf("answered after %v, closed %v", took, closed)
				}
				_ = c.Close() // ends the sending
			})
		})
	}
	t.Run("idle", func(t *testing.T) {
		within(t, func(t *testing.T, c net.Conn) {
			if got, _ := apitest.Send(t, c, idle); got.Status != 400 {
				t.Fatalf("have %d", got.Status)
			}
			began := time.Now()
			if left, err := io.ReadAll(c); err != nil || len(left) > 0 || time.Since(began) != idleTimeout {
				t.Errorf("after %v have %q and %v", time.Since(began), left, err)
			}
		})
	})
	t.Run("opened in advance", func(t *testing.T) {
		within(t, func(t *testing.T, c net.Conn) {
			time.Sleep(idleTimeout - time.Second)
			began := time.Now()
			if _, err := io.WriteString(c, lookup[:len(lookup)-1]); err != nil {
				t.Fatal(err)
			}
			got, closed := apitest.Await(t, c)
			apitest.WantProblem(t, got, 408, "request-timeout", apitest.NoPointer)
			if took := time.Since(began); took != readTimeout || !closed {
				t.Errorf("answered after %v, closed %v", took, closed)
			}
		})
	})
	t.Run("nothing at all", func(t *testing.T) {
		within(t, func(t *testing.T, c net.Conn) {
			began := time.Now()
			if left, err := io.ReadAll(c); err != nil || len(left) > 0 || time.Since(began) != idleTimeout {
				t.Errorf("after %v have %q and %v", time.Since(began), left, err)
			}
		})
	})
	t.Run("an answer that nobody reads", func(t *testing.T) {
		within(t, func(t *testing.T, c net.Conn) {
			if _, err := io.WriteString(c, lookup); err != nil {
				t.Fatal(err)
			}
			time.Sleep(writeTimeout + time.Second)
			if left, err := io.ReadAll(c); err != nil || len(left) > 0 {
				t.Errorf("have %q and %v, want a closed connection", left, err)
			}
		})
	})
	t.Run("100 Continue after a pause", func(t *testing.T) {
		within(t, func(t *testing.T, c net.Conn) {
			reader := bufio.NewReader(c)
			for range 2 {
				if _, err := io.WriteString(c, "POST /timers HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: "+strconv.Itoa(len(apitest.Simple))+"\r\n\r\n"); err != nil {
					t.Fatal(err)
				}
				if got := apitest.Receive(t, reader); got.Status != 100 {
					t.Fatalf("have %d", got.Status)
				}
				if _, err := io.WriteString(c, apitest.Simple); err != nil {
					t.Fatal(err)
				}
				if got := apitest.Receive(t, reader); got.Status != 200 {
					t.Fatalf("have %d", got.Status)
				}
				time.Sleep(writeTimeout + time.Second)
			}
		})
	})
}
