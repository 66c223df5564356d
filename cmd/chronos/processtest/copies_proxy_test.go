package processtest

import (
	"bytes"
	"net"
	"sync"
	"testing"
	"time"
)

// link is a TCP proxy between a node and a shard.
type link struct {
	listener net.Listener
	to       string

	requests, answers way

	mu    sync.Mutex
	state linkState
	conns map[net.Conn]bool // both ends of all connections
	ended bool
}

type linkState int

const (
	linkUp   linkState = iota
	linkCut            // old and new connections are closed
	linkHole           // connections stay, and their bytes go nowhere
)

// way is a direction of a link. The zero value carries bytes at once.
type way struct {
	mu    sync.Mutex
	delay time.Duration
	gate  chan struct{} // bytes wait until the gate is closed; nil while nothing waits
}

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
		l.goOn()
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

// serve carries bytes both ways until an end is closed.
func (l *link) serve(from net.Conn) {
	defer l.forget(from)
	if !l.remember(from) {
		return
	}
	to, err := new(net.Dialer).Dial("tcp", l.to)
	if err != nil {
		return // the shard is down, and the node sees the closed connection
	}
	defer l.forget(to)
	if !l.remember(to) {
		return
	}
	var wg sync.WaitGroup
	wg.Go(func() { l.carry(&l.requests, from, to) })
	l.carry(&l.answers, to, from)
	wg.Wait()
}

// slow makes requests and answers take so much longer from now on. No byte overtakes an
// earlier byte.
func (l *link) slow(requests, answers time.Duration) {
	l.requests.slow(requests)
	l.answers.slow(answers)
}

// standStill holds all bytes back, both ways, until goOn.
func (l *link) standStill() {
	l.requests.standStill()
	l.answers.standStill()
}

func (l *link) goOn() {
	l.requests.goOn()
	l.answers.goOn()
}

func (w *way) slow(by time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.delay = by
}

func (w *way) standStill() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.gate == nil {
		w.gate = make(chan struct{})
	}
}

func (w *way) goOn() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.gate != nil {
		close(w.gate)
		w.gate = nil
	}
}

func (w *way) is() (delay time.Duration, gate chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.delay, w.gate
}

// parcel is bytes that leave a link at the instant at, or later.
type parcel struct {
	bytes []byte
	at    time.Time
}

// carry ends when either end is closed. Then carry closes both ends, so that the opposite
// direction ends, too.
func (l *link) carry(w *way, from, to net.Conn) {
	defer func() { _ = to.Close() }()
	parcels := make(chan parcel, 4096)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer close(parcels)
	wg.Go(func() {
		defer from.Close() //nolint:errcheck // the connection is over
		for p := range parcels {
			time.Sleep(time.Until(p.at))
			if _, gate := w.is(); gate != nil {
				<-gate
			}
			if _, err := to.Write(p.bytes); err != nil {
				break
			}
		}
		for range parcels { // the rest has nowhere to go
		}
	})
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 && l.is() != linkHole {
			delay, _ := w.is()
			parcels <- parcel{bytes.Clone(buf[:n]), time.Now().Add(delay)}
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

// set changes the state of the link. The end of a hole closes the connections: bytes are
// missing in the streams.
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
