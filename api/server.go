package api

import (
	"cmp"
	"log/slog"
	"sync"
	"sync/atomic"

	"chronos/api/transport"
	"chronos/api/wire"
	"chronos/scheduler/deliveries"

	"github.com/gofiber/fiber/v2"
	"github.com/prometheus/client_golang/prometheus"
)

// DefaultMaxRequests is how many requests may be under way if Config doesn't say.
const DefaultMaxRequests = 4096

// Config is what a Server needs.
type Config struct {
	// Timers does the work. Timers must be set.
	Timers Timers
	// Lister finds timers among all timers; nil for no listing.
	Lister Lister
	// Deliveries is the log of deliveries; nil for no log.
	Deliveries Deliveries
	// Authorizer decides about requests. A nil Authorizer allows everyone everything, except
	// requests that need the role list or admin. The description of the interface is for everyone.
	Authorizer Authorizer
	// Unknown says what becomes of unknown members of bodies if a request does not say.
	Unknown wire.Handling
	// Log takes the server's errors; nil for none.
	Log *slog.Logger
	// Limits bound connections and bodies. An answer with a timer reserves the size of the timer.
	// The answer to a batch of more than 14 timers reserves 512 bytes a timer.
	Limits transport.Limits
	// MaxRequests is how many requests may be worked on at the same time; 0 for DefaultMaxRequests.
	// Further requests are answered with 503. Work begins with the last byte of a request and ends
	// when the answer is ready to be written. The time in which clients read the answer doesn't
	// count.
	MaxRequests int
	// Registerer takes the metrics and must not have the metrics yet; nil for none.
	Registerer prometheus.Registerer
}

// Server answers the public listener. A Server is safe for concurrent use.
type Server struct {
	*transport.Server // has Serve and Shutdown

	timers     Timers
	lister     Lister // nil for none
	deliveries Deliveries
	// authorizer is nil if everyone may do everything.
	authorizer Authorizer
	unknown    wire.Handling
	log        *slog.Logger
	limits     transport.Limits
	metrics    *metrics
	app        *fiber.App
	decoders   sync.Pool // of *wire.Decoder, for bodies with a single timer

	maxRequests int64
	underWay    atomic.Int64 // requests
}

// New makes a server that serves nothing yet. New starts no goroutines. A Server needs closing only
// after serving.
func New(cfg Config) *Server {
	s := &Server{
		timers:     cfg.Timers,
		lister:     cfg.Lister,
		deliveries: cfg.Deliveries,
		authorizer: cfg.Authorizer,
		unknown:    cfg.Unknown,
		log:        cfg.Log,
		limits:     cfg.Limits.WithDefaults(),
		metrics:    newMetrics(cfg.Registerer),

		maxRequests: int64(cmp.Or(max(cfg.MaxRequests, 0), DefaultMaxRequests)),
	}
	if s.deliveries == nil {
		s.deliveries = (*deliveries.Log)(nil)
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
