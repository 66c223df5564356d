package transport

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/valyala/fasthttp"

	"chronos/api/apitest"
)

// Any bytes may arrive: answers are well-formed, and the budget is whole again afterwards.
func FuzzConnection(f *testing.F) {
	for _, seed := range []string{
		lookup, lookup + lookup, apitest.WithLength("PUT /timers/k HTTP/1.1\r\nHost: h\r\n") + lookup, "HEAD /timers/k HTTP/1.1\r\nHost: h\r\n\r\n",
		"POST /timers HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n" + apitest.InChunks(apitest.Simple, 9) + "\r\n" + lookup,
		"DELETE /timers/k HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\nabc" + lookup,
		"DELETE /timers/k HTTP/1.1\r\nHost: h\r\nContent-Length: 9000\r\n\r\n" + strings.Repeat("a", 9000) + lookup,
		"GET /timers/k HTTP/1.0\r\nConnection: keep-alive\r\n\r\n" + lookup, "DELETE /timers/k HTTP/1.1\nHost: h\n\n" + lookup,
	} {
		f.Add([]byte(seed), uint16(3))
	}
	s := newRig(Limits{MaxBody: 20_000}, nil)
	inner := s.http.Handler
	f.Fuzz(func(t *testing.T, raw []byte, piece uint16) {
		var methods []string
		s.http.Handler = func(rc *fasthttp.RequestCtx) {
			inner(rc)
			methods = append(methods, string(rc.Method()))
		}
		script := &scripted{}
		for rest := raw; len(rest) > 0; {
			n := min(len(rest), int(piece)+1)
			script.pieces = append(script.pieces, rest[:n])
			rest = rest[n:]
		}
		_ = s.http.ServeConn(&conn{Conn: script, server: s.Server}) // the answer says what went wrong
		if n := s.budget.used.Load(); n != 0 {
			t.Errorf("%d bytes of the budget are missing", n)
		}
		if n := wellFormed(t, script.sent.Bytes(), methods); n < len(methods) || n > len(methods)+1 {
			t.Errorf("%d answers to %d requests: %q", n, len(methods), script.sent.Bytes())
		}
	})
}

// wellFormed reads answers and counts the answers.
func wellFormed(t *testing.T, raw []byte, methods []string) (n int) {
	t.Helper()
	reader := bufio.NewReader(bytes.NewReader(raw))
	for {
		if _, err := reader.Peek(1); err == io.EOF {
			return n
		}
		method := http.MethodGet
		if n < len(methods) {
			method = methods[n]
		}
		resp, err := http.ReadResponse(reader, httptest.NewRequestWithContext(t.Context(), method, "/", http.NoBody))
		if err != nil {
			t.Fatalf("answer %d: %v in %q", n, err, raw)
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			t.Fatalf("answer %d: %v in %q", n, err, raw)
		}
		_ = resp.Body.Close() // read to its end
		if resp.StatusCode != http.StatusContinue {
			n++
		}
	}
}
