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

// Limits that hold by default.
const (
	// DefaultMaxBody is how large a request body may be, in bytes.
	DefaultMaxBody = 1 << 20
	// DefaultMaxConnections is how many connections may be open. A connection costs about 30 KiB
	// while a request of ordinary size is under way.
	DefaultMaxConnections = 8192
	// DefaultMaxBodies is how much all bodies over 8 KiB, of requests and of answers, together may
	// take, in bytes.
	DefaultMaxBodies = 64 << 20
)

// Limits of a connection.
const (
	readTimeout  = 5 * time.Second  // for a whole request, from its first byte
	writeTimeout = 10 * time.Second // for an answer
	idleTimeout  = 60 * time.Second // until a request begins
	readBuffer   = 8 << 10          // bytes of the request line and headers
)

// halfOpenGrace is how long a shutdown waits for the rest of requests that have begun to arrive.
const halfOpenGrace = 250 * time.Millisecond

// Limits bound how much of the node clients can use.
type Limits struct {
	// MaxBody is the largest body of a request, in bytes, below 2 GiB; 0 for DefaultMaxBody.
	MaxBody int
	// MaxConnections is how many connections may be open; 0 for DefaultMaxConnections. To accept a
	// further connection, the server closes the connection that has waited longest for a request.
	// If all connections are busy, the first request of the further connection is answered with
	// 503, unread, and the connection is closed. The same happens to a further connection of a
	// client that already has a quarter of MaxConnections open without a whole request.
	MaxConnections int
	// MaxBodies is how many bytes may be set aside for large bodies; 0 for DefaultMaxBodies, and
	// never less than a single body. Chunked bodies and bodies over 8 KiB count from the first byte
	// of the body to the answer. The bytes of ReserveAnswer count until the answer has been
	// written. A request that needs more bytes than are left is answered with 503. While the server
	// works on large bodies, the bodies may take about three times as much memory.
	MaxBodies int64
}

// WithDefaults returns the limits with defaults filled in.
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
	// Authorize decides, by the method and the header Authorization, about a request whose body
	// would be held. Authorize is called before any of the body is held: otherwise strangers could
	// fill all the room for bodies. The prefix is what Cleared returns. The error is a wire.Problem.
	// Authorize must be set.
	Authorize func(method, authorization []byte) (prefix string, err error)
}

// Server has a fasthttp.Server serve connections, bounds the connections and reads them strictly. A
// Server is safe for concurrent use.
type Server struct {
	http      *fasthttp.Server
	limits    Limits
	authorize func(method, authorization []byte) (string, error)
	budget    budget
	metrics   *Metrics

	mu        sync.Mutex
	listeners []*listener
	stopping  bool // serves no listener any more
	open      map[*conn]struct{}
	fresh     map[client]int        // connections on which no request has arrived whole
	idle      idleLink              // begins and ends the ring of idle connections
	turned    map[net.Conn]struct{} // too many connections, which get a refusal
	closed    bool                  // accepts no connection any more
	group     sync.WaitGroup        // of turned
}

// New makes a Server of server. The server has a handler already, or gets a handler before Serve.
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

// Serve accepts connections from ln and answers the connections' requests. Serve closes ln. Serve
// returns nil after Shutdown, and an error if ln fails for another reason. Serve may be called for
// several listeners.
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

// Shutdown stops accepting, answers the requests that have arrived, and cuts connections on which a
// request has arrived only in part. Shutdown returns when all connections are closed. When ctx ends
// earlier, Shutdown closes all connections and returns ctx's error. After Shutdown a Server serves
// no more.
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

// cutHalfOpen ends the reading of requests until stop is closed. cutHalfOpen repeats, since
// fasthttp gives a connection that has just been accepted its own deadline.
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
		_ = c.SetReadDeadline(time.Unix(1, 0)) // an error means that the connection is closed already
	}
}

// closeAll closes all connections, and future connections too. closeAll returns when the refused
// connections are closed.
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
