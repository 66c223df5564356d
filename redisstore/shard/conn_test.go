package shard

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"chronos/redisstore/endpoint"
	"chronos/scheduler/awake"
	"chronos/scheduler/timer"
	"chronos/scheduler/timing"
)

// lateConn holds back answers while a test has the lock.
type lateConn struct {
	net.Conn
	late *sync.RWMutex
}

func (c lateConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.late.RLock()
	defer c.late.RUnlock()
	return n, err
}

// openShard is a shard that was verified and has opened its connections.
func openShard(t *testing.T, server *miniredis.Miniredis, dial func(ctx context.Context, network, address string) (net.Conn, error)) *Shard {
	t.Helper()
	config := endpoint.Config{Name: "a", URL: "redis://" + server.Addr(), Dial: dial}
	sh, err := New(config, Options{Connections: 1, Opened: 1, Awake: awake.Always(), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sh.Close() })
	if err := sh.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	sh.under.Wait()
	return sh
}

// A caller that waits no longer leaves the connection to the next caller.
func TestLateAnswerDropsNoConnection(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	var late sync.RWMutex
	var dials atomic.Int64
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		dials.Add(1)
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		return lateConn{conn, &late}, err
	}
	sh := openShard(t, server, dial)
	before := dials.Load()
	ask := func(patience time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		c := &Call{Script: "tally", Keys: []string{"{k}timers"}, Args: []any{0, 1}}
		sh.Eval(ctx, sh.Ask, []*Call{c})
		return c.Err
	}
	// The answers wait until the callers have given up. After a fixed delay, an answer could already be available to
	// a caller that a busy machine holds up.
	late.Lock()
	for range 5 {
		if err := ask(20 * time.Millisecond); !errors.Is(err, timer.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v, want one of a caller that waited no longer", err)
		}
	}
	late.Unlock()
	sh.under.Wait()
	if !sh.verified.Load() {
		t.Error("the shard is to be verified, though it answered")
	}
	late.Lock()
	time.AfterFunc(100*time.Millisecond, late.Unlock)
	if err := ask(timing.IOTimeout); err != nil {
		t.Errorf("a caller that waited: %v", err)
	}
	if now := dials.Load(); now != before {
		t.Errorf("%d connections were opened after the %d of the start", now-before, before)
	}
}

// lossyConn loses all bytes for good once a test has lost the connections of its time.
type lossyConn struct {
	net.Conn
	lost *atomic.Bool
}

func (c lossyConn) Write(b []byte) (int, error) {
	if c.lost.Load() {
		return len(b), nil
	}
	return c.Conn.Write(b)
}

// The connections of all pools lose their bytes, as after a cut of the network, and nothing says so. The first call
// that waits in vain says so for all: the next calls go by new connections.
func TestOneSilentConnectionSpeaksForAll(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	var times atomic.Pointer[atomic.Bool] // of the connections that are opened now
	times.Store(new(atomic.Bool))
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		return lossyConn{conn, times.Load()}, err
	}
	sh := openShard(t, server, dial)
	before := times.Swap(new(atomic.Bool))
	before.Store(true)
	ask := func(client redis.UniversalClient) error {
		c := &Call{Script: "tally", Keys: []string{"{k}timers"}, Args: []any{0, 1}}
		sh.Eval(t.Context(), client, []*Call{c})
		return c.Err
	}
	if err := ask(sh.Front); !errors.Is(err, timer.ErrUnavailable) {
		t.Fatalf("a call on a lost connection: %v", err)
	}
	var asked sync.WaitGroup
	for _, pool := range sh.pooled() {
		for range pool.share / 2 {
			asked.Go(func() {
				if err := ask(*pool.client); err != nil {
					t.Errorf("a call after the first one that waited in vain: %v", err)
				}
			})
		}
	}
	asked.Wait()
}
