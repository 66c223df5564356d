package simtest

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// inBubble runs a test in a bubble.
func inBubble(t *testing.T, name string, test func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}

// echo is a far side that answers with the received bytes, and sends the bytes to heard.
type echo struct{ heard chan string }

func newEcho() *echo { return &echo{heard: make(chan string, 100)} }

func (e *echo) accept(conn net.Conn) bool {
	go func() {
		defer conn.Close() //nolint:errcheck // nothing to be done
		buf := make([]byte, 100)
		for {
			n, err := conn.Read(buf)
			if err != nil {
				return
			}
			e.heard <- string(buf[:n])
			_, _ = conn.Write(buf[:n])
		}
	}()
	return true
}

func (e *echo) wantHeard(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	var got []string
	for len(e.heard) > 0 {
		got = append(got, <-e.heard)
	}
	if len(got) != len(want) {
		t.Fatalf("the far side heard %q, want %q", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("the far side heard %q, want %q", got, want)
		}
	}
}

func mustDial(t *testing.T, l *link) net.Conn {
	t.Helper()
	conn, err := l.dial(t.Context(), nil)
	if err != nil {
		t.Fatalf("dial: %v", err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// say sends text with a deadline of 500 ms, and returns the answer and the time that the answer took.
func say(conn net.Conn, text string) (answer string, took time.Duration, err error) {
	begun := time.Now()
	_ = conn.SetDeadline(begun.Add(500 * time.Millisecond))
	if _, err = conn.Write([]byte(text)); err == nil {
		buf := make([]byte, 100)
		var n int
		n, err = conn.Read(buf)
		answer = string(buf[:n])
	}
	return answer, time.Since(begun), err
}

func wantSay(t *testing.T, conn net.Conn, text string, want error, after time.Duration) {
	t.Helper()
	answer, took, err := say(conn, text)
	if !errors.Is(err, want) || took != after || want == nil && answer != text {
		t.Errorf("said %q: %q, %v after %v; want %v after %v", text, answer, err, took, want, after)
	}
}

func wantDial(t *testing.T, l *link, want error, after time.Duration) {
	t.Helper()
	begun := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	conn, err := l.dial(ctx, nil)
	if !errors.Is(err, want) || time.Since(begun) != after {
		t.Errorf("dialed: %v after %v, want %v after %v", err, time.Since(begun), want, after)
	}
	if conn != nil {
		_ = conn.Close()
	}
}

const (
	connects = 300 * time.Millisecond // a dial that hangs
	answers  = 500 * time.Millisecond // a conversation that hangs
)

func TestLink(t *testing.T) {
	inBubble(t, "up", func(t *testing.T) {
		e := newEcho()
		l := newLink("n", "s", e.accept)
		wantDial(t, l, nil, 0)
		conn := mustDial(t, l)
		wantSay(t, conn, "hello", nil, 0)
		wantSay(t, conn, "again", nil, 0)
		e.wantHeard(t, "hello", "again")
	})
	inBubble(t, "slow", func(t *testing.T) {
		e := newEcho()
		l := newLink("n", "s", e.accept)
		conn := mustDial(t, l)
		lift := l.slowDown(100 * time.Millisecond)
		wantDial(t, l, nil, 200*time.Millisecond)
		wantSay(t, conn, "hello", nil, 200*time.Millisecond)
		lift()
		wantSay(t, conn, "again", nil, 0)
	})
	inBubble(t, "slower than the deadline", func(t *testing.T) {
		e := newEcho()
		l := newLink("n", "s", e.accept)
		conn := mustDial(t, l)
		lift := l.slowDown(400 * time.Millisecond)
		wantDial(t, l, context.DeadlineExceeded, connects)
		wantSay(t, conn, "late", os.ErrDeadlineExceeded, answers)
		lift()
		e.wantHeard(t, "late")
		// The next answer doesn't overtake the late answer.
		if answer, took, err := say(conn, "next"); answer != "latenext" || err != nil || took != 300*time.Millisecond {
			t.Errorf("%q, %v after %v", answer, err, took)
		}
	})
	inBubble(t, "cut", func(t *testing.T) {
		e := newEcho()
		l := newLink("n", "s", e.accept)
		conn := mustDial(t, l)
		time.AfterFunc(200*time.Millisecond, func() {
			lift := l.impose(Cut)
			time.AfterFunc(time.Second, lift)
		})
		begun := time.Now()
		_ = conn.SetDeadline(begun.Add(500 * time.Millisecond))
		_, err := conn.Read(make([]byte, 1))
		if !errors.Is(err, syscall.ECONNRESET) || time.Since(begun) != 200*time.Millisecond {
			t.Errorf("read: %v after %v, want a broken connection at the cut", err, time.Since(begun))
		}
		if _, err := conn.Write([]byte("x")); !errors.Is(err, syscall.EPIPE) {
			t.Errorf("write: %v, want EPIPE", err)
		}
		wantDial(t, l, syscall.ECONNREFUSED, 0)
		time.Sleep(1001 * time.Millisecond)
		wantDial(t, l, nil, 0)
		e.wantHeard(t)
	})
	inBubble(t, "cut drops what is on its way, not what arrived", func(t *testing.T) {
		var far net.Conn
		l := newLink("n", "s", func(conn net.Conn) bool { far = conn; return true })
		conn := mustDial(t, l)
		defer far.Close() //nolint:errcheck // nothing to be done
		_, _ = conn.Write([]byte("arrived"))
		lift := l.slowDown(time.Second)
		_, _ = conn.Write([]byte("on its way"))
		l.impose(Cut)()
		lift()
		got, err := io.ReadAll(far)
		if string(got) != "arrived" || !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("read %q, %v", got, err)
		}
	})
}

func TestBlackHole(t *testing.T) {
	inBubble(t, "bytes vanish and connecting hangs", func(t *testing.T) {
		e := newEcho()
		l := newLink("n", "s", e.accept)
		used, unused := mustDial(t, l), mustDial(t, l)
		lift := l.impose(BlackHole)
		wantSay(t, used, "vanishes", os.ErrDeadlineExceeded, answers)
		wantDial(t, l, context.DeadlineExceeded, connects)
		lift()
		wantSay(t, used, "vanishes too", os.ErrDeadlineExceeded, answers)
		wantSay(t, unused, "arrives", nil, 0)
		wantDial(t, l, nil, 0)
		e.wantHeard(t, "arrives")
	})
	inBubble(t, "connecting goes on when it is over", func(t *testing.T) {
		l := newLink("n", "s", newEcho().accept)
		lift := l.impose(BlackHole)
		time.AfterFunc(100*time.Millisecond, lift)
		wantDial(t, l, nil, 100*time.Millisecond)
	})
}

func TestFreeze(t *testing.T) {
	inBubble(t, "nothing is written until it is over", func(t *testing.T) {
		e := newEcho()
		l := newLink("n", "s", e.accept)
		conn := mustDial(t, l)
		time.AfterFunc(200*time.Millisecond, l.impose(Freeze))
		wantSay(t, conn, "hello", nil, 200*time.Millisecond)
		e.wantHeard(t, "hello")
	})
	inBubble(t, "nothing is written after the deadline", func(t *testing.T) {
		e := newEcho()
		l := newLink("n", "s", e.accept)
		conn := mustDial(t, l)
		lift := l.impose(Freeze)
		wantSay(t, conn, "hello", os.ErrDeadlineExceeded, answers)
		wantDial(t, l, context.DeadlineExceeded, connects)
		lift()
		e.wantHeard(t)
	})
	inBubble(t, "what was written arrives, and the answer waits", func(t *testing.T) {
		e := newEcho()
		l := newLink("n", "s", e.accept)
		conn := mustDial(t, l)
		slow := l.slowDown(50 * time.Millisecond)
		_, _ = conn.Write([]byte("hello"))
		lift := l.impose(Freeze)
		time.AfterFunc(300*time.Millisecond, lift)
		time.Sleep(60 * time.Millisecond)
		e.wantHeard(t, "hello")
		begun := time.Now()
		if _, err := conn.Read(make([]byte, 5)); err != nil || time.Since(begun) != 240*time.Millisecond {
			t.Errorf("read: %v after %v", err, time.Since(begun))
		}
		slow()
	})
}

func TestLostAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		condition Condition
		want      error
		after     time.Duration
	}{
		"connection breaks": {LoseAnswers, syscall.ECONNRESET, 0}, "connection hangs": {HangAnswers, os.ErrDeadlineExceeded, answers},
	} {
		inBubble(t, name, func(t *testing.T) {
			e := newEcho()
			l := newLink("n", "s", e.accept)
			conn := mustDial(t, l)
			lift := l.impose(c.condition)
			wantSay(t, conn, "heard", c.want, c.after)
			e.wantHeard(t, "heard")
			wantDial(t, l, nil, 0)
			lift()
			if _, _, err := say(conn, "again"); err == nil {
				t.Error("a connection that lost an answer goes on")
			}
			e.wantHeard(t)
			if l.lost != 1 {
				t.Errorf("%d answers lost, want 1", l.lost)
			}
		})
	}
}

