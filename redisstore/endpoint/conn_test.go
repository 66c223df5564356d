package endpoint

import (
	"errors"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"chronos/scheduler/awake"
	"chronos/scheduler/timing"
)

// An answer that arrives while the process stands still has come in time.
func TestAnswerIsReadAfterAStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer func() { _, _ = near.Close(), far.Close() }()
		begun := time.Now()
		stopped := awake.Following(func() (now, resumed time.Duration) { return max(time.Since(begun)-3*time.Second, 0), 0 })
		conn := patient(near, stopped)
		if err := conn.SetReadDeadline(begun.Add(-time.Second)); err != nil { // as go-redis may set after a stop
			t.Fatal(err)
		}
		time.AfterFunc(2*time.Second, func() { _, _ = far.Write([]byte("x")) })
		if n, err := conn.Read(make([]byte, 1)); n != 1 || err != nil {
			t.Errorf("read %d bytes, %v", n, err)
		}
		if took := time.Since(begun); took != 2*time.Second {
			t.Errorf("it took %v", took)
		}
		if err := conn.SetDeadline(time.Now()); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Write([]byte("x")); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("nobody read for long, and the write ended with %v", err)
		}
		if took, want := time.Since(begun), 3*time.Second+timing.IOTimeout; took < want || took > want+minPatience {
			t.Errorf("it ended after %v, want %v", took, want)
		}
	})
}

func TestAnswerThatDoesNotComeIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer func() { _, _ = near.Close(), far.Close() }()
		conn, begun := patient(near, awake.Always()), time.Now()
		if err := conn.SetReadDeadline(begun.Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(begun) != timing.IOTimeout {
			t.Errorf("after %v: %v; want a timeout after %v", time.Since(begun), err, timing.IOTimeout)
		}
	})
}
