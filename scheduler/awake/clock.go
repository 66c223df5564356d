// Package awake has a clock that stands still while its process does. A process that was
// stopped, or got no processor, has waited for nobody meanwhile. So the clock measures how
// long another process has kept silent, and how long an answer may take. Other clocks
// measure how long a process may still act: other processes count on the time that passed.
package awake

import (
	"context"
	"sync"
	"time"
)

const (
	// interval is how often the clock is moved on, and maxStep how far at most. The process
	// stood still for the rest of a longer step.
	interval = 20 * time.Millisecond
	maxStep  = 2 * interval
	// Standstill is the shortest time without a tick that counts as a stop of the process. On a
	// busy machine shorter ones come again and again.
	Standstill = time.Second
)

// Clock shows for how long a process has been awake. A Clock is safe for concurrent use.
// Start, Always and Following make one.
type Clock struct {
	source func() (awake, resumed time.Duration)
	end    func()
}

// Always is a clock that never stands still.
func Always() *Clock {
	begun := time.Now()
	return Following(func() (awake, resumed time.Duration) { return time.Since(begun), 0 })
}

// Following is a clock that shows the times that source returns: for how long the process
// has been awake, and the time at which the last stop was over, 0 if there was none.
func Following(source func() (awake, resumed time.Duration)) *Clock {
	return &Clock{source: source, end: func() {}}
}

// Start starts the clock of this process. The caller ends the clock by Stop.
func Start() *Clock {
	ctx, cancel := context.WithCancel(context.Background())
	t := &ticks{last: time.Now()}
	done := make(chan struct{})
	go func() {
		defer close(done)
		t.run(ctx)
	}()
	return &Clock{source: func() (awake, resumed time.Duration) { return t.move(time.Now()) }, end: func() {
		cancel()
		<-done
	}}
}

// Stop ends a clock that Start made. Nobody may read the clock any more.
func (c *Clock) Stop() { c.end() }

// Now is for how long the process has been awake.
func (c *Clock) Now() time.Duration {
	now, _ := c.source()
	return now
}

// Since is how long ago an instant of the clock was, or the end of the process's last
// stop, if the process was stopped since.
func (c *Clock) Since(instant time.Duration) time.Duration {
	now, resumed := c.source()
	return now - max(instant, resumed)
}

// WithTimeout is like context.WithTimeout, by this clock. The context names no deadline.
func (c *Clock) WithTimeout(parent context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(parent)
	ends := c.Now() + timeout
	w := &waiter{clock: c, ends: ends, end: func() { cancel(context.DeadlineExceeded) }}
	w.mu.Lock()
	w.timer = time.AfterFunc(timeout, w.look)
	w.mu.Unlock()
	return ctx, func() {
		w.timer.Stop()
		cancel(context.Canceled)
	}
}

// waiter waits for an instant of the clock.
type waiter struct {
	clock *Clock
	ends  time.Duration
	end   func()

	mu    sync.Mutex // held until timer is set
	timer *time.Timer
}

func (w *waiter) look() {
	left := w.ends - w.clock.Now()
	if left <= 0 {
		w.end()
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer.Reset(max(left, interval)) // a process that stands still gets there in steps
}

// ticks add up to the time that a process was awake.
type ticks struct {
	mu             sync.Mutex
	last           time.Time
	awake, resumed time.Duration
}

func (t *ticks) run(ctx context.Context) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			t.move(time.Now()) // a tick says when it was due
		case <-ctx.Done():
			return
		}
	}
}

// move moves the clock on to an instant, and returns what it shows.
func (t *ticks) move(to time.Time) (awake, resumed time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	step := to.Sub(t.last)
	if step > 0 {
		t.last = to
		t.awake += min(step, maxStep)
	}
	if step >= Standstill {
		t.resumed = t.awake
	}
	return t.awake, t.resumed
}
