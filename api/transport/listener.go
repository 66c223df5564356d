package transport

import (
	"errors"
	"net"
	"sync"
	"syscall"
	"time"
)

// acceptPause is how long to wait for a file descriptor to become free.
const acceptPause = 50 * time.Millisecond

// admission is the decision about a new connection.
type admission int

const (
	accepted admission = iota
	full
	crowdedOut // there is room, but not for more connections of this client
	closed
)

func (s *Server) add(c *conn) admission {
	by := clientOf(c.RemoteAddr())
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return closed
	case s.crowded(by):
		return crowdedOut
	case len(s.open) >= s.limits.MaxConnections && !s.makeRoom():
		return full
	}
	s.open[c] = struct{}{}
	s.countFresh(c, by)
	return accepted
}

func (s *Server) remove(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, c)
	s.uncountFresh(c)
	c.idle.leave()
}

// listener hands out tracked connections.
type listener struct {
	net.Listener
	server *Server
	once   sync.Once
	done   chan struct{}
}

func newListener(ln net.Listener, server *Server) *listener {
	return &listener{Listener: ln, server: server, done: make(chan struct{})}
}

// Accept waits for a connection. If file descriptors run out, Accept waits until some are free and
// returns no error.
func (l *listener) Accept() (net.Conn, error) {
	for {
		inner, err := l.Listener.Accept()
		switch {
		case err == nil:
			c := &conn{Conn: inner, server: l.server}
			switch l.server.add(c) {
			case accepted:
				return c, nil
			case full:
				l.server.metrics.refusedConnection.Inc()
				l.server.turnAway(inner)
				continue
			case crowdedOut:
				l.server.metrics.refusedClient.Inc()
				l.server.turnAway(inner)
				continue
			default:
				_ = inner.Close() // the connection was never used
				return nil, net.ErrClosed
			}
		case !errors.Is(err, syscall.EMFILE) && !errors.Is(err, syscall.ENFILE) && !errors.Is(err, syscall.ECONNABORTED):
			return nil, err
		}
		select {
		case <-l.done:
			return nil, net.ErrClosed
		case <-time.After(acceptPause):
		}
	}
}

// Close stops accepting; more than once does no harm.
func (l *listener) Close() (err error) {
	l.once.Do(func() {
		close(l.done)
		err = l.Listener.Close()
	})
	return err
}
