package transport

import "net"

// idleLink is a place in the ring of idle connections; the connection that has been idle longest
// comes first. Server.mu guards the ring; the zero value is in no ring.
type idleLink struct {
	previous, next *idleLink
	conn           *conn // nil at the ring's beginning
}

// leave takes l out of its ring, and reports whether l was in a ring.
func (l *idleLink) leave() bool {
	if l.next == nil {
		return false
	}
	l.previous.next, l.next.previous = l.next, l.previous
	l.previous, l.next = nil, nil
	return true
}

// readIdle waits for the first bytes of a request. Meanwhile c may be closed to make room for
// another connection. Bytes that arrive during the close are not looked at.
func (s *Server) readIdle(c *conn, p []byte) (int, error) {
	s.mu.Lock()
	c.idle.previous, c.idle.next, c.idle.conn = s.idle.previous, &s.idle, c
	c.idle.previous.next, s.idle.previous = &c.idle, &c.idle
	s.mu.Unlock()
	n, err := c.Conn.Read(p)
	s.mu.Lock()
	still := c.idle.leave()
	s.mu.Unlock()
	if !still {
		return 0, net.ErrClosed
	}
	return n, err
}

// makeRoom closes the connection that has been idle longest, and reports whether any connection was
// idle. The caller holds mu.
func (s *Server) makeRoom() bool {
	longest := s.idle.next.conn
	if longest == nil {
		return false
	}
	longest.idle.leave()
	delete(s.open, longest)
	s.uncountFresh(longest)
	_ = longest.Conn.Close() // nobody is left to tell
	s.metrics.closedIdle.Inc()
	return true
}
