package webhook

import (
	"context"
	"errors"
	"net"
	"os"
	"syscall"
	"time"
)

// patience is how long an attempt lasts before its context is watched for
// cancellation; its deadline holds from the start. Nearly all receivers answer
// sooner, and watching costs a tenth of the whole attempt.
const patience = 50 * time.Millisecond

// wire is a network connection that keeps to the deadline and the context of
// the attempt it is used for. It lies below TLS, so that what it does about an
// expired patience is invisible there. An attempt's goroutine alone uses it.
type wire struct {
	net.Conn
	stale func() bool // whether the peer has closed it, or sent something unasked

	// of the attempt
	ctx       context.Context // Read and Write have no parameter for it; nil between attempts
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

// end parts the wire from its attempt and reports whether nothing of that can
// still have an effect on it.
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

// goOn reports whether err means only that patience is over. From then on the
// context is watched, and the deadline is the attempt's.
func (w *wire) goOn(err error) bool {
	if w.ctx == nil || w.unwatch != nil || !errors.Is(err, os.ErrDeadlineExceeded) ||
		w.ctx.Err() != nil || !time.Now().Before(w.deadline) || w.SetDeadline(w.deadline) != nil {
		return false
	}
	w.unwatch = context.AfterFunc(w.ctx, w.interrupt)
	return true
}

// interrupt ends a Read or Write under way and those to come; what it can't set
// is closed already.
func (w *wire) interrupt() { _ = w.SetDeadline(time.Unix(1, 0)) }
