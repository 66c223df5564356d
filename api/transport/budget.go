package transport

import (
	"net"
	"sync/atomic"

	"chronos/api/wire"
)

// budget is a shared number of bytes. A budget is safe for concurrent use.
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

// ReserveAnswer makes room for an answer of size bytes on c, a connection of a Server. The room is
// kept until the next request is read from c. The error is a wire.Problem.
func ReserveAnswer(c net.Conn, size int) error {
	if own, is := c.(*conn); is && !own.chargeAnswer(size) {
		own.server.metrics.refusedBody.Inc()
		return wire.Overloaded()
	}
	return nil
}

// chargeAnswer makes room for an answer of n bytes until the next Read, and reports whether the
// server's budget allows the answer. Answers are written in turn, so only the largest answer
// counts. Small answers are free.
func (c *conn) chargeAnswer(n int) bool {
	more := int64(n) - c.answer.Load()
	if n <= passedBody || more <= 0 {
		return true
	}
	if !c.server.budget.take(more) {
		return false
	}
	c.answer.Add(more)
	return true
}

// release gives the connection's share of the budget for one purpose back.
func (c *conn) release(charged *atomic.Int64) {
	if charged.Load() > 0 {
		c.server.budget.give(charged.Swap(0))
	}
}
