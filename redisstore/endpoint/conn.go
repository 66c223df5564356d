package endpoint

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"chronos/scheduler/awake"
	"chronos/scheduler/timing"
)

// dial connects to an address.
type dial func(ctx context.Context, network, address string) (net.Conn, error)

// Probes of idle connections, as go-redis sends probes by default.
const (
	keepAliveIdle     = 30 * time.Second
	keepAliveInterval = 5 * time.Second
	keepAliveCount    = 3
)

func networkDial() dial {
	keepAlive := net.KeepAliveConfig{Enable: true, Idle: keepAliveIdle, Interval: keepAliveInterval, Count: keepAliveCount}
	return (&net.Dialer{KeepAliveConfig: keepAlive}).DialContext
}

// patientDial connects by connect, or by the network if connect is nil. With a TLS configuration patientDial uses
// TLS.
func patientDial(clock *awake.Clock, lines *lines, connect dial, secure *tls.Config) dial {
	if connect == nil {
		connect = networkDial()
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		raw, err := connect(ctx, network, address)
		if err != nil {
			return nil, err
		}
		conn := patient(raw, clock, lines.to(address))
		if secure == nil {
			return conn, nil
		}
		own := secure.Clone()
		if own.ServerName == "" && !own.InsecureSkipVerify {
			own.ServerName, _, _ = net.SplitHostPort(address)
		}
		over := tls.Client(conn, own)
		if err := over.HandshakeContext(ctx); err != nil {
			return nil, errors.Join(err, conn.Close())
		}
		return secureConn{over, conn}, nil
	}
}

// lines are the lines to the addresses of one deployment. They are safe for concurrent use.
type lines struct {
	mu sync.Mutex
	by map[string]*line
}

func (l *lines) to(address string) *line {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.by == nil {
		l.by = map[string]*line{}
	}
	if l.by[address] == nil {
		l.by[address] = &line{}
	}
	return l.by[address]
}

// line is what the connections to one address know of one another. Connections that lost bytes to a network that was
// cut, or to a host that is gone, carry nothing any more, and nobody says so. When one of them keeps silent, the other
// connections are not to be found out one after another, each by a call that waits IOTimeout.
type line struct {
	silent atomic.Int64 // until when the latest read waited that ended without an answer, ns of the clock
}

func (l *line) keepsSilent(until int64) {
	for known := l.silent.Load(); until > known && !l.silent.CompareAndSwap(known, until); {
		known = l.silent.Load()
	}
}

// patientConn is a connection whose reads and writes may take IOTimeout by a clock that stands still while the
// process does. An answer that lies in the socket when a stopped process goes on has come in time, even after the
// deadline. Deadlines that go-redis sets count for nothing: go-redis computes a deadline from a time that may be as
// old as the stop was long.
type patientConn struct {
	net.Conn
	clock         *awake.Clock
	line          *line
	reads, writes atomic.Int64 // end by the clock, ns; 0 for no end
	heard         atomic.Int64 // until when the latest read could wait that brought bytes
}

func patient(raw net.Conn, clock *awake.Clock, line *line) *patientConn {
	c := &patientConn{Conn: raw, clock: clock, line: line}
	c.heard.Store(int64(clock.Now() + timing.IOTimeout))
	return c
}

// errMistrusted keeps go-redis from using a connection again.
var errMistrusted = errors.New("another connection has kept silent since this connection was last heard")

// SyscallConn lets go-redis look at the connection before the next use.
func (c *patientConn) SyscallConn() (syscall.RawConn, error) {
	if c.heard.Load() < c.line.silent.Load() {
		return nil, errMistrusted
	}
	if socket, is := c.Conn.(syscall.Conn); is {
		return socket.SyscallConn()
	}
	return unseen{}, nil
}

// secureConn is TLS over a patientConn.
type secureConn struct {
	*tls.Conn

	under *patientConn
}

// SyscallConn is patientConn's. The bytes in the socket may be TLS's own.
func (c secureConn) SyscallConn() (syscall.RawConn, error) {
	_, err := c.under.SyscallConn()
	return unseen{}, err
}

// unseen is a socket that shows nothing.
type unseen struct{}

func (unseen) Control(func(uintptr)) error    { return nil }
func (unseen) Read(func(uintptr) bool) error  { return nil }
func (unseen) Write(func(uintptr) bool) error { return nil }

func (c *patientConn) Read(b []byte) (n int, err error) {
	for {
		n, err = c.Conn.Read(b)
		switch {
		case n > 0:
			if until := c.reads.Load(); until > 0 {
				c.heard.Store(until)
			}
			return n, err
		case c.goesOn(err, &c.reads, c.Conn.SetReadDeadline):
			continue
		case errors.Is(err, os.ErrDeadlineExceeded):
			c.line.keepsSilent(c.reads.Load())
		}
		return n, err
	}
}

func (c *patientConn) Write(b []byte) (n int, err error) {
	for {
		wrote, err := c.Conn.Write(b[n:])
		n += wrote
		if !c.goesOn(err, &c.writes, c.Conn.SetWriteDeadline) {
			return n, err
		}
	}
}

// goesOn reports whether an error is a deadline that passed too early, and sets another deadline.
func (c *patientConn) goesOn(err error, ends *atomic.Int64, set func(time.Time) error) bool {
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return false
	}
	left := time.Duration(ends.Load()) - c.clock.Now()
	return left > 0 && set(time.Now().Add(max(left, minPatience))) == nil
}

// minPatience is how soon a deadline is looked at again.
const minPatience = 20 * time.Millisecond

func (c *patientConn) SetReadDeadline(at time.Time) error {
	return c.Conn.SetReadDeadline(c.within(&c.reads, at))
}

func (c *patientConn) SetWriteDeadline(at time.Time) error {
	return c.Conn.SetWriteDeadline(c.within(&c.writes, at))
}

func (c *patientConn) SetDeadline(at time.Time) error {
	return errors.Join(c.SetReadDeadline(at), c.SetWriteDeadline(at))
}

// within notes when the operation that begins now must end, if at all.
func (c *patientConn) within(ends *atomic.Int64, at time.Time) time.Time {
	if at.IsZero() {
		ends.Store(0)
		return at
	}
	ends.Store(int64(c.clock.Now() + timing.IOTimeout))
	return time.Now().Add(timing.IOTimeout)
}
