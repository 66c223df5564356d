package transport

import (
	"bytes"
	"io"
	"net"
	"slices"
	"sync/atomic"
	"time"
)

// conn is a connection that its server knows of. A conn lets fasthttp read a request only as far as
// the request is well-formed (framing.go, chunks.go). If a large body follows, fasthttp gets the
// end of the headers only with the whole body: fasthttp sets aside memory for all bytes that a body
// announces. A single goroutine reads and writes a conn; any goroutine may close a conn.
type conn struct {
	net.Conn
	server *Server
	// linger is set and read by the goroutine that serves the connection.
	linger bool

	used    bool // some bytes of a request have arrived
	phase   phase
	head    head
	carry   []byte // the part of the current line of the head that has arrived and was handed over
	left    int64  // bytes of a body with a length that are still to come
	chunks  chunks
	held    []byte // handed over when the body is whole
	out     []byte // handed over first
	ahead   []byte // unread bytes behind a held body
	refusal error  // how reading ends once out is empty
	// cleared says that Config.Authorize has let pass the request that is being handed over.
	cleared bool
	prefix  string // of Config.Authorize, for the request whose body was held last

	fresh      bool   // no request has arrived whole yet; for the goroutine that reads
	countedFor client // the client that this fresh connection counts for; server.mu guards countedFor

	idle idleLink // of the server

	// Bytes of the server's budget.
	charged atomic.Int64 // for bodies
	answer  atomic.Int64 // for the largest answer since the last Read
}

// phase is the part of a request that arrives.
type phase int

const (
	phaseHead phase = iota
	phaseBody       // handed over as the body arrives
	phaseHeld       // with a length, kept until the body is whole
	phaseChunked
)

const (
	// passedBody is the largest body that is handed over as the body arrives.
	passedBody = 8 << 10
	// firstHeld is how much is set aside for a body before the first byte of the body.
	firstHeld = 4 << 10
	// heldSize begins a held chunked body, which is handed over as a single chunk.
	heldSize = "\n00000000\r\n"
	// heldEnd ends a held chunked body.
	heldEnd = "\r\n0\r\n\r\n"

	continueLine = "HTTP/1.1 100 Continue\r\n\r\n"
)

// Read hands over the bytes that fasthttp may see of the arrived requests. fasthttp calls Read only
// when all earlier answers have been written.
func (c *conn) Read(p []byte) (int, error) {
	c.release(&c.answer)
	for {
		c.cleared = len(c.out) > 0
		switch {
		case len(c.out) > 0:
			n := copy(p, c.out)
			c.out = c.out[n:]
			return n, nil
		case c.refusal != nil:
			return 0, c.refusal
		case c.phase == phaseHeld && len(c.ahead) == 0:
			if err := c.fill(); err != nil {
				return 0, err
			}
			continue
		case c.phase == phaseHead:
			c.out = nil
			c.release(&c.charged) // the request before has been answered
		}
		n, err := c.raw(p)
		if n == 0 && err != nil && c.between() {
			return 0, io.EOF // no request has begun, so none needs an answer
		}
		if n == 0 {
			return 0, err
		}
		if n = c.admit(p[:n]); n > 0 {
			return n, nil // an error of the connection comes again
		}
	}
}

// raw reads bytes that were not looked at yet.
func (c *conn) raw(p []byte) (int, error) {
	if len(c.ahead) > 0 {
		n := copy(p, c.ahead)
		if c.ahead = c.ahead[n:]; len(c.ahead) == 0 {
			c.ahead = nil
		}
		return n, nil
	}
	if c.phase == phaseChunked {
		if err := c.invite(); err != nil {
			return 0, err
		}
	}
	switch {
	case !c.used:
		return c.first(p)
	case c.between():
		return c.server.readIdle(c, p)
	}
	return c.Conn.Read(p)
}

// first reads for the first time. fasthttp would count a request's time from the beginning of the
// connection, but clients may open connections before they need them.
func (c *conn) first(p []byte) (int, error) {
	if err := c.SetReadDeadline(time.Now().Add(idleTimeout)); err != nil {
		return 0, err
	}
	n, err := c.server.readIdle(c, p)
	if c.used = n > 0; c.used && err == nil {
		err = c.SetReadDeadline(time.Now().Add(readTimeout))
	}
	return n, err
}

