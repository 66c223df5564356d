package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/prometheus/client_golang/prometheus"
)

// What Config says if it says nothing.
const (
	// DefaultMaxBody is how large a request body may be, in bytes.
	DefaultMaxBody = 1 << 20
	// DefaultMaxConnections is how many connections may be open. One costs about
	// 30 KiB while a request of ordinary size is under way on it.
	DefaultMaxConnections = 8192
	// DefaultMaxRequests is how many requests may be under way.
	DefaultMaxRequests = 4096
	// DefaultMaxBodies is how much all bodies over 8 KiB, of requests and of
	// answers, together may take, in bytes.
	DefaultMaxBodies = 64 << 20
)

// Limits of a connection.
const (
	readTimeout  = 5 * time.Second  // for a whole request, from its first byte
	writeTimeout = 10 * time.Second // for an answer
	idleTimeout  = 60 * time.Second // until one begins
	readBuffer   = 8 << 10          // bytes of the request line and headers
)

// halfOpenGrace is how long a shutdown waits for the rest of requests that have
// begun to arrive.
const halfOpenGrace = 250 * time.Millisecond

// Config is what a Server needs.
type Config struct {
	// Timers does the work. It must be set.
	Timers Timers
	// Authorizer says who may do what; nil lets everyone do everything but what takes a
	// token of the role admin. The description of the interface is for everyone.
	Authorizer Authorizer
	// Log takes what went wrong in the server; nil for none.
	Log *slog.Logger
	// MaxBody is the largest body of a request, in bytes, below 2 GiB; 0 for
	// DefaultMaxBody.
	MaxBody int
	// MaxConnections is how many connections may be open; 0 for
	// DefaultMaxConnections. One more takes the place of the one that has waited
	// longest for a request, which is closed; if all are busy its first request is
	// answered with 503, unread, and it is closed itself. So is one more of a client
	// that has a quarter of them open without a request that has arrived whole.
	MaxConnections int
	// MaxRequests is how many requests may be worked on, from the last byte of one
	// until its answer is ready to be written; 0 for DefaultMaxRequests. One more
	// is answered with 503. How long clients take to read is no part of it.
	MaxRequests int
	// MaxBodies is how many bytes may be set aside for bodies over 8 KiB and
	// chunked ones, from a body's first byte to its answer, and, until the answer
	// has been written, for timers over 8 KiB that are read and for batches of more
	// than 14 timers, at 512 bytes a timer; 0 for DefaultMaxBodies, and never less
	// than one body. A request that needs more
	// than is left is answered with 503. While they are worked on, such bodies
	// may take about three times as much.
	MaxBodies int64
	// Registerer takes the metrics, which must not be there yet; nil for none.
	Registerer prometheus.Registerer
}

// Server answers the public listener. It is safe for concurrent use.
type Server struct {
	timers Timers
	// authorizer is nil if everyone may do all.
	authorizer Authorizer
	log        *slog.Logger
	maxBody    int
	metrics    *metrics
	app        *fiber.App
	conns      *connections
	decoders   sync.Pool // of *wire.Decoder, for bodies of one timer

	maxRequests int64
	underWay    atomic.Int64 // requests

	mu        sync.Mutex
	listeners []*listener
	stopping  bool
}

// New makes a server that serves nothing yet. It starts no goroutines and needs
// no closing unless it has served.
func New(cfg Config) *Server {
	cfg.setDefaults()
	s := &Server{
		timers:     cfg.Timers,
		authorizer: cfg.Authorizer,
		log:        cfg.Log,
		maxBody:    cfg.MaxBody,
		metrics:    newMetrics(cfg.Registerer),

		maxRequests: int64(cfg.MaxRequests),
	}
	s.conns = newConnections(&cfg, s.metrics)
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.app = fiber.New(s.fiberConfig())
	s.routes()
	server := s.app.Server()
	server.Handler = s.guard(s.app.Handler())
	server.ErrorHandler = s.failTransport
	server.Concurrency = math.MaxInt32 // connections are bounded before fasthttp sees them
	server.CloseOnShutdown = true
	return s
}

func (s *Server) fiberConfig() fiber.Config {
	return fiber.Config{
		AppName:                      "chronos",
		BodyLimit:                    s.maxBody,
		CaseSensitive:                true,
		StrictRouting:                true,
		UnescapePath:                 true,
		DisablePreParseMultipartForm: true,
		DisableStartupMessage:        true,
		ErrorHandler:                 s.fail,
		ReadTimeout:                  readTimeout,
		WriteTimeout:                 writeTimeout,
		IdleTimeout:                  idleTimeout,
		ReadBufferSize:               readBuffer,
	}
}

func (cfg *Config) setDefaults() {
	cfg.MaxBody = min(cmp.Or(max(cfg.MaxBody, 0), DefaultMaxBody), math.MaxInt32)
	cfg.MaxConnections = cmp.Or(max(cfg.MaxConnections, 0), DefaultMaxConnections)
	cfg.MaxRequests = cmp.Or(max(cfg.MaxRequests, 0), DefaultMaxRequests)
	cfg.MaxBodies = cmp.Or(max(cfg.MaxBodies, 0), DefaultMaxBodies)
	cfg.MaxBodies = max(cfg.MaxBodies, 2*int64(cfg.MaxBody)+firstHeld) // a body's room grows by doubling
}

// Serve accepts connections from ln, which it closes, and answers them. It
// returns nil once Shutdown was called, and an error if ln fails for another
// reason. It may be called for several listeners.
func (s *Server) Serve(ln net.Listener) error {
	tracked := newListener(ln, s.conns)
	s.mu.Lock()
	stopping := s.stopping
	s.listeners = append(s.listeners, tracked)
	s.mu.Unlock()
	defer tracked.Close() //nolint:errcheck // closed a second time, or failed with the error that is returned
	if stopping {
		return nil
	}
	if err := s.app.Server().Serve(tracked); err != nil {
		return fmt.Errorf("serve api: %w", err)
	}
	return nil
}

// Shutdown stops accepting, answers the requests that have arrived, cuts the
// connections of those that have not quite, and returns when all connections are
// closed. When ctx ends before that, it closes them all and returns ctx's error.
// A Server that was shut down serves no more.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	s.stopping = true
	listeners := s.listeners
	s.mu.Unlock()
	var errs []error
	for _, ln := range listeners {
		errs = append(errs, ln.Close())
	}

	stop := make(chan struct{})
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		s.cutHalfOpen(stop)
	}()
	err := s.app.Server().ShutdownWithContext(ctx)
	close(stop)
	<-stopped
	s.conns.closeAll()
	if err = errors.Join(append(errs, err)...); err != nil {
		return fmt.Errorf("shut down api: %w", err)
	}
	return nil
}

// cutHalfOpen ends the reading of requests until stop is closed: again and
// again, since fasthttp gives a connection that has just been accepted a
// deadline of its own.
func (s *Server) cutHalfOpen(stop <-chan struct{}) {
	const again = 50 * time.Millisecond
	timer := time.NewTimer(halfOpenGrace)
	defer timer.Stop()
	for {
		select {
		case <-stop:
			return
		case <-timer.C:
			s.conns.interruptReads()
			timer.Reset(again)
		}
	}
}
