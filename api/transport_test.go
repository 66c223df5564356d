package api

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// patience bounds every wait of these tests.
const patience = time.Minute

// serve starts s on a port of its own and stops it with the test.
func serve(t testing.TB, s *Server) (address string) {
	t.Helper()
	ln, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(ln) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
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

func dial(t testing.TB, address string) net.Conn {
	t.Helper()
	return dialFrom(t, "", address)
}

// dialFrom connects as the client with a loopback address of its own; "" leaves it
// to the system, which takes 127.0.0.1.
func dialFrom(t testing.TB, client, address string) net.Conn {
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
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return c
}

// send writes a request as it is and reads the answer; closed says that the
// server closed the connection after it.
func send(t *testing.T, c net.Conn, raw string) (a answer, closed bool) {
	t.Helper()
	if _, err := io.WriteString(c, raw); err != nil {
		t.Fatalf("send: %v", err)
	}
	return await(t, c)
}

func await(t *testing.T, c net.Conn) (a answer, closed bool) {
	t.Helper()
	reader := bufio.NewReader(c)
	a = receive(t, reader)
	if a.header.Get("Connection") != "close" {
		return a, false
	}
	if _, err := reader.ReadByte(); err != io.EOF {
		t.Errorf("after Connection: close have %v, want the end", err)
	}
	return a, true
}

func receive(t *testing.T, reader *bufio.Reader) answer {
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
	a := answer{resp.StatusCode, resp.Header, body}
	if resp.Close {
		a.header.Set("Connection", "close")
	}
	return a
}

func TestUnreadableRequests(t *testing.T) {
	registry := prometheus.NewRegistry()
	s := New(Config{Timers: &fakeTimers{}, MaxBody: 2000, Registerer: registry})
	address := serve(t, s)
	const head = "POST /timers HTTP/1.1\r\nHost: echo\r\n"
	chunked := "5\r\n{\"a\":\r\n2\r\n1}\r\n0\r\n\r\n"
	for name, tc := range map[string]struct {
		raw    string
		status int
		code   string
	}{
		"no HTTP":                          {"echo echo\r\n\r\n", 400, "request-malformed"},
		"no version":                       {"GET /echo\r\n\r\n", 400, "request-malformed"},
		"header without colon":             {"GET /timers/k HTTP/1.1\r\necho\r\n\r\n", 400, "request-malformed"},
		"space before colon":               {head + "Content-Length : 2\r\n\r\n{}", 400, "request-malformed"},
		"two hosts":                        {head + "Host: echo2\r\nContent-Length: 2\r\n\r\n{}", 400, "request-malformed"},
		"length no number":                 {head + "Content-Length: echo\r\n\r\n{}", 400, "request-malformed"},
		"length negative":                  {head + "Content-Length: -2\r\n\r\n{}", 400, "request-malformed"},
		"two lengths":                      {head + "Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}", 400, "request-malformed"},
		"broken chunk":                     {head + "Transfer-Encoding: chunked\r\n\r\necho\r\n", 400, "request-malformed"},
		"length and transfer-encoding":     {head + "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked, 400, "request-malformed"},
		"transfer-encoding and length":     {head + "transfer-encoding: chunked\r\ncontent-length: 2\r\n\r\n" + chunked, 400, "request-malformed"},
		"identity and length":              {head + "Transfer-Encoding: identity\r\nContent-Length: 2\r\n\r\n{}", 400, "request-malformed"},
		"gzip, chunked":                    {head + "Transfer-Encoding: gzip, chunked\r\n\r\n" + chunked, 400, "request-malformed"},
		"chunked twice":                    {head + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked, 400, "request-malformed"},
		"chunked in HTTP/1.0":              {"POST /timers HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked, 400, "request-malformed"},
		"body too large":                   {head + "Content-Length: 2001\r\n\r\n" + strings.Repeat("echo ", 401)[:2001], 413, "body-too-large"},
		"body far too large":               {head + "Content-Length: 2000000\r\n\r\n" + strings.Repeat("echo ", 400000), 413, "body-too-large"},
		"body too large in chunks":         {head + "Transfer-Encoding: chunked\r\n\r\n7d1\r\n" + strings.Repeat("echo ", 401)[:2001] + "\r\n0\r\n\r\n", 413, "body-too-large"},
		"body too large, but is it wanted": {head + "Expect: 100-continue\r\nContent-Length: 2001\r\n\r\n", 0, ""},
		"headers too large":                {head + "Echo: " + strings.Repeat("echo ", readBuffer/5) + "\r\n\r\n", 431, "header-too-large"},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.status == 0 {
				expectContinueThenRefusal(t, dial(t, address), tc.raw)
				return
			}
			got, closed := send(t, dial(t, address), tc.raw)
			wantProblem(t, got, tc.status, tc.code, noPointer)
			if !closed {
				t.Error("the connection stays open")
			}
			if shown := strings.ToLower(fmt.Sprint(string(got.body), got.header)); strings.Contains(shown, "echo") {
				t.Errorf("the answer holds what was sent: %s", shown)
			}
		})
	}
	if have := samples(t, registry, "chronos_api_unreadable_requests_total"); len(have) != 3 || have["body-too-large"] != 4 || have["header-too-large"] != 1 {
		t.Errorf("counted as unreadable: %v", have)
	}
}

func expectContinueThenRefusal(t *testing.T, c net.Conn, raw string) {
	t.Helper()
	if _, err := io.WriteString(c, raw); err != nil {
		t.Fatal(err)
	}
	reader := bufio.NewReader(c)
	if first := receive(t, reader); first.status == http.StatusContinue {
		wantProblem(t, receive(t, reader), 413, "body-too-large", noPointer)
	} else {
		wantProblem(t, first, 413, "body-too-large", noPointer)
	}
}

func TestReadableRequests(t *testing.T) {
	address := serve(t, New(Config{Timers: &fakeTimers{}, MaxBody: 2000}))
	c := dial(t, address)
	filled := withMore(`"a":"` + strings.Repeat("x", 2000-len(withMore(`"a":""`))) + `"`)
	for name, raw := range map[string]string{
		"length":        "POST /timers HTTP/1.1\r\nHost: h\r\nContent-Length: " + strconv.Itoa(len(simple)) + "\r\n\r\n" + simple,
		"chunked":       "POST /timers HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n" + strconv.FormatInt(int64(len(simple)), 16) + "\r\n" + simple + "\r\n0\r\n\r\n",
		"largest body":  "POST /timers HTTP/1.1\r\nHost: h\r\nContent-Length: 2000\r\n\r\n" + filled,
		"absolute form": "PUT http://h/timers/k HTTP/1.1\r\nHost: h\r\nContent-Length: " + strconv.Itoa(len(simple)) + "\r\n\r\n" + simple,
		"multipart": "POST /timers HTTP/1.1\r\nHost: h\r\nContent-Type: multipart/form-data; boundary=x\r\nContent-Length: " +
			strconv.Itoa(len(simple)) + "\r\n\r\n" + simple,
	} {
		got, closed := send(t, c, raw)
		if got.status != http.StatusOK || closed {
			t.Errorf("%s: have %d, closed %v: %s", name, got.status, closed, got.body)
		}
	}
	got, closed := send(t, dial(t, address), "POST /timers HTTP/1.0\r\nContent-Length: "+strconv.Itoa(len(simple))+"\r\n\r\n"+simple)
	if got.status != http.StatusOK || !closed {
		t.Errorf("HTTP/1.0: have %d, closed %v: %s", got.status, closed, got.body)
	}
}

// A client that is slow with a request is told so, in virtual time.
func TestSlowRequestsTimeOut(t *testing.T) {
	s := New(Config{Timers: &fakeTimers{}})
	ask(t, s, "GET", "/timers/k", "") // starts what lives outside the bubble
	for name, raw := range map[string]string{
		"half a header": "POST /timers HTTP/1.1\r\nHost",
		"half a body":   "POST /timers HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\n{",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ours, theirs := net.Pipe()
				served := make(chan struct{})
				go func() {
					defer close(served)
					_ = s.app.Server().ServeConn(&conn{Conn: theirs, server: s.conns}) // the answer says what went wrong
				}()
				began := time.Now()
				if _, err := io.WriteString(ours, raw); err != nil {
					t.Fatal(err)
				}
				got, closed := await(t, ours)
				wantProblem(t, got, 408, "request-timeout", noPointer)
				if took := time.Since(began); took != readTimeout || !closed {
					t.Errorf("answered after %v, closed %v; want %v and closed", took, closed, readTimeout)
				}
				<-served
			})
		})
	}
}

