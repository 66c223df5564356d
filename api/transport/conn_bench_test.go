package transport

import (
	"bytes"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"chronos/api/apitest"
)

// repeated is a connection on which the same request arrives again and again, always in a single
// packet, until stop requests have come.
type repeated struct {
	scripted
	request []byte
	at      int
	left    int
}

func (c *repeated) Read(p []byte) (int, error) {
	if c.at == 0 {
		if c.left == 0 {
			return 0, io.EOF
		}
		c.left--
	}
	n := copy(p, c.request[c.at:])
	c.at = (c.at + n) % len(c.request)
	return n, nil
}

func (c *repeated) Write(p []byte) (int, error) { return len(p), nil }

// The look at every byte before fasthttp costs a POST time: strict is the Server, plain is fasthttp
// alone.
func BenchmarkConnection(b *testing.B) {
	large := strings.Replace(apitest.Typical, "sip:", strings.Repeat("abcdefgh", 4096), 1)
	for _, size := range []struct{ name, body string }{{"typical", apitest.Typical}, {"large", large}} {
		raw := []byte("POST /timers HTTP/1.1\r\nHost: timers.example.com:7253\r\nUser-Agent: Go-http-client/1.1\r\nContent-Type: application/json\r\n" +
			"Accept-Encoding: gzip\r\nContent-Length: " + strconv.Itoa(len(size.body)) + "\r\n\r\n" + size.body)
		for _, kind := range []string{"plain", "strict"} {
			b.Run(size.name+"/"+kind, func(b *testing.B) {
				s := newRig(Limits{}, nil)
				inner := &repeated{request: raw, left: b.N}
				var c net.Conn = inner
				if kind == "strict" {
					c = &conn{Conn: inner, server: s.Server}
				}
				b.ReportAllocs()
				b.ResetTimer()
				if err := s.http.ServeConn(c); err != nil {
					b.Fatal(err)
				}
			})
		}
	}
}

// BenchmarkBesideSlowConnections gives the 50th and 99th percentile of requests on 8 connections,
// alone and beside 1,000 connections on which half a request has arrived.
func BenchmarkBesideSlowConnections(b *testing.B) {
	for _, slow := range []int{0, 1000} {
		b.Run(strconv.Itoa(slow), func(b *testing.B) {
			s := newRig(Limits{}, nil)
			s.http.ReadTimeout = apitest.Patience
			address := apitest.Serve(b, s)
			openSlow(b, s, address, slow)
			b.ResetTimer()
			var took []time.Duration
			for range max(1, b.N/ordinaryBatch) {
				took = append(took, askOrdinary(b, address, 8, ordinaryBatch/8)...)
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-us")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-us")
		})
	}
}

const ordinaryBatch = 2000

// openSlow opens n connections with half a request each: half of the requests end in the headers,
// the rest in a body that is announced with 1 MiB.
func openSlow(t testing.TB, s *rig, address string, n int) []net.Conn {
	t.Helper()
	conns := make([]net.Conn, n)
	for i := range conns {
		conns[i] = apitest.Dial(t, address)
		raw := "POST /timers HTTP/1.1\r\nHost: h\r\nA: b"
		if i%2 == 1 {
			raw = "POST /timers HTTP/1.1\r\nHost: h\r\nContent-Length: 1048576\r\n\r\n{"
		}
		if _, err := io.WriteString(conns[i], raw); err != nil {
			t.Fatal(err)
		}
	}
	await := time.NewTicker(time.Millisecond)
	defer await.Stop()
	for deadline := time.Now().Add(apitest.Patience); s.budget.used.Load() != int64(n/2)*firstHeld; <-await.C {
		if time.Now().After(deadline) {
			t.Fatalf("the slow connections hold %d bytes, want %d", s.budget.used.Load(), n/2*firstHeld)
		}
	}
	return conns
}

// askOrdinary makes n requests on each of some connections and returns the duration of every
// request.
func askOrdinary(t testing.TB, address string, clients, n int) []time.Duration {
	t.Helper()
	took := make(chan []time.Duration, clients)
	for range clients {
		c := apitest.Dial(t, address)
		go func() {
			var all []time.Duration
			raw := []byte(apitest.WithLength("PUT /timers/k HTTP/1.1\r\nHost: h\r\n"))
			buffer := make([]byte, 4096)
			for range n {
				began := time.Now()
				if _, err := c.Write(raw); err != nil {
					t.Error(err)
					break
				}
				read, err := c.Read(buffer)
				if err != nil || !bytes.HasPrefix(buffer[:read], []byte("HTTP/1.1 200 OK\r\n")) {
					t.Errorf("have %q and %v", buffer[:read], err)
					break
				}
				all = append(all, time.Since(began))
			}
			took <- all
		}()
	}
	var all []time.Duration
	for range clients {
		all = append(all, <-took...)
	}
	return all
}
