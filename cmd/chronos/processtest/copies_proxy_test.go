package processtest

import (
	"bytes"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// link is a TCP proxy between one node and one shard.
type link struct {
	listener net.Listener
	to       string

	late atomic.Int64 // ns by which answers come later

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
	delayed, end := l.delayed(from)
	l.carry(to, delayed)
	end()
	wg.Wait()
}

// slow has answers come so much later from now on. Nothing overtakes what came before.
func (l *link) slow(by time.Duration) { l.late.Store(int64(by)) }

// delayed is a connection to which what is written arrives as late as the link is slow.
// What is on its way when end is called is lost.
func (l *link) delayed(to net.Conn) (conn net.Conn, end func()) {
	type parcel struct {
		at    time.Time
		bytes []byte
	}
	parcels, over := make(chan parcel, 4096), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case p := <-parcels:
				select {
				case <-time.After(time.Until(p.at)):
				case <-over:
					return
				}
				if _, err := to.Write(p.bytes); err != nil {
					_ = to.Close()
				}
			case <-over:
				return
			}
		}
	})
	write := func(b []byte) (int, error) {
		select {
		case parcels <- parcel{time.Now().Add(time.Duration(l.late.Load())), bytes.Clone(b)}:
			return len(b), nil
		case <-over:
			return 0, net.ErrClosed
		}
	}
	return writer{to, write}, func() { close(over); wg.Wait() }
}

// writer is a connection whose Write is another.
type writer struct {
	net.Conn
	write func([]byte) (int, error)
}

func (w writer) Write(b []byte) (int, error) { return w.write(b) }

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
