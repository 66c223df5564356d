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
		conn := patient(near, stopped, &line{})
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
		conn, begun := patient(near, awake.Always(), &line{}), time.Now()
		if err := conn.SetReadDeadline(begun.Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(begun) != timing.IOTimeout {
			t.Errorf("after %v: %v; want a timeout after %v", time.Since(begun), err, timing.IOTimeout)
		}
	})
}

// A connection that was last heard before another connection kept silent is not used again. A connection that brought
// an answer meanwhile is.
func TestAConnectionIsMistrustedOnceAnotherKeepsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all lines
		known, clock := all.to("a:1"), awake.Always()
		ask := func(c *patientConn, far net.Conn, takes time.Duration) error {
			if err := c.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
				return err
			}
			if takes > 0 {
				time.AfterFunc(takes, func() { _, _ = far.Write([]byte("x")) })
			}
			_, err := c.Read(make([]byte, 1))
			return err
		}
		connect := func() (*patientConn, net.Conn) {
			near, far := net.Pipe()
			t.Cleanup(func() { _, _ = near.Close(), far.Close() })
			return patient(near, clock, known), far
		}
		idle, _ := connect()
		time.Sleep(time.Second)
		late, lateFar := connect()
		silent, silentFar := connect()
		time.AfterFunc(time.Millisecond, func() {
			if err := ask(late, lateFar, timing.IOTimeout/2); err != nil {
				t.Error(err)
			}
		})
		if _, err := idle.SyscallConn(); err != nil {
			t.Errorf("an idle connection is not used, though none kept silent: %v", err)
		}
		if err := ask(silent, silentFar, 0); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("read %v, want a timeout", err)
		}
		fresh, _ := connect()
		for name, c := range map[string]struct {
			conn *patientConn
			want error
		}{"idle": {idle, errMistrusted}, "asked later": {late, nil}, "connected later": {fresh, nil}} {
			if _, err := c.conn.SyscallConn(); !errors.Is(err, c.want) {
				t.Errorf("%s: %v, want %v", name, err, c.want)
			}
			if _, err := (secureConn{nil, c.conn}).SyscallConn(); !errors.Is(err, c.want) {
				t.Errorf("%s, with TLS: %v, want %v", name, err, c.want)
			}
		}
		if all.to("a:1") != known || all.to("b:1") == known {
			t.Error("want one line for each address")
		}
	})
}
