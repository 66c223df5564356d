package simtest

import (
	"context"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"syscall"
	"time"

	"chronos/scheduler/awake"
)

// Condition is a fault of a link. A link may have several conditions, and one condition twice.
type Condition int

// The conditions of a link.
const (
	// Cut: connections break and lose the bytes on their way; connecting is refused.
	Cut Condition = iota
	// BlackHole: bytes vanish in both directions. Connecting hangs until the condition ends or the caller
	// gives up. A connection that lost bytes carries nothing any more, even when the link has healed. A
	// connection not used meanwhile goes on.
	BlackHole
	// Freeze: the node's end neither reads, writes nor connects until the condition ends or the deadline
	// passes. Bytes for the node wait. Bytes that the node wrote before arrive as always.
	Freeze
	// LoseAnswers: bytes written by the far side are lost, and the connection breaks.
	LoseAnswers
	// HangAnswers: bytes written by the far side are lost, and no bytes follow.
	HangAnswers
	conditions
)

// link is the network between a node and one shard or the receiver. A link is safe for concurrent use.
type link struct {
	node, target string
	accept       func(net.Conn) bool // takes the far end of a new connection; false if nobody listens
	trap         *trap               // hears the node's writes; may be nil

	mu      sync.Mutex
	have    [conditions]int
	slow    time.Duration // each way
	lags    []*lag        // on top of slow
	stalled time.Time     // until when nothing arrives
	conns   map[*end]bool
	dials   int
	lost    int           // answers
	changed chan struct{} // closed and replaced whenever a dial should look again
}

func newLink(node, target string, accept func(net.Conn) bool) *link {
	return &link{node: node, target: target, accept: accept, conns: make(map[*end]bool), changed: make(chan struct{})}
}

// lag delays each write in one direction of a link by base, and by up to jitter more.
type lag struct {
	toNode       bool
	base, jitter time.Duration
	r            *rand.Rand
}

// Callers of the next four methods hold mu.

func (l *link) has(c Condition) bool { return l.have[c] > 0 }

func (l *link) frozen() bool { return l.have[Freeze] > 0 }

// delay is the travel time of bytes written now, by the node or for the node.
func (l *link) delay(byNode bool) time.Duration {
	sum := l.slow
	for _, g := range l.lags {
		if g.toNode != byNode {
			sum += g.base + time.Duration(g.r.Int64N(int64(g.jitter)+1))
		}
	}
	return sum
}

// arrival is when bytes written now arrive.
func (l *link) arrival(byNode bool, now time.Time) time.Time {
	if now.Before(l.stalled) {
		now = l.stalled
	}
	return now.Add(l.delay(byNode))
}

// impose puts the link into a condition until the caller calls lift, once.
func (l *link) impose(c Condition) (lift func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.have[c]++
	if c == Cut {
		now := time.Now()
		for e := range l.conns {
			if e.near {
				e.reset(now)
			}
		}
	}
	l.wake()
	return sync.OnceFunc(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.have[c]--
		l.wake()
	})
}

// slowDown delays later writes by d in each direction until the caller calls lift, once. No later write
// overtakes an earlier write.
func (l *link) slowDown(d time.Duration) (lift func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.slow += d
	return sync.OnceFunc(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.slow -= d
	})
}

// lagBehind delays later writes in one direction until the caller calls lift, once. No later write overtakes
// an earlier write.
func (l *link) lagBehind(g *lag) (lift func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lags = append(l.lags, g)
	return sync.OnceFunc(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.lags = slices.DeleteFunc(l.lags, func(other *lag) bool { return other == g })
	})
}

// stall stops the link for d, like a hiccup of a network. Afterwards all bytes arrive in the order of the
// writes. Connecting waits.
func (l *link) stall(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	l.stalled = now.Add(d)
	for e := range l.conns {
		e.out.postpone(now, l.stalled)
	}
	l.wake()
}

func (l *link) wake() {
	close(l.changed)
	l.changed = make(chan struct{})
	for e := range l.conns {
		e.in.wake()
	}
}

// breakAll breaks all connections, as the end of the far side's process would. Through a black hole the node
// learns nothing of the break.
func (l *link) breakAll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	for e := range l.conns {
		switch {
		case e.near && l.has(BlackHole):
			e.die()
			e.out.finish(syscall.ECONNRESET, now)
		case e.near:
			e.reset(now)
		}
	}
}

// orphan closes the node's end of all connections of a process, as the kernel does after a kill: written
// bytes arrive, followed by the end of the connection.
func (l *link) orphan(p *process) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	for e := range l.conns {
		if e.near && e.owner == p && !e.closed {
			e.closeLocked(now)
		}
	}
	l.wake()
}

// dial connects for a process, and fails as the network would.
func (l *link) dial(ctx context.Context, p *process) (net.Conn, error) {
	l.mu.Lock()
	l.dials++
	now := time.Now()
	takes := l.arrival(true, now).Sub(now) + l.delay(false)
	l.mu.Unlock()
	if takes > 0 && !awake.Sleep(ctx, takes) {
		return nil, l.dialFault(ctx.Err())
	}
	for {
		conn, changed, err := l.tryDial(p)
		switch {
		case err != nil:
			return nil, l.dialFault(err)
		case conn != nil:
			return conn, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, l.dialFault(ctx.Err())
		}
	}
}

func (l *link) dialFault(err error) error {
	return &net.OpError{Op: "dial", Net: "memory", Addr: place{l, false}, Err: err}
}

// tryDial returns a connection, an error, or a channel to wait for.
func (l *link) tryDial(p *process) (net.Conn, <-chan struct{}, error) {
	l.mu.Lock()
	changed, hangs := l.changed, l.has(BlackHole) || l.frozen()
	l.mu.Unlock()
	if hangs && !p.killed() {
		return nil, changed, nil
	}
	conn, err := l.connect(p)
	return conn, nil, err
}

// connect makes a connection, unless the link was cut or the process was killed.
func (l *link) connect(p *process) (net.Conn, error) {
	near, far := l.newConn(p)
	l.mu.Lock()
	if l.has(Cut) || p.killed() {
		l.mu.Unlock()
		return nil, syscall.ECONNREFUSED
	}
	l.conns[near], l.conns[far] = true, true
	l.mu.Unlock()
	if !l.accept(far) {
		_ = near.Close()
		_ = far.Close()
		return nil, syscall.ECONNREFUSED
	}
	return near, nil
}
