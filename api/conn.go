package api

import (
	"errors"
	"io"
	"net"
	"sync"
	"syscall"
	"time"
)

const (
	// lingerFor is how long what a client still sends is read and dropped after
	// an answer that came before the end of its request. Closing at once would
	// reset the connection, and the answer with it.
	lingerFor = 500 * time.Millisecond
	// acceptPause is how long to wait for a file descriptor to become free.
	acceptPause = 50 * time.Millisecond
)

// connections are those that a server has open. It is safe for concurrent use.
type connections struct {
	mu     sync.Mutex
	open   map[*conn]struct{}
	closed bool
}

func newConnections() *connections { return &connections{open: map[*conn]struct{}{}} }

// add reports false if all were closed.
func (cs *connections) add(c *conn) bool {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if !cs.closed {
		cs.open[c] = struct{}{}
	}
	return !cs.closed
}

func (cs *connections) remove(c *conn) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	delete(cs.open, c)
}

// interruptReads lets every read that waits for bytes fail, and no write.
func (cs *connections) interruptReads() {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for c := range cs.open {
		_ = c.SetReadDeadline(time.Unix(1, 0)) // it is closed already if it fails
	}
}

// closeAll closes what is open and what may still come.
func (cs *connections) closeAll() {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.closed = true
	for c := range cs.open {
		_ = c.Conn.Close() // nobody is left to tell
	}
}

// conn is a connection that its server knows of.
type conn struct {
	net.Conn
	server *connections
	// linger is set and read by the goroutine that serves the connection.
	linger bool
}

// Close closes the connection, after a pause if it should linger.
func (c *conn) Close() error {
	if c.linger {
		c.drain()
	}
	c.server.remove(c)
	return c.Conn.Close()
}

func (c *conn) drain() {
	half, ok := c.Conn.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil {
		return
	}
	if c.SetReadDeadline(time.Now().Add(lingerFor)) == nil {
		_, _ = io.Copy(io.Discard, c.Conn) // ends with an error at the latest when the deadline passes
	}
}

// listener hands out tracked connections.
type listener struct {
	net.Listener
	server *connections
	once   sync.Once
	done   chan struct{}
}

func newListener(ln net.Listener, server *connections) *listener {
	return &listener{Listener: ln, server: server, done: make(chan struct{})}
}

// Accept waits for a connection. It doesn't fail for want of file descriptors,
// but waits until some are free.
func (l *listener) Accept() (net.Conn, error) {
	for {
		inner, err := l.Listener.Accept()
		switch {
		case err == nil:
			c := &conn{Conn: inner, server: l.server}
			if !l.server.add(c) {
				_ = inner.Close() // it was never used
				return nil, net.ErrClosed
			}
			return c, nil
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
