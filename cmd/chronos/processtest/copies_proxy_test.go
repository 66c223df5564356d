package processtest

import (
	"net"
	"sync"
	"testing"
)

// link is a TCP proxy between one node and one shard.
type link struct {
	listener net.Listener
	to       string

	mu    sync.Mutex
	state linkState
	conns map[net.Conn]bool // both ends of all connections
	ended bool
}

type linkState int

const (
	linkUp   linkState = iota
	linkCut            // connections are closed, and so is each new one
	linkHole           // connections stay, and what is sent in them goes nowhere
)

func newLink(t *testing.T, to string) *link {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &link{listener: listener, to: to, conns: make(map[net.Conn]bool)}
	var wg sync.WaitGroup
	wg.Go(func() { l.accept(&wg) })
	t.Cleanup(func() {
		_ = listener.Close()
		l.mu.Lock()
		l.ended = true
		l.mu.Unlock()
		l.drop()
		wg.Wait()
	})
	return l
}

func (l *link) accept(wg *sync.WaitGroup) {
	for {
		from, err := l.listener.Accept()
		if err != nil {
			return
		}
		wg.Go(func() { l.serve(from) })
	}
}

// serve carries bytes both ways until one end is closed.
func (l *link) serve(from net.Conn) {
	defer l.forget(from)
	if !l.remember(from) {
		return
	}
	to, err := new(net.Dialer).Dial("tcp", l.to)
	if err != nil {
		return // the shard is down, and the node sees that
	}
	defer l.forget(to)
	if !l.remember(to) {
		return
	}
	var wg sync.WaitGroup
	wg.Go(func() { l.carry(from, to) })
	l.carry(to, from)
	wg.Wait()
}

// carry ends with closing both, so that the other direction ends too.
func (l *link) carry(from, to net.Conn) {
	defer func() { _, _ = from.Close(), to.Close() }()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 && l.is() != linkHole {
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func (l *link) is() linkState {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state
}

func (l *link) remember(c net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended || l.state == linkCut {
		return false
	}
	l.conns[c] = true
	return true
}

func (l *link) forget(c net.Conn) {
	_ = c.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, c)
}

// set makes the link what it is from now on. What went through a hole is out of
// step, so those connections end with it.
func (l *link) set(state linkState) {
	l.mu.Lock()
	was := l.state
	l.state = state
	l.mu.Unlock()
	if state == linkCut || was == linkHole {
		l.drop()
	}
}

func (l *link) drop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.conns {
		_ = c.Close()
	}
}

func (l *link) url() string { return "redis://" + l.listener.Addr().String() + "/0" }
