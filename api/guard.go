package api

import (
	"errors"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"

	"chronos/api/transport"
	"chronos/api/wire"
)

// keptBody is the largest memory of a body that a connection keeps for the next request.
const keptBody = 64 << 10

// guard wraps Fiber's handler. The guard measures the request, answers a panic, and refuses
// requests beyond the limit. The guard also refuses requests that Fiber would answer in a way of
// Fiber's own.
func (s *Server) guard(next fasthttp.RequestHandler) fasthttp.RequestHandler {
	return func(rc *fasthttp.RequestCtx) {
		began := time.Now()
		defer func() {
			if r := recover(); r != nil {
				s.log.Error("handler panicked", "panic", r, "stack", string(debug.Stack()))
				transport.Refuse(&rc.Response, wire.Internal())
			}
			s.metrics.observe(rc, time.Since(began))
		}()
		normalize(rc.URI())
		defer rc.Request.ReleaseBody(keptBody)
		defer s.underWay.Add(-1)
		switch {
		case s.underWay.Add(1) > s.maxRequests:
			s.metrics.transport.RefusedRequest.Inc()
			transport.Refuse(&rc.Response, wire.Overloaded())
		case s.refuseUnauthorized(rc):
		case !knownMethod(rc.Method()), hasEscapedSlash(rc.URI().PathOriginal()):
			s.refuseMethod(rc)
		default:
			next(rc)
			s.logChange(rc)
		}
	}
}

// refuseMethod answers a method that the path doesn't take, or an unknown path.
func (s *Server) refuseMethod(rc *fasthttp.RequestCtx) {
	allowed := routeAt(rc.URI()).allowed()
	if allowed == "" {
		transport.Refuse(&rc.Response, wire.NewProblem(http.StatusNotFound, "path-unknown", "there is nothing at this path; timers are at /timers and /timers/<id>"))
		return
	}
	p := wire.NewProblem(http.StatusMethodNotAllowed, "method-not-allowed", "this path does not take this method; the Allow header lists those it takes")
	transport.Refuse(&rc.Response, p.With(fasthttp.HeaderAllow, allowed))
}

// fail answers a handler's error, and Fiber's error if no handler is found.
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
	transport.Refuse(&rc.Response, p)
	return nil
}