// TestConn: an end behaves as other net.Conns do.
func TestConn(t *testing.T) {
	inBubble(t, "deadlines", func(t *testing.T) {
		l := newLink("n", "s", newEcho().accept)
		conn := mustDial(t, l)
		begun := time.Now()
		_ = conn.SetReadDeadline(begun.Add(time.Hour))
		time.AfterFunc(time.Second, func() { _ = conn.SetReadDeadline(begun.Add(2 * time.Second)) })
		_, err := conn.Read(make([]byte, 1))
		var timeout net.Error
		if !errors.As(err, &timeout) || !timeout.Timeout() || time.Since(begun) != 2*time.Second {
			t.Errorf("read: %v after %v, want a timeout at the deadline that was set last", err, time.Since(begun))
		}
		_ = conn.SetWriteDeadline(begun)
		if _, err := conn.Write([]byte("x")); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("write after the deadline: %v", err)
		}
		_ = conn.SetDeadline(time.Time{})
		wantSay(t, conn, "still there", nil, 0)
		_ = conn.SetReadDeadline(time.Unix(1, 0))
		_, _ = conn.Write([]byte("x"))
		synctest.Wait()
		if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("read of what is there, after the deadline: %v", err)
		}
	})
	inBubble(t, "ends", func(t *testing.T) {
		var far net.Conn
		l := newLink("n", "s", func(conn net.Conn) bool { far = conn; return true })
		conn := mustDial(t, l)
		time.AfterFunc(time.Second, func() { _ = far.Close() })
		_, _ = far.Write([]byte("last words"))
		got, err := io.ReadAll(conn)
		if string(got) != "last words" || err != nil {
			t.Errorf("read %q, %v", got, err)
		}
		if _, err := far.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
			t.Errorf("read of a closed end: %v", err)
		}
		time.AfterFunc(time.Second, func() { _ = conn.Close() })
		_ = conn.SetDeadline(time.Time{})
		if err := conn.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		if err := conn.Close(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("close again: %v", err)
		}
		if len(l.conns) != 0 {
			t.Errorf("%d ends are left", len(l.conns))
		}
	})
	inBubble(t, "close ends a read under way", func(t *testing.T) {
		conn := mustDial(t, newLink("n", "s", newEcho().accept))
		time.AfterFunc(time.Second, func() { _ = conn.Close() })
		if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
			t.Errorf("read: %v", err)
		}
	})
}
