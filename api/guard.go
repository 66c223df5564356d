package api

import (
	"bytes"
	"errors"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"
)

// guard wraps Fiber's handler: it measures, answers a panic, and refuses what
// Fiber would answer in its own way or fasthttp would let pass.
func (s *Server) guard(next fasthttp.RequestHandler) fasthttp.RequestHandler {
	return func(rc *fasthttp.RequestCtx) {
		began := time.Now()
		defer func() {
			if r := recover(); r != nil {
				s.log.Error("handler panicked", "panic", r, "stack", string(debug.Stack()))
				s.refuse(rc, internalProblem())
			}
			s.metrics.observe(rc, time.Since(began))
		}()
		switch {
		case ambiguousLength(&rc.Request.Header):
			p := newProblem(http.StatusBadRequest, "request-malformed", "the request gives its length in more than one way or in one that is obsolete; send either Content-Length or Transfer-Encoding: chunked")
			p.closes = true
			s.refuse(rc, p)
		case !knownMethod(rc.Method()):
			s.refuseMethod(rc)
		default:
			next(rc)
		}
	}
}

func (s *Server) refuse(rc *fasthttp.RequestCtx, p problem) {
	rc.Response.Reset()
	p.write(&rc.Response)
}

// refuseMethod answers a method that the path doesn't take.
func (s *Server) refuseMethod(rc *fasthttp.RequestCtx) {
	allowed := allowedAt(rc.URI().Path())
	if allowed == "" {
		s.refuse(rc, pathUnknown())
		return
	}
	s.refuse(rc, newProblem(http.StatusMethodNotAllowed, "method-not-allowed", "this path does not take this method; the Allow header lists those it takes"))
	rc.Response.Header.Set(fasthttp.HeaderAllow, allowed)
}

// allowedAt is the Allow header of a path, "" if there is nothing there.
func allowedAt(path []byte) string {
	switch routeOf(path) {
	case routeCollection:
		return "POST"
	case routeItem:
		return "GET, HEAD, PUT, DELETE"
	default:
		return ""
	}
}

func knownMethod(method []byte) bool {
	switch string(method) {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodDelete,
		http.MethodConnect, http.MethodOptions, http.MethodTrace, http.MethodPatch:
		return true
	}
	return false
}

// ambiguousLength reports whether a request has Transfer-Encoding together with
// Content-Length, or one that isn't chunked: someone between the client and us
// may have read it in another way than fasthttp, which prefers the first and
// drops the second. fasthttp itself refuses either sent twice, and
// Transfer-Encoding in HTTP/1.0.
func ambiguousLength(header *fasthttp.RequestHeader) bool {
	length, chunked, identity := false, false, false
	for rest := header.RawHeaders(); len(rest) > 0; {
		var line []byte
		line, rest, _ = bytes.Cut(rest, []byte{'\n'})
		if len(line) == 0 || line[0]|0x20 != 'c' && line[0]|0x20 != 't' {
			continue
		}
		name, value, _ := bytes.Cut(line, []byte{':'})
		switch {
		case fieldIs(name, fasthttp.HeaderContentLength):
			length = true
		case fieldIs(name, fasthttp.HeaderTransferEncoding):
			chunked = true
			identity = !fieldIs(bytes.TrimSpace(value), "chunked")
		}
	}
	return identity || length && chunked
}

func fieldIs(have []byte, want string) bool {
	return len(have) == len(want) && strings.EqualFold(string(have), want)
}

// fail answers a handler's error, and what Fiber says where no handler is.
func (s *Server) fail(c *fiber.Ctx, err error) error {
	rc := c.Context()
	var routing *fiber.Error
	if errors.As(err, &routing) && (routing.Code == http.StatusNotFound || routing.Code == http.StatusMethodNotAllowed) {
		s.refuseMethod(rc)
		return nil
	}
	p, known := problemOf(err)
	if !known {
		s.log.Error("request failed", "method", c.Method(), "route", routeOf(rc.URI().Path()).String(), "error", err)
	}
	s.refuse(rc, p)
	return nil
}

// failTransport answers what could not be read as a request.
func (s *Server) failTransport(rc *fasthttp.RequestCtx, err error) {
	p := transportProblem(err, s.maxBody)
	s.metrics.unread.WithLabelValues(p.Code).Inc()
	s.refuse(rc, p)
	if conn, ok := rc.Conn().(*conn); ok && p.Status != http.StatusRequestTimeout {
		conn.linger = true
	}
}
