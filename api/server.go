package api

import (
	"cmp"
	"log/slog"
	"sync"
	"sync/atomic"

	"chronos/api/transport"

	"github.com/gofiber/fiber/v2"
	"github.com/prometheus/client_golang/prometheus"
)

// DefaultMaxRequests is how many requests may be under way if Config doesn't say.
const DefaultMaxRequests = 4096

// Config is what a Server needs.
type Config struct {
	// Timers does the work. It must be set.
	Timers Timers
	// Authorizer says who may do what; nil lets everyone do everything but what takes a
	// token of the role admin. The description of the interface is for everyone.
	Authorizer Authorizer
	// Log takes what went wrong in the server; nil for none.
	Log *slog.Logger
	// Limits bound connections and bodies. What an answer reserves is the size of a
	// timer that is read, and for a batch of more than 14 timers 512 bytes a timer.
	Limits transport.Limits
	// MaxRequests is how many requests may be worked on, from the last byte of one
	// until its answer is ready to be written; 0 for DefaultMaxRequests. One more
	// is answered with 503. How long clients take to read is no part of it.
	MaxRequests int
	// Registerer takes the metrics, which must not be there yet; nil for none.
	Registerer prometheus.Registerer
}

// Server answers the public listener. It is safe for concurrent use.
type Server struct {
	*transport.Server // which has Serve and Shutdown

	timers Timers
	// authorizer is nil if everyone may do all.
	authorizer Authorizer
	log        *slog.Logger
	limits     transport.Limits
	metrics    *metrics
	app        *fiber.App
	decoders   sync.Pool // of *wire.Decoder, for bodies of one timer

	maxRequests int64
	underWay    atomic.Int64 // requests
}

// New makes a server that serves nothing yet. It starts no goroutines and needs
// no closing unless it has served.
func New(cfg Config) *Server {
	s := &Server{
		timers:     cfg.Timers,
		authorizer: cfg.Authorizer,
		log:        cfg.Log,
		limits:     cfg.Limits.WithDefaults(),
		metrics:    newMetrics(cfg.Registerer),

		maxRequests: int64(cmp.Or(max(cfg.MaxRequests, 0), DefaultMaxRequests)),
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.app = fiber.New(s.fiberConfig())
	s.routes()
	server := s.app.Server()
	server.Handler = s.guard(s.app.Handler())
	s.Server = transport.New(server, transport.Config{Limits: s.limits, Metrics: s.metrics.transport, Authorize: s.authorizeBody})
	return s
}

func (s *Server) fiberConfig() fiber.Config {
	return fiber.Config{
		AppName:               "chronos",
		CaseSensitive:         true,
		StrictRouting:         true,
		UnescapePath:          true,
		DisableStartupMessage: true,
		ErrorHandler:          s.fail,
	}
}
