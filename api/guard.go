package api

import (
	"errors"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"

	"chronos/scheduler/timer"
)

// keptBody is how large the memory of a body may be that a connection keeps for
// its next request.
const keptBody = 64 << 10

// guard wraps Fiber's handler: it measures, answers a panic, and refuses what is
// too much or what Fiber would answer in its own way.
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
		normalize(rc.URI())
		defer rc.Request.ReleaseBody(keptBody)
		defer s.underWay.Add(-1)
		switch {
		case s.underWay.Add(1) > s.maxRequests:
			s.metrics.refusedRequest.Inc()
			s.refuse(rc, overloadedProblem())
		case s.refuseUnauthorized(rc):
		case !knownMethod(rc.Method()), hasEscapedSlash(rc.URI().PathOriginal()):
			s.refuseMethod(rc)
		default:
			next(rc)
			s.logChange(rc)
		}
	}
}

func (s *Server) refuse(rc *fasthttp.RequestCtx, p problem) {
	rc.Response.Reset()
	p.write(&rc.Response)
}

// refuseMethod answers a method that the path doesn't take, if it is a path.
func (s *Server) refuseMethod(rc *fasthttp.RequestCtx) {
	allowed := routeAt(rc.URI()).allowed()
	if allowed == "" {
		s.refuse(rc, pathUnknown())
		return
	}
	s.refuse(rc, newProblem(http.StatusMethodNotAllowed, "method-not-allowed", "this path does not take this method; the Allow header lists those it takes"))
	rc.Response.Header.Set(fasthttp.HeaderAllow, allowed)
}

// allowed is the Allow header of a route, "" if it leads nowhere.
func (r route) allowed() string {
	switch r {
	case routeCollection:
		return "GET, HEAD, POST"
	case routeBatch:
		return "POST"
	case routeReferences:
		return "DELETE"
	case routeItem:
		return "GET, HEAD, PUT, DELETE"
	case routeStatistics, routeDescription, routePing:
		return "GET, HEAD"
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
		s.log.Error("request failed", "method", c.Method(), "route", routeAt(rc.URI()).String(), "error", err)
	}
	s.refuse(rc, p)
	return nil
}

// failTransport answers what could not be read as a request.
func (s *Server) failTransport(rc *fasthttp.RequestCtx, err error) {
	p := transportProblem(err, s.maxBody)
	s.metrics.unread.WithLabelValues(p.Code).Inc()
	if errors.Is(err, errBodiesFull) {
		s.metrics.refusedBody.Inc()
	}
	s.refuse(rc, p)
	conn, ok := rc.Conn().(*conn)
	if !ok {
		return
	}
	// fasthttp leaves the deadline of the answer before, which may have passed.
	_ = conn.SetWriteDeadline(time.Now().Add(writeTimeout)) // it is closed already if it fails
	conn.linger = p.Status != http.StatusRequestTimeout
}

// reserveAnswer bounds what the answers that are being made or written take
// together. Its error is timer.ErrOverloaded.
func (s *Server) reserveAnswer(c *fiber.Ctx, size int) error {
	if conn, ok := c.Context().Conn().(*conn); ok && !conn.chargeAnswer(size) {
		s.metrics.refusedBody.Inc()
		return timer.ErrOverloaded
	}
	return nil
}
