package transport

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"sync"
	"time"

	"github.com/valyala/fasthttp"
)

// Limits that hold if nothing else is said.
const (
	// DefaultMaxBody is how large a request body may be, in bytes.
	DefaultMaxBody = 1 << 20
	// DefaultMaxConnections is how many connections may be open. One costs about
	// 30 KiB while a request of ordinary size is under way on it.
	DefaultMaxConnections = 8192
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

// Limits bound what clients can take of the node.
type Limits struct {
	// MaxBody is the largest body of a request, in bytes, below 2 GiB; 0 for
	// DefaultMaxBody.
	MaxBody int
	// MaxConnections is how many connections may be open; 0 for
	// DefaultMaxConnections. One more takes the place of the one that has waited
	// longest for a request, which is closed; if all are busy its first request is
	// answered with 503, unread, and it is closed itself. So is one more of a client
	// that has a quarter of them open without a request that has arrived whole.
	MaxConnections int
	// MaxBodies is how many bytes may be set aside for bodies over 8 KiB and
	// chunked ones, from a body's first byte to its answer, and, until the answer
	// has been written, for what ReserveAnswer is asked for; 0 for DefaultMaxBodies,
	// and never less than one body. A request that needs more than is left is answered
	// with 503. While they are worked on, such bodies may take about three times as
	// much.
	MaxBodies int64
}

// WithDefaults are the limits that hold.
func (l Limits) WithDefaults() Limits {
	l.MaxBody = min(cmp.Or(max(l.MaxBody, 0), DefaultMaxBody), math.MaxInt32)
	l.MaxConnections = cmp.Or(max(l.MaxConnections, 0), DefaultMaxConnections)
	l.MaxBodies = cmp.Or(max(l.MaxBodies, 0), DefaultMaxBodies)
	l.MaxBodies = max(l.MaxBodies, 2*int64(l.MaxBody)+firstHeld) // a body's room grows by doubling
	return l
}

// Config is what a Server needs.
type Config struct {
	Limits  Limits // as WithDefaults makes them
	Metrics *Metrics
	// Authorize refuses a request whose body would be held before any of the body is,
	// by the method and the header Authorization: strangers could fill all the room
	// there is for bodies. Its error is a wire.Problem. It must be set.
	Authorize func(method, authorization []byte) error
}

// Server has a fasthttp.Server serve connections that it bounds and reads strictly. It
// is safe for concurrent use.
type Server struct {
	http      *fasthttp.Server
	limits    Limits
	authorize func(method, authorization []byte) error
	budget    budget
	metrics   *Metrics

	mu        sync.Mutex
	listeners []*listener
	stopping  bool // serves no listener any more
	open      map[*conn]struct{}
	fresh     map[client]int        // connections on which no request has arrived whole
	idle      idleLink              // begins and ends the ring of those that are idle
	turned    map[net.Conn]struct{} // too many, and being told so
	closed    bool                  // accepts no connection any more
	group     sync.WaitGroup        // of turned
}

// New makes a Server of server, which has its handler already or gets it before Serve.
func New(server *fasthttp.Server, cfg Config) *Server {
	s := &Server{
		http:      server,
		limits:    cfg.Limits,
		authorize: cfg.Authorize,
		budget:    budget{limit: cfg.Limits.MaxBodies},
		metrics:   cfg.Metrics,
		open:      map[*conn]struct{}{},
		fresh:     map[client]int{},
		turned:    map[net.Conn]struct{}{},
	}
	s.idle.previous, s.idle.next = &s.idle, &s.idle
	server.ErrorHandler = s.refuseUnread
	server.MaxRequestBodySize = cfg.Limits.MaxBody
	server.ReadTimeout, server.WriteTimeout, server.IdleTimeout = readTimeout, writeTimeout, idleTimeout
	server.ReadBufferSize = readBuffer
	server.DisablePreParseMultipartForm = true
	server.Concurrency = math.MaxInt32 // connections are bounded before fasthttp sees them
	server.CloseOnShutdown = true
	return s
}

// Serve accepts connections from ln, which it closes, and answers them. It
// returns nil once Shutdown was called, and an error if ln fails for another
// reason. It may be called for several listeners.
func (s *Server) Serve(ln net.Listener) error {
	tracked := newListener(ln, s)
	s.mu.Lock()
	stopping := s.stopping
	s.listeners = append(s.listeners, tracked)
	s.mu.Unlock()
	defer tracked.Close() //nolint:errcheck // closed a second time, or failed with the error that is returned
	if stopping {
		return nil
	}
	if err := s.http.Serve(tracked); err != nil {
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
	err := s.http.ShutdownWithContext(ctx)
	close(stop)
	<-stopped
	s.closeAll()
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
			s.interruptReads()
			timer.Reset(again)
		}
	}
}

// interruptReads lets every read that waits for bytes fail, and no write.
func (s *Server) interruptReads() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.open {
		_ = c.SetReadDeadline(time.Unix(1, 0)) // it is closed already if it fails
	}
}

// closeAll closes what is open and what may still come. It returns when those
// that were turned away are gone.
func (s *Server) closeAll() {
	s.mu.Lock()
	s.closed = true
	for c := range s.open {
		_ = c.Conn.Close() // nobody is left to tell
	}
	for c := range s.turned {
		_ = c.Close() // nobody is left to tell
	}
	s.mu.Unlock()
	s.group.Wait()
}
