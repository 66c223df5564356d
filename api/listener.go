package api

import (
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"chronos/api/wire"

	"github.com/valyala/fasthttp"
)

const (
	// lingerFor is how long what a client still sends is read and dropped after
	// an answer that came before the end of its request. Closing at once would
	// reset the connection, and the answer with it.
	lingerFor = 500 * time.Millisecond
	// acceptPause is how long to wait for a file descriptor to become free.
	acceptPause = 50 * time.Millisecond
	// maxTurnedAway is how many connections may wait for their refusal to be read.
	maxTurnedAway = 256
)

// budget is a number of bytes that are shared. It is safe for concurrent use.
type budget struct {
	limit int64
	used  atomic.Int64
}

func (b *budget) take(n int64) bool {
	if b.used.Add(n) > b.limit {
		b.used.Add(-n)
		return false
	}
	return true
}

func (b *budget) give(n int64) { b.used.Add(-n) }

// connections are those that a server has open. It is safe for concurrent use.
type connections struct {
	maxBody    int64
	maxOpen    int
	authorizer Authorizer // nil if everyone may do all
	budget     budget
	metrics    *metrics

	mu     sync.Mutex
	open   map[*conn]struct{}
	fresh  map[client]int        // connections on which no request has arrived whole
	idle   idleLink              // begins and ends the ring of those that are idle
	turned map[net.Conn]struct{} // too many, and being told so
	closed bool
	group  sync.WaitGroup // of turned
}

func newConnections(cfg *Config, m *metrics) *connections {
	cs := &connections{
		maxBody:    int64(cfg.MaxBody),
		maxOpen:    cfg.MaxConnections,
		authorizer: cfg.Authorizer,
		budget:     budget{limit: cfg.MaxBodies},
		metrics:    m,
		open:       map[*conn]struct{}{},
		fresh:      map[client]int{},
		turned:     map[net.Conn]struct{}{},
	}
	cs.idle.previous, cs.idle.next = &cs.idle, &cs.idle
	return cs
}

// admission is what becomes of a new connection.
type admission int

const (
	accepted admission = iota
	full
	crowdedOut // there is room, but not for more of this client's
	closed
)

func (cs *connections) add(c *conn) admission {
	by := clientOf(c.RemoteAddr())
	cs.mu.Lock()
	defer cs.mu.Unlock()
	switch {
	case cs.closed:
		return closed
	case cs.crowded(by):
		return crowdedOut
	case len(cs.open) >= cs.maxOpen && !cs.makeRoom():
		return full
	}
	cs.open[c] = struct{}{}
	cs.countFresh(c, by)
	return accepted
}

func (cs *connections) remove(c *conn) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	delete(cs.open, c)
	cs.uncountFresh(c)
	c.idle.leave()
}

// turnAway tells a client that there are too many connections, without waiting:
// the next may be accepted.
func (cs *connections) turnAway(c net.Conn) {
	if cs.tell(c) {
		return
	}
	writeOverloaded(c, false)
	_ = c.Close() // nobody is left to tell
}

// tell answers c in a goroutine of its own, unless there are too many of these.
func (cs *connections) tell(c net.Conn) bool {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if cs.closed || len(cs.turned) >= maxTurnedAway {
		return false
	}
	cs.turned[c] = struct{}{}
	cs.group.Go(func() {
		refuseConnection(c)
		_ = c.Close() // nobody is left to tell
		cs.mu.Lock()
		defer cs.mu.Unlock()
		delete(cs.turned, c)
	})
	return true
}

// refuseConnection waits a moment for a request, since a client may take an
// answer that comes before for a mistake, and answers it unread.
func refuseConnection(c net.Conn) {
	var start [8]byte
	if c.SetReadDeadline(time.Now().Add(lingerFor)) != nil {
		return
	}
	n, err := io.ReadAtLeast(c, start[:], len("HEAD "))
	if n == 0 && errors.Is(err, io.EOF) {
		return
	}
	writeOverloaded(c, string(start[:min(n, 5)]) == "HEAD ")
	drain(c)
}

func writeOverloaded(c net.Conn, withoutBody bool) {
	var response fasthttp.Response
	write(&response, wire.Overloaded())
	response.SetConnectionClose()
	response.SkipBody = withoutBody
	if c.SetWriteDeadline(time.Now().Add(lingerFor)) == nil {
		_, _ = response.WriteTo(c) // the client has gone if it fails
	}
}

// drain ends the sending and drops for a while what is still received.
func drain(c net.Conn) {
	half, ok := c.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil {
		return
	}
	if c.SetReadDeadline(time.Now().Add(lingerFor)) == nil {
		_, _ = io.Copy(io.Discard, c) // ends with an error at the latest when the deadline passes
	}
}

// interruptReads lets every read that waits for bytes fail, and no write.
func (cs *connections) interruptReads() {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for c := range cs.open {
		_ = c.SetReadDeadline(time.Unix(1, 0)) // it is closed already if it fails
	}
}

// closeAll closes what is open and what may still come. It returns when those
// that were turned away are gone.
func (cs *connections) closeAll() {
	cs.mu.Lock()
	cs.closed = true
	for c := range cs.open {
		_ = c.Conn.Close() // nobody is left to tell
	}
	for c := range cs.turned {
		_ = c.Close() // nobody is left to tell
	}
	cs.mu.Unlock()
	cs.group.Wait()
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
				_ = inner.Close() // it was never used
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
