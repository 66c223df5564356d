package api

import (
	"net"
	"strconv"

	"chronos/api/wire"

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
				s.refuse(rc, wire.Internal())
			}
			s.metrics.observe(rc, time.Since(began))
		}()
		normalize(rc.URI())
		defer rc.Request.ReleaseBody(keptBody)
		defer s.underWay.Add(-1)
		switch {
		case s.underWay.Add(1) > s.maxRequests:
			s.metrics.refusedRequest.Inc()
			s.refuse(rc, wire.Overloaded())
		case s.refuseUnauthorized(rc):
		case !knownMethod(rc.Method()), hasEscapedSlash(rc.URI().PathOriginal()):
			s.refuseMethod(rc)
		default:
			next(rc)
			s.logChange(rc)
		}
	}
}

func (s *Server) refuse(rc *fasthttp.RequestCtx, p wire.Problem) {
	rc.Response.Reset()
	write(&rc.Response, p)
}

func write(resp *fasthttp.Response, p wire.Problem) {
	resp.SetStatusCode(p.Status)
	resp.SetBody(p.Body())
	p.EachHeader(resp.Header.Set)
}

// refuseMethod answers a method that the path doesn't take, if it is a path.
func (s *Server) refuseMethod(rc *fasthttp.RequestCtx) {
	allowed := routeAt(rc.URI()).allowed()
	if allowed == "" {
		s.refuse(rc, wire.NewProblem(http.StatusNotFound, "path-unknown", "there is nothing at this path; timers are at /timers and /timers/<id>"))
		return
	}
	p := wire.NewProblem(http.StatusMethodNotAllowed, "method-not-allowed", "this path does not take this method; the Allow header lists those it takes")
	s.refuse(rc, p.With(fasthttp.HeaderAllow, allowed))
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
	p, known := wire.ProblemOf(err)
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
	rc.Response.SetConnectionClose() // nobody can tell what else the connection brings
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

// transportProblem says how a client is told of a request that could not be read.
func transportProblem(err error, maxBody int) wire.Problem {
	var (
		large *fasthttp.ErrSmallBuffer
		netOp net.Error
		own   wire.Problem
		p     wire.Problem
	)
	switch {
	case errors.As(err, &own):
		p = own
	case errors.Is(err, errBodiesFull):
		p = wire.Overloaded()
	case errors.As(err, &large), errors.Is(err, errHeaderTooLarge):
		p = wire.NewProblem(http.StatusRequestHeaderFieldsTooLarge, "header-too-large", "the request line and headers are over "+strconv.Itoa(readBuffer)+" bytes or more than "+strconv.Itoa(maxFields)+" headers; send fewer or shorter ones")
	case errors.Is(err, fasthttp.ErrBodyTooLarge):
		p = wire.NewProblem(http.StatusRequestEntityTooLarge, "body-too-large", "the body is over "+strconv.Itoa(maxBody)+" bytes; send a smaller one")
	case errors.As(err, &netOp) && netOp.Timeout():
		p = wire.NewProblem(http.StatusRequestTimeout, "request-timeout", "the request did not arrive in time; send all of it without pause")
	default:
		p = wire.NewProblem(http.StatusBadRequest, "request-malformed", "the request is not valid HTTP/1.1 as RFC 9112 has it; send a path that begins with one slash and has no fragment, one Host, either one Content-Length or Transfer-Encoding: chunked, and lines that end with CR LF")
	}
	return p
}
