package webhooktest

import (
	"context"
	"errors"
	"net"
	"sync"
)

// Memory is a listener without a network, for tests in a testing/synctest bubble, where a wait for a
// real connection would stop the clock:
//
//	memory := webhooktest.NewMemory()
//	receiver := webhooktest.Serve(t, memory)
//	client := webhook.New(webhook.Config{Dial: memory.Dial})
//
// The connections hold no bytes: a write waits until the other side reads. Memory is safe for
// concurrent use. Close ends Accept and Dial, but not the connections.
type Memory struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

var errRefused = errors.New("connection refused")

// NewMemory makes a Memory.
func NewMemory() *Memory {
	return &Memory{conns: make(chan net.Conn), done: make(chan struct{})}
}

// Dial connects to the listener, whatever the address. Dial blocks until Accept takes the connection,
// Close, or the end of ctx.
func (m *Memory) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case m.conns <- theirs:
		return ours, nil
	case <-m.done:
		return nil, errRefused
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept implements net.Listener.
func (m *Memory) Accept() (net.Conn, error) {
	select {
	case c := <-m.conns:
		return c, nil
	case <-m.done:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener. Close may be called again.
func (m *Memory) Close() error {
	m.once.Do(func() { close(m.done) })
	return nil
}

// Addr implements net.Listener: a name for URLs.
func (*Memory) Addr() net.Addr { return memoryAddr{} }

type memoryAddr struct{}

func (memoryAddr) Network() string { return "memory" }

func (memoryAddr) String() string { return "memory.test:80" }
