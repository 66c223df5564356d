package simtest

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"time"
)

// part is the bytes of one write, on their way.
type part struct {
	at    time.Time // when the part arrives
	bytes []byte
}

// half is one direction of a connection: bytes on their way, and arrived bytes not read yet. The link's mutex
// guards a half.
type half struct {
	parts   []part
	last    time.Time     // when the latest part arrives: no part overtakes an earlier part
	end     error         // the result of reading after the parts; nil while open
	endAt   time.Time     // when the end arrives
	changed chan struct{} // closed when whoever waits here should look again; nil without a waiter
}

func (h *half) wait(until time.Time) *hold {
	if h.changed == nil {
		h.changed = make(chan struct{})
	}
	return &hold{changed: h.changed, until: until}
}

func (h *half) wake() {
	if h.changed != nil {
		close(h.changed)
		h.changed = nil
	}
}

// finish ends reading with err, after all bytes that arrive until at.
func (h *half) finish(err error, at time.Time) {
	if h.end == nil {
		h.end, h.endAt = err, at
	}
	h.wake()
}

// broken reports whether the connection was broken, and the news has arrived at this end.
func (h *half) broken(now time.Time) bool {
	return h.end != nil && !errors.Is(h.end, io.EOF) && !h.endAt.After(now)
}

// drop forgets the parts that haven't arrived by now.
func (h *half) drop(now time.Time) {
	for i, p := range h.parts {
		if p.at.After(now) {
			h.parts = h.parts[:i]
			return
		}
	}
}

// postpone delays the parts and the end that have not arrived by now, until the given instant at least.
func (h *half) postpone(now, until time.Time) {
	later := func(at *time.Time) {
		if at.After(now) && at.Before(until) {
			*at = until
		}
	}
	for i := range h.parts {
		later(&h.parts[i].at)
	}
	later(&h.last)
	later(&h.endAt)
}

// end is one end of a connection over a link. An end is a net.Conn whose buffers have no bounds, so only
// writes of a frozen end block. All waiting of an end is durable in a bubble.
type end struct {
	l       *link
	near    bool // the node's end
	owner   *process
	in, out *half
	peer    *end

	// guarded by l.mu
	closed        bool
	dead          bool // bytes of this connection vanished, and later bytes vanish too
	readBy, wrote time.Time
}

var _ net.Conn = (*end)(nil)

// newConn makes the two ends of a connection.
func (l *link) newConn(owner *process) (near, far *end) {
	out, in := &half{}, &half{}
	near = &end{l: l, near: true, owner: owner, in: in, out: out}
	far = &end{l: l, owner: owner, in: out, out: in, peer: near}
	near.peer = far
	return near, far
}

// Read implements net.Conn.
func (c *end) Read(p []byte) (int, error) {
	for {
		n, again, err := c.tryRead(p)
		if again == nil {
			return n, err
		}
		again.wait()
	}
}

// hold says when to look again: after changed, and at the instant until unless the instant is zero.
type hold struct {
	changed <-chan struct{}
	until   time.Time
}

func (h *hold) wait() {
	if h.until.IsZero() {
		<-h.changed
		return
	}
	timer := time.NewTimer(time.Until(h.until))
	defer timer.Stop()
	select {
	case <-h.changed:
	case <-timer.C:
	}
}

// tryRead reads the arrived bytes. Without arrived bytes, again says when to look again.
func (c *end) tryRead(p []byte) (n int, again *hold, err error) {
	c.l.mu.Lock()
	defer c.l.mu.Unlock()
	now := time.Now()
	switch {
	case c.closed:
		return 0, nil, c.fault("read", net.ErrClosed)
	case passed(c.readBy, now):
		return 0, nil, c.fault("read", os.ErrDeadlineExceeded)
	case len(p) == 0:
		return 0, nil, nil
	}
	if c.near && c.l.frozen() {
		return 0, c.in.wait(c.readBy), nil
	}
	h := c.in
	for len(h.parts) > 0 && n < len(p) && !h.parts[0].at.After(now) {
		first := &h.parts[0]
		taken := copy(p[n:], first.bytes)
		n += taken
		if first.bytes = first.bytes[taken:]; len(first.bytes) == 0 {
			h.parts = h.parts[1:]
		}
	}
	switch {
	case n > 0:
		return n, nil, nil
	case len(h.parts) > 0:
		return 0, h.wait(sooner(c.readBy, h.parts[0].at)), nil
	case h.end != nil && !h.endAt.After(now):
		return 0, nil, c.fault("read", h.end)
	case h.end != nil:
		return 0, h.wait(sooner(c.readBy, h.endAt)), nil
	}
	return 0, h.wait(c.readBy), nil
}

