package simtest

import (
	"hash/fnv"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"chronos/scheduler/webhook/webhooktest"
)

// listener hands connections over links to the receiver's server.
type listener struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newListener() *listener {
	return &listener{conns: make(chan net.Conn, 1024), done: make(chan struct{})}
}

// accept takes the far end of a connection.
func (l *listener) accept(conn net.Conn) bool {
	select {
	case <-l.done:
		return false
	default:
	}
	select {
	case l.conns <- conn:
		return true
	default:
		return false
	}
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *listener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

// Addr implements net.Listener.
func (*listener) Addr() net.Addr { return receiverAddr{} }

type receiverAddr struct{}

func (receiverAddr) Network() string { return "memory" }
func (receiverAddr) String() string  { return "receiver.test:80" }

// The receiver's endpoints, by the first label of the host: each endpoint is a destination of its own. The
// last part of the path is unique to a write.
const (
	promptly = "prompt" // 200 at once
	slowly   = "slow"   // 200 after 0 to 1.9 s
	flakily  = "flaky"  // 500 at the first one to four attempts at a pop, then 200
	hanging  = "hang"   // no answer at the first one or two attempts at a pop, then 200
	never    = "never"  // 500 always
	gone     = "gone"   // 410 always
	atLength = "last"   // 200 after 0 to 9.5 s, for timers that ask for so much time
)

// urlOf is the URL of a write. The endpoint is the host and the first part of the path; the receiver looks at
// the path.
func urlOf(endpoint, unique string) string { return urlAt("/" + endpoint + "/" + unique) }

// urlAt is the URL of a called path.
func urlAt(path string) string {
	endpoint, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	return "http://" + endpoint + ".test" + path
}

// answerTo chooses the answer to a call, by the call and the seed alone.
func answerTo(seed uint64, call webhooktest.Call) webhooktest.Answer {
	endpoint, rest, _ := strings.Cut(strings.TrimPrefix(call.Target, "/"), "/")
	draw := fnv.New64a()
	_, _ = draw.Write([]byte(strconv.FormatUint(seed, 10) + rest + "." + strconv.Itoa(call.Seq)))
	perPop := draw.Sum64() >> 8
	switch endpoint {
	case slowly:
		return webhooktest.Answer{Delay: time.Duration(perPop%1901) * time.Millisecond}
	case atLength:
		return webhooktest.Answer{Delay: time.Duration(perPop%9501) * time.Millisecond}
	case flakily:
		if call.Attempt <= 1+int(perPop%4) {
			return webhooktest.Answer{Status: 500}
		}
	case hanging:
		if call.Attempt <= 1+int(perPop%2) {
			return webhooktest.Answer{Hang: true}
		}
	case never:
		return webhooktest.Answer{Status: 500}
	case gone:
		return webhooktest.Answer{Status: 410}
	}
	return webhooktest.Answer{}
}
