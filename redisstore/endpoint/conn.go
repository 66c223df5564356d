package endpoint

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"os"
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
func patientDial(clock *awake.Clock, connect dial, secure *tls.Config) dial {
	if connect == nil {
		connect = networkDial()
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		raw, err := connect(ctx, network, address)
		if err != nil {
			return nil, err
		}
		conn := patient(raw, clock)
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
		return over, nil
	}
}

// patientConn is a connection whose reads and writes may take IOTimeout by a clock that stands still while the
// process does. An answer that lies in the socket when a stopped process goes on has come in time, even after the
// deadline. Deadlines that go-redis sets count for nothing: go-redis computes a deadline from a time that may be as
// old as the stop was long.
type patientConn struct {
	net.Conn
	clock         *awake.Clock
	reads, writes atomic.Int64 // end by the clock, ns; 0 for no end
}

// patientSocket is a patientConn that go-redis can look at before using the connection again.
type patientSocket struct {
	*patientConn
	syscall.Conn
}

func patient(raw net.Conn, clock *awake.Clock) net.Conn {
	conn := &patientConn{Conn: raw, clock: clock}
	if socket, is := raw.(syscall.Conn); is {
		return patientSocket{conn, socket}
	}
	return conn
}

func (c *patientConn) Read(b []byte) (n int, err error) {
	for {
		n, err = c.Conn.Read(b)
		if n > 0 || !c.goesOn(err, &c.reads, c.Conn.SetReadDeadline) {
			return n, err
		}
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