func TestMetrics(t *testing.T) {
	registry := prometheus.NewRegistry()
	s := New(Config{Timers: &fakeTimers{}, Registerer: registry})
	for _, request := range [][2]string{
		{"POST", "/timers"}, {"PUT", "/timers/k"}, {"PUT", "/timers/k"}, {"GET", "/timers/k"}, {"GET", "/timers/none"},
		{"POST", "/timers/batch"}, {"GET", "/timers/batch"}, {"DELETE", "/timers/batch"}, {"DELETE", "/timers/k"}, {"BREW", "/timers/k"}, {"GET", "/timers"}, {"PUT", "/timers"}, {"DELETE", "/timers/references"}, {"GET", "/elsewhere"}, {"BREW", "/elsewhere"},
	} {
		ask(t, s, request[0], request[1], simple)
	}
	have := samples(t, registry, "chronos_api_request_duration_seconds")
	for labels, want := range map[string]int{
		"2xx POST /timers": 1, "2xx PUT /timers/{id}": 2, "2xx GET /timers/{id}": 1, "4xx GET /timers/{id}": 1,
		"2xx DELETE /timers/{id}": 1, "4xx other /timers/{id}": 1, "4xx GET /timers": 1, "4xx other /timers": 1, "4xx DELETE /timers/references": 1, "4xx POST /timers/batch": 1, "4xx other /timers/batch": 2, "4xx other other": 2,
	} {
		if have[labels] != want {
			t.Errorf("%s: have %d, want %d", labels, have[labels], want)
		}
		delete(have, labels)
	}
	if len(have) != 0 {
		t.Errorf("counted too: %v", have)
	}
}

// samples are the counts of a metric by its labels' values, those of 0 left out.
func samples(t *testing.T, registry *prometheus.Registry, name string) map[string]int {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]int{}
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, metric := range family.GetMetric() {
			var labels []string
			for _, label := range metric.GetLabel() { // in the order of their names
				labels = append(labels, label.GetValue())
			}
			n := int(metric.GetHistogram().GetSampleCount()) + int(metric.GetCounter().GetValue())
			if n > 0 {
				counts[strings.Join(labels, " ")] = n
			}
		}
	}
	return counts
}
