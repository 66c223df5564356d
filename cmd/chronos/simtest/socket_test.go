package simtest

import (
	"errors"
	"syscall"
	"testing"
	"time"
)

// socket is the part of an end that go-redis looks at after a connection has waited in the pool. If the
// connection has ended, go-redis makes another connection.
type socket struct{ c *end }

var _ syscall.Conn = (*end)(nil)

// SyscallConn implements syscall.Conn.
func (c *end) SyscallConn() (syscall.RawConn, error) { return socket{c}, nil }

// Read implements syscall.RawConn: an ended connection fails. The simulation has no descriptor to look at.
func (s socket) Read(func(fd uintptr) (done bool)) error {
	s.c.l.mu.Lock()
	defer s.c.l.mu.Unlock()
	if h := s.c.in; h.end != nil && !h.endAt.After(time.Now()) {
		return s.c.fault("read", h.end)
	}
	return nil
}

// Write implements syscall.RawConn.
func (socket) Write(func(fd uintptr) (done bool)) error { return errors.ErrUnsupported }

// Control implements syscall.RawConn.
func (socket) Control(func(fd uintptr)) error { return errors.ErrUnsupported }

// TestABrokenConnectionIsNotUsedAgain: a connection that broke in the pool costs no call.
func TestABrokenConnectionIsNotUsedAgain(t *testing.T) {
	inBubble(t, "it was cut", func(t *testing.T) {
		p := newProbe(t, nil)
		_ = p.set(t, "key", "before")
		p.link.impose(Cut)()
		if err := p.set(t, "key", "after"); err != nil || p.link.dialed() != 2 {
			t.Errorf("set after the cut: %v, %d connections were made; want it done by a second one", err, p.link.dialed())
		}
	})
	inBubble(t, "it seems to be whole", func(t *testing.T) {
		p := newProbe(t, nil)
		_ = p.set(t, "key", "before")
		lift := p.link.impose(BlackHole)
		p.kill()
		p.restart()
		lift()
		wantError(t, "set on a connection whose end nobody was told of", p.set(t, "key", "lost"), "timeout")
	})
}
