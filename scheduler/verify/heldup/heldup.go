// Package heldup measures how long a busy machine holds up a test process that plays
// receivers of callbacks and links between processes. A bound in milliseconds means
// nothing while the receivers themselves stand still.
package heldup

import (
	"context"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"time"
)

const (
	interval = 20 * time.Millisecond // between probes
	usual    = 50 * time.Millisecond // a hold-up that no bound needs to allow for
	// longest ends a probe that nobody answers.
	longest = time.Minute
)

// Watch is a watch that runs until Stop. A Watch is safe for concurrent use.
type Watch struct {
	cancel context.CancelFunc
	ended  chan struct{}

	mu  sync.Mutex
	all HoldUps
}

// HoldUp is a time in which a probe waited.
type HoldUp struct{ From, To time.Time }

// HoldUps are hold-ups in the order of time.
type HoldUps []HoldUp

// Start starts a watch. Probes take the way of a callback: the wake of a timer, a new connection
// on the loopback interface, and a byte there and back.
func Start(ctx context.Context) (*Watch, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // binds at once
	if err != nil {
		return nil, fmt.Errorf("listen for probes: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	w := &Watch{cancel: cancel, ended: make(chan struct{})}
	go echo(listener)
	go func() {
		defer close(w.ended)
		defer listener.Close() //nolint:errcheck // nothing was written
		from := time.Now()
		for probe(ctx, listener.Addr().String()) == nil {
			to := time.Now()
			w.mu.Lock()
			w.all = append(w.all, HoldUp{from.Add(interval), to})
			w.mu.Unlock()
			from = to
		}
	}()
	return w, nil
}

// Stop ends the watch and returns the hold-ups, of each probe.
func (w *Watch) Stop() HoldUps {
	w.cancel()
	<-w.ended
	return w.soFar()
}

func (w *Watch) soFar() HoldUps {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.all)
}

// Longest is the duration of the longest hold-up.
func (h HoldUps) Longest() (longest time.Duration) {
	for _, one := range h {
		longest = max(longest, one.To.Sub(one.From))
	}
	return longest.Round(time.Millisecond)
}

// Within are the hold-ups that overlap a time.
func (h HoldUps) Within(from, to time.Time) (within HoldUps) {
	for _, one := range h {
		if one.From.Before(to) && one.To.After(from) {
			within = append(within, one)
		}
	}
	return within
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