func passed(deadline, now time.Time) bool { return !deadline.IsZero() && !now.Before(deadline) }

func sooner(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}

// Write implements net.Conn.
func (c *end) Write(p []byte) (int, error) {
	for {
		n, again, err := c.tryWrite(p)
		if again == nil {
			return n, err
		}
		again.wait()
	}
}

// tryWrite writes all of p. If writing is not allowed yet, again says when to look again.
func (c *end) tryWrite(p []byte) (n int, again *hold, err error) {
	c.l.mu.Lock()
	defer c.l.mu.Unlock()
	now := time.Now()
	switch {
	case c.closed:
		return 0, nil, c.fault("write", net.ErrClosed)
	case passed(c.wrote, now):
		return 0, nil, c.fault("write", os.ErrDeadlineExceeded)
	case c.near && c.owner.killed():
		return 0, nil, c.fault("write", syscall.EPIPE)
	case c.near && c.l.frozen():
		return 0, c.in.wait(c.wrote), nil
	case c.dead:
		return len(p), nil, nil
	case c.in.broken(now), c.peer.closed:
		return 0, nil, c.fault("write", syscall.EPIPE)
	case c.l.has(BlackHole):
		c.die()
		return len(p), nil, nil
	case !c.near && c.l.has(LoseAnswers):
		c.l.lost++
		c.reset(now)
		return len(p), nil, nil
	case !c.near && c.l.has(HangAnswers):
		c.l.lost++
		c.die()
		return len(p), nil, nil
	}
	at := c.l.arrival(c.near, now)
	if at.Before(c.out.last) {
		at = c.out.last
	}
	c.out.last = at
	c.out.parts = append(c.out.parts, part{at: at, bytes: append([]byte(nil), p...)})
	c.out.wake()
	if c.near {
		c.l.trap.hear(c.owner, p)
	}
	return len(p), nil, nil
}

// die makes all bytes of the connection vanish, now and later.
func (c *end) die() { c.dead, c.peer.dead = true, true }

// reset breaks the connection. Arrived bytes can still be read.
func (c *end) reset(now time.Time) {
	for _, h := range []*half{c.in, c.out} {
		h.drop(now)
		h.finish(syscall.ECONNRESET, now)
	}
}

// Close implements net.Conn. Written bytes still arrive; then the far end reads the end. If the connection's
// bytes vanish, the far end hears of a close by the node at once, since nothing else would end the far end.
func (c *end) Close() error {
	c.l.mu.Lock()
	defer c.l.mu.Unlock()
	if c.closed {
		return c.fault("close", net.ErrClosed)
	}
	c.closeLocked(time.Now())
	return nil
}

func (c *end) closeLocked(now time.Time) {
	c.closed = true
	c.in.wake()
	switch {
	case c.dead && c.near:
		c.out.finish(syscall.ECONNRESET, now)
	case c.dead:
	default:
		at := c.l.arrival(c.near, now)
		if at.Before(c.out.last) {
			at = c.out.last
		}
		c.out.finish(io.EOF, at)
	}
	if c.peer.closed {
		delete(c.l.conns, c)
		delete(c.l.conns, c.peer)
	}
}

// SetDeadline implements net.Conn.
func (c *end) SetDeadline(t time.Time) error { return c.setDeadline(t, t, true, true) }

// SetReadDeadline implements net.Conn.
func (c *end) SetReadDeadline(t time.Time) error { return c.setDeadline(t, time.Time{}, true, false) }

// SetWriteDeadline implements net.Conn.
func (c *end) SetWriteDeadline(t time.Time) error { return c.setDeadline(time.Time{}, t, false, true) }

func (c *end) setDeadline(read, write time.Time, setRead, setWrite bool) error {
	c.l.mu.Lock()
	defer c.l.mu.Unlock()
	if c.closed {
		return c.fault("set deadline", net.ErrClosed)
	}
	if setRead {
		c.readBy = read
	}
	if setWrite {
		c.wrote = write
	}
	c.in.wake()
	return nil
}

// LocalAddr implements net.Conn.
func (c *end) LocalAddr() net.Addr { return place{c.l, c.near} }

// RemoteAddr implements net.Conn.
func (c *end) RemoteAddr() net.Addr { return place{c.l, !c.near} }

// place is an end of a link. A place has no IP address.
type place struct {
	l    *link
	near bool
}

func (place) Network() string { return "memory" }

func (p place) String() string {
	if p.near {
		return p.l.node
	}
	return p.l.target
}

// fault wraps err like an error of the network; the end of the bytes is io.EOF itself.
func (c *end) fault(op string, err error) error {
	if err == io.EOF { //nolint:errorlint // never wrapped
		return io.EOF
	}
	return &net.OpError{Op: op, Net: "memory", Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: err}
}
