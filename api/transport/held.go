package transport

import (
	"encoding/binary"
	"encoding/hex"
	"io"
	"time"
)

// hold begins to keep bytes that are handed over once the body is whole.
func (c *conn) hold(start string) {
	c.held = nil
	if c.reserve(len(start)) {
		c.held = append(c.held, start...)
	}
}

// reserve makes room for n more held bytes. If the server's budget doesn't allow n bytes, the
// request is refused.
func (c *conn) reserve(n int) bool {
	need := len(c.held) + n
	if need <= cap(c.held) {
		return true
	}
	size := max(firstHeld, need, 2*cap(c.held))
	if c.phase == phaseHeld { // the body's end is known
		size = max(need, min(size, 1+int(c.head.length)))
	}
	more := int64(size - cap(c.held))
	if !c.server.budget.take(more) {
		c.refusal, c.held = errBodiesFull, nil
		return false
	}
	c.charged.Add(more)
	grown := make([]byte, len(c.held), size)
	copy(grown, c.held)
	c.held = grown
	return true
}

// fill reads a body with a length from the connection.
func (c *conn) fill() error {
	if err := c.invite(); err != nil {
		return err
	}
	if !c.reserve(1) {
		return c.refusal
	}
	room := c.held[len(c.held):cap(c.held)]
	n, err := c.Conn.Read(room[:min(int64(len(room)), c.left)])
	c.held = c.held[:len(c.held)+n]
	if c.left -= int64(n); c.left == 0 {
		c.whole()
		return nil
	}
	return err
}

// admitHeld takes bytes of a held body and returns the number of taken bytes.
func (c *conn) admitHeld(b []byte) int {
	c.head.expects = false // the client did not wait
	if c.phase == phaseHeld {
		n := int(min(c.left, int64(len(b))))
		if !c.keep(b[:n]) {
			return len(b)
		}
		if c.left -= int64(n); c.left == 0 {
			c.whole()
		}
		return n
	}
	n, data, err := c.chunks.next(b, int64(c.server.limits.MaxBody))
	switch {
	case err != nil:
		c.refusal, c.held = err, nil
	case len(data) > 0:
		c.keep(data)
	case c.chunks.part == chunkDone:
		if c.sealChunks() {
			c.whole()
		}
	}
	return n
}

func (c *conn) keep(data []byte) bool {
	if !c.reserve(len(data)) {
		return false
	}
	c.held = append(c.held, data...)
	return true
}

// sealChunks makes a single chunk of a body that came in several chunks.
func (c *conn) sealChunks() bool {
	if c.chunks.total == 0 {
		c.held = append(c.held[:0], "\n0\r\n\r\n"...)
		return true
	}
	var size [4]byte
	binary.BigEndian.PutUint32(size[:], uint32(c.chunks.total))
	hex.Encode(c.held[1:], size[:])
	return c.keep([]byte(heldEnd))
}

// whole hands over the held bytes.
func (c *conn) whole() {
	c.out, c.held = c.held, nil
	c.begin()
}

// invite tells a client to send the body if the client waits for 100 Continue. All earlier answers
// have been written by then, since fasthttp reads only after writing.
func (c *conn) invite() error {
	if !c.head.expects {
		return nil
	}
	c.head.expects = false
	if err := c.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return err
	}
	_, err := io.WriteString(c.Conn, continueLine)
	return err
}
