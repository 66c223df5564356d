package transport

import (
	"net"
	"net/netip"
)

// A connection is fresh until its first request has arrived whole. A request may take 5 s. Without
// a bound, a client that begins requests and never ends them could hold all connections, again and
// again. A client may therefore have at most a quarter of all connections fresh. Other connections
// don't count, so a proxy may have all connections.

// freshShare is how many clients share the fresh connections at least.
const freshShare = 4

// client is where a connection comes from: an IPv4 address, or an IPv6 network of 64 bits, since a
// machine may use any address of its network. The zero value stands for an unknown client, whose
// connections are not counted.
type client struct{ netip.Prefix }

func clientOf(addr net.Addr) client {
	tcp, ok := addr.(*net.TCPAddr)
	if !ok || tcp == nil {
		return client{}
	}
	ip := tcp.AddrPort().Addr().Unmap()
	bits := ip.BitLen()
	if ip.Is6() && !ip.IsLinkLocalUnicast() { // all machines of a link have the same 64 bits there
		bits = 64
	}
	prefix, err := ip.WithZone("").Prefix(bits)
	if err != nil { // the address is missing
		return client{}
	}
	return client{prefix}
}

// crowded reports whether a client has as many fresh connections as allowed. The caller holds mu.
func (s *Server) crowded(by client) bool {
	return by.IsValid() && s.fresh[by] >= max(1, s.limits.MaxConnections/freshShare)
}

// countFresh counts c, which was just accepted. The caller holds mu.
func (s *Server) countFresh(c *conn, by client) {
	if by.IsValid() {
		c.fresh, c.countedFor = true, by
		s.fresh[by]++
	}
}

// uncountFresh stops counting c as fresh; uncountFresh may be called again. The caller holds mu.
func (s *Server) uncountFresh(c *conn) {
	by := c.countedFor
	if !by.IsValid() {
		return
	}
	c.countedFor = client{}
	if s.fresh[by]--; s.fresh[by] == 0 {
		delete(s.fresh, by)
	}
}

// arrived notes that a request on c has arrived whole.
func (c *conn) arrived() {
	if !c.fresh {
		return
	}
	c.fresh = false
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	c.server.uncountFresh(c)
}
