package webhook

import (
	"context"
	"errors"
	"net"
	"os"
	"syscall"
	"time"
)

// patience is how long an attempt lasts before the wire watches the context for cancellation. The
// deadline holds from the start. Nearly all receivers answer sooner, and watching costs a tenth of the
// whole attempt.
const patience = 50 * time.Millisecond

// wire is a network connection that keeps to the deadline and the context of its attempt. wire lies
// below TLS, so TLS does not see an expired patience. Only the attempt's goroutine uses a wire.
type wire struct {
	net.Conn
	stale func() bool // whether the peer has closed the connection, or sent something unasked

	// of the attempt
	ctx       context.Context // Read and Write have no parameter for ctx; nil between attempts
	deadline  time.Time
	unwatch   func() bool // nil while ctx is not watched
	sentBytes int64
}

func newWire(c net.Conn) *wire {
	w := &wire{Conn: c, stale: func() bool { return false }}
	if raw, ok := c.(syscall.Conn); ok {
		if rc, err := raw.SyscallConn(); err == nil {
			w.stale = staleFunc(rc)
		}
	}
	return w
}

// begin binds the wire to an attempt.
func (w *wire) begin(ctx context.Context, deadline time.Time) error {
	w.ctx, w.deadline, w.sentBytes = ctx, deadline, 0
	first := time.Now().Add(patience)
	if first.After(deadline) {
		first = deadline
	}
	return w.SetDeadline(first)
}

// end parts the wire from its attempt, and reports whether the attempt can no longer affect the wire.
func (w *wire) end() bool {
	clean := w.unwatch == nil || w.unwatch()
	w.ctx, w.unwatch = nil, nil
	return clean
}

func (w *wire) Read(p []byte) (int, error) {
	for {
		n, err := w.Conn.Read(p)
		if n > 0 || err == nil || !w.goOn(err) {
			return n, err
		}
	}
}

func (w *wire) Write(p []byte) (int, error) {
	written := 0
	for {
		n, err := w.Conn.Write(p[written:])
		written += n
		w.sentBytes += int64(n)
		if err == nil || !w.goOn(err) {
			return written, err
		}
	}
}

// goOn reports whether err only means that patience is over. From then on the wire watches the context,
// and has the attempt's deadline.
func (w *wire) goOn(err error) bool {
	if w.ctx == nil || w.unwatch != nil || !errors.Is(err, os.ErrDeadlineExceeded) ||
		w.ctx.Err() != nil || !time.Now().Before(w.deadline) || w.SetDeadline(w.deadline) != nil {
		return false
	}
	w.unwatch = context.AfterFunc(w.ctx, w.interrupt)
	return true
}

// interrupt ends a Read or Write under way, and all later calls. If the deadline can't be set, the wire
// is closed already.
func (w *wire) interrupt() { _ = w.SetDeadline(time.Unix(1, 0)) }
