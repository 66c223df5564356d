// Package heldup measures how long a busy machine holds up a test process that plays
// receivers of callbacks and links between processes. A bound in milliseconds means
// nothing while the receivers themselves stand still.
package heldup

import (
	"context"
	"fmt"
	"io"
	"net"
	"time"
)

const (
	interval = 20 * time.Millisecond // between probes
	usual    = 50 * time.Millisecond // a hold-up that no bound needs to allow for
	// longest ends a probe that nobody answers.
	longest = time.Minute
)

// Watch is a watch that runs until Stop.
type Watch struct {
	cancel context.CancelFunc
	worst  chan time.Duration
}

// Start starts a watch: probes take the way of a callback, which is a wake of a timer, a new
// connection on the loopback interface, and a byte there and back. The function long gets
// each probe that took least or longer; long may be nil.
func Start(ctx context.Context, least time.Duration, long func(from, to time.Time)) (*Watch, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // binds at once
	if err != nil {
		return nil, fmt.Errorf("listen for probes: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	w := &Watch{cancel: cancel, worst: make(chan time.Duration, 1)}
	go echo(listener)
	from := time.Now()
	go func() {
		defer listener.Close() //nolint:errcheck // nothing was written
		worst := time.Duration(0)
		for probe(ctx, listener.Addr().String()) == nil {
			to := time.Now()
			took := to.Sub(from) - interval
			if worst = max(worst, took); took >= least && long != nil {
				long(from, to)
			}
			from = to
		}
		w.worst <- worst
	}()
	return w, nil
}

// Stop ends the watch and returns the longest hold-up. Stop may be called once.
func (w *Watch) Stop() time.Duration {
	w.cancel()
	return (<-w.worst).Round(time.Millisecond)
}

// Slack is by how much bounds on lateness are wider after a hold-up: several processes on a
// callback's way have waited as long. Slack of a usual hold-up is 0.
func Slack(heldUp time.Duration) time.Duration {
	if heldUp <= usual {
		return 0
	}
	return 8 * heldUp
}

// echo answers probes until the listener is closed.
func echo(listener net.Listener) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		go func() {
			defer conn.Close()                            //nolint:errcheck // the probe has its answer
			_ = conn.SetDeadline(time.Now().Add(longest)) // a loopback connection takes deadlines
			_, _ = io.CopyN(conn, conn, 1)                // the probe reports an error
		}()
	}
}

// probe waits for interval, and for the echo of a byte.
func probe(ctx context.Context, address string) error {
	select {
	case <-time.After(interval):
	case <-ctx.Done():
		return ctx.Err()
	}
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	defer conn.Close()                                     //nolint:errcheck // nothing is left to write
	end := context.AfterFunc(ctx, func() { conn.Close() }) //nolint:errcheck // the read ends
	defer end()
	if _, err := conn.Write([]byte{1}); err != nil {
		return err
	}
	_, err = io.ReadFull(conn, make([]byte, 1))
	return err
}
