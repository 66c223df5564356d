//go:build linux

package machine

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"chronos/scheduler/awake"
)

// Far is a way to a listener of this machine that takes as long as the way to another site.
type Far struct {
	Address string // host:port

	listener net.Listener
	to       string
	way      time.Duration
	conns    sync.WaitGroup
	stop     context.CancelFunc
}

// StartFar listens, and hands on all bytes after the time of a way, in each direction. The caller must call Stop.
func StartFar(ctx context.Context, to string, way time.Duration) (*Far, error) {
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start far way: %w", err)
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	f := &Far{Address: listener.Addr().String(), listener: listener, to: to, way: way, stop: stop}
	f.conns.Go(func() { f.serve(running) })
	return f, nil
}

// Stop breaks all connections, and returns once they are gone.
func (f *Far) Stop() error {
	f.stop()
	err := f.listener.Close()
	f.conns.Wait()
	return err //nolint:wrapcheck // the caller joins the errors
}

func (f *Far) serve(ctx context.Context) {
	for {
		near, err := f.listener.Accept()
		if err != nil {
			return
		}
		f.conns.Go(func() { f.connect(ctx, near) })
	}
}

func (f *Far) connect(ctx context.Context, near net.Conn) {
	defer near.Close() //nolint:errcheck // the bytes have gone
	var dialer net.Dialer
	far, err := dialer.DialContext(ctx, "tcp", f.to)
	if err != nil {
		return
	}
	defer far.Close() //nolint:errcheck // as above
	broken := context.AfterFunc(ctx, func() { _ = errors.Join(near.Close(), far.Close()) })
	defer broken()
	var both sync.WaitGroup
	both.Go(func() { f.carry(ctx, near, far) })
	both.Go(func() { f.carry(ctx, far, near) })
	both.Wait()
}

// parcel is bytes on their way.
type parcel struct {
	bytes   []byte
	arrives time.Time
}

// carry hands on bytes until either end closes.
func (f *Far) carry(ctx context.Context, from, to net.Conn) {
	const underWay, most = 4096, 64 << 10
	parcels := make(chan parcel, underWay)
	var reader sync.WaitGroup
	reader.Go(func() {
		defer close(parcels)
		for {
			bytes := make([]byte, most)
			n, err := from.Read(bytes)
			if n > 0 {
				parcels <- parcel{bytes[:n], time.Now().Add(f.way)}
			}
			if err != nil {
				return
			}
		}
	})
	for p := range parcels {
		awake.Sleep(ctx, time.Until(p.arrives))
		if _, err := to.Write(p.bytes); err != nil {
			_ = from.Close() // the reader ends
			for range parcels {
			}
			break
		}
	}
	if closer, is := to.(interface{ CloseWrite() error }); is {
		_ = closer.CloseWrite()
	}
	reader.Wait()
}