// between reports whether nothing of the next request has arrived.
func (c *conn) between() bool {
	return c.phase == phaseHead && c.head.size == 0 && len(c.carry) == 0
}

// admit looks at arrived bytes and returns how many bytes may be handed over at once. admit itself
// deals with the remaining bytes.
func (c *conn) admit(b []byte) int {
	handed := 0
	for at := 0; at < len(b) && c.refusal == nil; {
		switch c.phase {
		case phaseBody:
			n := min(c.left, int64(len(b)-at))
			if c.left -= n; c.left == 0 {
				c.begin()
			}
			at += int(n)
			handed = at
		case phaseHead:
			used, good := c.admitHead(b[at:])
			handed = at + good
			at += used
		default:
			at += c.admitHeld(b[at:])
			if c.phase == phaseHead { // the body is whole; bytes behind the body wait
				c.ahead = slices.Concat(b[at:], c.ahead)
				return handed
			}
		}
	}
	return handed
}

// admitHead takes a line of the head, or the beginning of a line, and says how much of b may be
// handed over. For a refused line fasthttp gets a byte that ends nothing: fasthttp answers only
// after seeing some byte of a request, while waiting for more.
func (c *conn) admitHead(b []byte) (used, good int) {
	used, good, err := c.takeLine(b)
	if err != nil {
		c.refusal, c.out = err, []byte{'?'}
		return len(b), 0
	}
	return used, good
}

// takeLine is admitHead for a line that is not refused. If a body has to follow, the end of the
// head is not handed over.
func (c *conn) takeLine(b []byte) (used, good int, err error) {
	if first := b[0]; c.between() && first != '\r' && (first < 'A' || first > 'Z') {
		return 0, 0, errMalformed
	}
	end := bytes.IndexByte(b, '\n')
	if end < 0 {
		if c.head.size+len(c.carry)+len(b) > readBuffer {
			return 0, 0, errHeaderTooLarge
		}
		c.carry = append(c.carry, b...)
		return len(b), len(b), nil
	}
	line := b[:end+1]
	if len(c.carry) > 0 {
		c.carry = append(c.carry, line...)
		line = c.carry
	}
	over, err := c.head.next(line, int64(c.server.limits.MaxBody))
	c.carry = c.carry[:0]
	if err != nil || !over {
		return end + 1, end + 1, err
	}
	held, err := c.receiveBody()
	if held {
		return end + 1, end, err
	}
	return end + 1, end + 1, err
}

// receiveBody goes on from the end of a head and reports whether the body is held. A body is held
// only if the request is authorized.
func (c *conn) receiveBody() (held bool, err error) {
	chunked := c.head.encodings > 0
	switch {
	case !chunked && c.head.length == 0:
		c.begin()
		return false, nil
	case !chunked && c.head.length <= passedBody && !c.head.expects:
		c.phase, c.left = phaseBody, c.head.length
		return false, nil
	}
	if c.prefix, err = c.server.authorize(c.head.method, c.head.onlyAuthorization()); err != nil {
		return false, err
	}
	if chunked {
		c.phase = phaseChunked
		c.chunks = chunks{line: c.chunks.line[:0]}
		c.hold(heldSize)
	} else {
		c.phase, c.left = phaseHeld, c.head.length
		c.hold("\n")
	}
	return true, nil
}

// begin prepares for the next request: the request before has arrived whole.
func (c *conn) begin() {
	c.arrived()
	c.phase = phaseHead
	c.head = head{method: c.head.method[:0], authorization: c.head.authorization[:0]}
}

// Write sends an answer. The conn itself tells clients to go on with a body, so Write drops
// fasthttp's 100 Continue.
func (c *conn) Write(p []byte) (int, error) {
	if len(p) == len(continueLine) && string(p) == continueLine {
		return len(p), nil
	}
	return c.Conn.Write(p)
}

// Close closes the connection, after a pause if the connection should linger.
func (c *conn) Close() error {
	c.release(&c.charged) // drained bytes are not kept
	c.release(&c.answer)
	if c.linger {
		drain(c.Conn)
	}
	c.server.remove(c)
	return c.Conn.Close()
}

// Cleared reports whether Config.Authorize has let pass the last request on c, a connection of a
// Server, and returns the prefix that Authorize has given the request.
func Cleared(c net.Conn) (prefix string, cleared bool) {
	own, is := c.(*conn)
	if !is || !own.cleared {
		return "", false
	}
	return own.prefix, true
}
