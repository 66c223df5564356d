package transport

import (
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/valyala/fasthttp"

	"chronos/api/wire"
)

const (
	// lingerFor is how long the server still reads and drops a client's bytes after an answer that
	// came before the end of the request. Closing at once would reset the connection, and lose the
	// answer.
	lingerFor = 500 * time.Millisecond
	// maxTurnedAway is how many connections may wait for their refusal to be read.
	maxTurnedAway = 256
)

// Refuse replaces the answer by p.
func Refuse(answer *fasthttp.Response, p wire.Problem) {
	answer.Reset()
	answer.SetStatusCode(p.Status)
	answer.SetBody(p.Body())
	p.EachHeader(answer.Header.Set)
}

// ProblemOf makes the answer to a client whose request could not be read.
func (l Limits) ProblemOf(err error) wire.Problem {
	var (
		large *fasthttp.ErrSmallBuffer
		netOp net.Error
		own   wire.Problem
	)
	switch {
	case errors.As(err, &own):
		return own
	case errors.As(err, &large), errors.Is(err, errHeaderTooLarge):
		return wire.NewProblem(http.StatusRequestHeaderFieldsTooLarge, "header-too-large", "the request line and headers are over "+strconv.Itoa(readBuffer)+" bytes or more than "+strconv.Itoa(maxFields)+" headers; send fewer or shorter ones")
	case errors.Is(err, fasthttp.ErrBodyTooLarge):
		return wire.NewProblem(http.StatusRequestEntityTooLarge, "body-too-large", "the body is over "+strconv.Itoa(l.MaxBody)+" bytes; send a smaller one")
	case errors.As(err, &netOp) && netOp.Timeout():
		return wire.NewProblem(http.StatusRequestTimeout, "request-timeout", "the request did not arrive in time; send all of it without pause")
	}
	return wire.NewProblem(http.StatusBadRequest, "request-malformed", "the request is not valid HTTP/1.1 as RFC 9112 has it; send a path that begins with one slash and has no fragment, one Host, either one Content-Length or Transfer-Encoding: chunked, and lines that end with CR LF")
}

// refuseUnread answers bytes that could not be read as a request.
func (s *Server) refuseUnread(rc *fasthttp.RequestCtx, err error) {
	p := s.limits.ProblemOf(err)
	s.metrics.unread.WithLabelValues(p.Code).Inc()
	if errors.Is(err, errBodiesFull) {
		s.metrics.refusedBody.Inc()
	}
	Refuse(&rc.Response, p)
	rc.Response.SetConnectionClose() // the rest of the connection's bytes is unclear
	conn, ok := rc.Conn().(*conn)
	if !ok {
		return
	}
	// fasthttp leaves the deadline of the answer before, which may have passed.
	_ = conn.SetWriteDeadline(time.Now().Add(writeTimeout)) // an error means that the connection is closed already
	conn.linger = p.Status != http.StatusRequestTimeout
}

// turnAway tells a client, without waiting, that there are too many connections. The next
// connection may be accepted.
func (s *Server) turnAway(c net.Conn) {
	if s.tell(c) {
		return
	}
	writeOverloaded(c, false)
	_ = c.Close() // nobody is left to tell
}

// tell answers c in a new goroutine, unless too many such goroutines run.
func (s *Server) tell(c net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || len(s.turned) >= maxTurnedAway {
		return false
	}
	s.turned[c] = struct{}{}
	s.group.Go(func() {
		refuseConnection(c)
		_ = c.Close() // nobody is left to tell
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.turned, c)
	})
	return true
}

// refuseConnection waits a moment for a request and answers the request unread. A client may take
// an answer that comes before the request for a mistake.
func refuseConnection(c net.Conn) {
	var start [8]byte
	if c.SetReadDeadline(time.Now().Add(lingerFor)) != nil {
		return
	}
	n, err := io.ReadAtLeast(c, start[:], len("HEAD "))
	if n == 0 && errors.Is(err, io.EOF) {
		return
	}
	writeOverloaded(c, string(start[:min(n, 5)]) == "HEAD ")
	drain(c)
}

func writeOverloaded(c net.Conn, withoutBody bool) {
	var response fasthttp.Response
	Refuse(&response, wire.Overloaded())
	response.SetConnectionClose()
	response.SkipBody = withoutBody
	if c.SetWriteDeadline(time.Now().Add(lingerFor)) == nil {
		_, _ = response.WriteTo(c) // an error means that the client has disconnected
	}
}

// drain ends the sending, and for a while drops the bytes that still arrive.
func drain(c net.Conn) {
	half, ok := c.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil {
		return
	}
	if c.SetReadDeadline(time.Now().Add(lingerFor)) == nil {
		_, _ = io.Copy(io.Discard, c) // ends with an error at the latest when the deadline passes
	}
}
