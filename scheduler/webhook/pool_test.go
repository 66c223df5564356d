package webhook

import (
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// idleConn is a connection to destination, with a function that reports whether the connection was
// closed.
func idleConn(destination string) (*conn, func() bool) {
	ours, theirs := net.Pipe()
	w := newWire(ours)
	return &conn{wire: w, stream: w, destination: destination}, func() bool {
		_ = theirs.SetReadDeadline(time.Now().Add(time.Millisecond))
		_, err := theirs.Read(make([]byte, 1))
		return err.Error() == "EOF"
	}
}

func TestPoolTakesTheLastUsed(t *testing.T) {
	p := newPool(10, time.Minute)
	defer p.close()
	first, _ := idleConn("a")
	second, _ := idleConn("a")
	other, _ := idleConn("b")
	for _, c := range []*conn{first, second, other} {
		p.put(c)
	}
	for i, want := range []*conn{second, first, nil} {
		if got := p.take("a"); got != want {
			t.Errorf("take %d: another connection", i+1)
		}
	}
	if p.take("b") != other || p.take("b") != nil || len(p.idle) != 0 || p.oldest.Len() != 0 {
		t.Error("something is left")
	}
}

func TestPoolIsBounded(t *testing.T) {
	p := newPool(3, time.Minute)
	defer p.close()
	var closed []func() bool
	for _, destination := range []string{"a", "b", "a", "c", "a"} {
		c, isClosed := idleConn(destination)
		closed = append(closed, isClosed)
		p.put(c)
	}
	for i, isClosed := range closed {
		if isClosed() != (i < 2) {
			t.Errorf("connection %d of 5, where 3 may stay: closed is %v", i+1, i >= 2)
		}
	}
	if len(p.idle["a"]) != 2 || len(p.idle["b"]) != 0 || len(p.idle["c"]) != 1 || p.oldest.Len() != 3 {
		t.Errorf("left: %v", p.idle)
	}
}

func TestPoolForgetsWhatIsIdleTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(10, 30*time.Second)
		defer p.close()
		old, oldClosed := idleConn("a")
		young, youngClosed := idleConn("a")
		used, usedClosed := idleConn("b")
		p.put(old)
		p.put(used)
		time.Sleep(20 * time.Second)
		p.put(young)
		p.put(p.take("b"))
		time.Sleep(10*time.Second + time.Millisecond)
		if !oldClosed() || youngClosed() || usedClosed() {
			t.Error("after 30 s not just the oldest is closed")
		}
		time.Sleep(20 * time.Second)
		if !youngClosed() || !usedClosed() || len(p.idle) != 0 {
			t.Error("after 50 s something is left")
		}
		again, againClosed := idleConn("a")
		p.put(again)
		time.Sleep(30*time.Second + time.Millisecond)
		if !againClosed() {
			t.Error("the clock doesn't start again")
		}
	})
}

func TestClosedPoolKeepsNothing(t *testing.T) {
	p := newPool(10, time.Minute)
	before, beforeClosed := idleConn("a")
	after, afterClosed := idleConn("a")
	p.put(before)
	p.close()
	p.put(after)
	p.close()
	if !beforeClosed() || !afterClosed() || p.take("a") != nil {
		t.Error("a closed pool keeps connections")
	}
}
