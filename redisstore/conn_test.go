package redisstore

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"

	"chronos/scheduler/awake"
	"chronos/scheduler/store"
	"chronos/scheduler/timer"
)

// What comes while the process stands still has come in time.
func TestAnswerIsReadAfterAStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer func() { _, _ = near.Close(), far.Close() }()
		begun := time.Now()
		stopped := awake.Following(func() (now, resumed time.Duration) { return max(time.Since(begun)-3*time.Second, 0), 0 })
		conn := patient(near, stopped)
		if err := conn.SetReadDeadline(begun.Add(-time.Second)); err != nil { // as go-redis may say after a stop
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
		if took, want := time.Since(begun), 3*time.Second+ioTimeout; took < want || took > want+minPatience {
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
		if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(begun) != ioTimeout {
			t.Errorf("after %v: %v; want a timeout after %v", time.Since(begun), err, ioTimeout)
		}
	})
}

// lateConn has what is read from it come later.
type lateConn struct {
	net.Conn
	late *atomic.Int64 // ns
}

func (c lateConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	<-time.After(time.Duration(c.late.Load()))
	return n, err
}

// A caller that waits no longer leaves the connection to the next one.
func TestLateAnswerDropsNoConnection(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	var late, dials atomic.Int64
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		dials.Add(1)
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		return lateConn{conn, &late}, err
	}
	s, err := Open(t.Context(), Options{
		Shards: []ShardConfig{{Name: "a", URL: "redis://" + server.Addr(), Dial: dial}}, Node: "n", Lane: "http", Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	sh := s.current.Load().shards[0]
	sh.under.Wait()
	before := dials.Load()
	late.Store(int64(100 * time.Millisecond))
	ask := func(patience time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		_, err := s.Ask(ctx, "a", []store.KeyState{{Key: "00000000000000000000000000000000"}})
		return err
	}
	for range 5 {
		if err := ask(20 * time.Millisecond); !errors.Is(err, timer.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v, want one of a caller that waited no longer", err)
		}
	}
	sh.under.Wait()
	if !sh.verified.Load() {
		t.Error("the shard is to be verified, though it answered")
	}
	if err := ask(ioTimeout); err != nil {
		t.Errorf("a caller that waited: %v", err)
	}
	if now := dials.Load(); now != before {
		t.Errorf("%d connections were opened after the %d of the start", now-before, before)
	}
}
