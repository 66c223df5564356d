//go:build linux

package httpgen

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

var (
	errBroken   = errors.New("connection was closed before the answer")
	errNoAnswer = errors.New("no answer in time")
)

// loop sends requests and reads answers, until the load is over and the last answers have come.
func (g *generator) loop(ctx context.Context) error {
	g.begin = time.Now()
	g.countFrom = g.begin.Add(g.c.Warm)
	if g.c.Duration > 0 {
		g.end = g.countFrom.Add(g.c.Duration)
	}
	events := make([]unix.EpollEvent, maxEvents)
	for {
		now := time.Now()
		g.turn(now)
		if err := ctx.Err(); err != nil {
			return err
		}
		if g.over(now) {
			if g.busy == 0 {
				return nil
			}
			if !g.end.IsZero() && now.After(g.end.Add(drainLimit)) {
				g.wrong(fmt.Errorf("%w: %d of them", errNoAnswer, g.busy), g.busy)
				return nil
			}
		} else if err := g.send(now); err != nil {
			return err
		}
		n, err := unix.EpollWait(g.epoll, events, int(longestWait.Milliseconds()))
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return fmt.Errorf("wait for events: %w", err)
		}
		for i := range events[:n] {
			if err := g.handle(&events[i]); err != nil {
				return err
			}
		}
	}
}

// turn begins and ends the counting.
func (g *generator) turn(now time.Time) {
	if g.c.Stop != nil && !g.end.IsZero() && now.Before(g.end) && g.c.Stop() {
		g.end = now
	}
	if !g.counting && !g.ended && !now.Before(g.countFrom) {
		g.counting = true
		if g.c.Rate == 0 { // the instants of an open load don't depend on the time of this turn
			g.countFrom = now
		}
		call(g.c.Begin)
	}
	// An open load counts late answers. A closed load does not wait for late answers.
	window := !g.end.IsZero() && (g.c.Rate == 0 || now.After(g.end.Add(drainLimit)))
	if g.counting && g.over(now) && (g.busy == 0 || window) {
		g.counting, g.ended = false, true
		g.result.Elapsed = now.Sub(g.countFrom)
		call(g.c.End)
	}
}

func call(f func()) {
	if f != nil {
		f()
	}
}

// over reports whether the load makes no more requests.
func (g *generator) over(now time.Time) bool {
	return g.c.Requests > 0 && g.next >= g.c.Requests || !g.end.IsZero() && !now.Before(g.end)
}

// send makes idle connections busy, as far as the load demands.
func (g *generator) send(now time.Time) error {
	for len(g.idle) > 0 && !g.over(now) {
		since := now
		if g.c.Rate > 0 {
			since = g.instant(g.next)
			if since.After(now) {
				return g.wake(since.Sub(now))
			}
		}
		// Take the connection that has been idle longest: a server closes unused connections.
		c := g.idle[0]
		g.idle = slices.Delete(g.idle, 0, 1)
		if err := g.start(c, since); err != nil {
			return err
		}
	}
	return nil
}

// instant is the time at which the n-th request of an open load is due.
func (g *generator) instant(n int) time.Time {
	return g.begin.Add(time.Duration(float64(n) / g.c.Rate * float64(time.Second)))
}

func (g *generator) wake(in time.Duration) error {
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(max(1, in.Nanoseconds()))}
	if err := unix.TimerfdSettime(g.timer, 0, &spec, nil); err != nil {
		return fmt.Errorf("set timer: %w", err)
	}
	return nil
}

func (g *generator) start(c *connection, since time.Time) error {
	c.request = g.c.Request(g.next, c.request[:0])
	c.unsent, c.since, c.busy = c.request, since, true
	g.next++
	g.busy++
	return g.flush(c, false)
}

// flush sends as much as the socket takes. The rest follows when the socket is writable.
func (g *generator) flush(c *connection, watched bool) error {
	n, err := unix.Write(c.fd, c.unsent)
	if err != nil && !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR) {
		return g.replace(c)
	}
	c.unsent = c.unsent[max(n, 0):]
	if more := len(c.unsent) > 0; more != watched {
		event := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(slices.Index(g.connections, c))}
		if more {
			event.Events |= unix.EPOLLOUT
		}
		if err := unix.EpollCtl(g.epoll, unix.EPOLL_CTL_MOD, c.fd, &event); err != nil {
			return fmt.Errorf("watch socket: %w", err)
		}
	}
	return nil
}

func (g *generator) handle(event *unix.EpollEvent) error {
	if event.Fd < 0 {
		var expired [8]byte
		_, _ = unix.Read(g.timer, expired[:]) // the wake-up alone counts
		return nil
	}
	c := g.connections[event.Fd]
	if event.Events&unix.EPOLLOUT != 0 && len(c.unsent) > 0 {
		if err := g.flush(c, true); err != nil {
			return err
		}
	}
	if event.Events&(unix.EPOLLIN|unix.EPOLLHUP|unix.EPOLLERR) == 0 {
		return nil
	}
	n, err := unix.Read(c.fd, g.piece)
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) {
		return nil
	}
	if err != nil || n <= 0 || !c.busy {
		return g.replace(c)
	}
	done, err := c.parser.feed(g.piece[:n])
	if err != nil {
		g.wrong(err, 1)
		c.busy = false
		g.busy--
		return g.replace(c)
	}
	if !done {
		return nil
	}
	return g.finish(c)
}

// finish counts an answer, and lets the connection go on.
func (g *generator) finish(c *connection) error {
	now := time.Now()
	c.busy = false
	g.busy--
	if err := g.c.Check(c.parser.status, c.parser.body); err != nil {
		g.wrong(err, 1)
	} else if g.counting && (g.c.Rate == 0 || !c.since.Before(g.countFrom)) {
		g.result.Answered++
		g.result.Took = append(g.result.Took, now.Sub(c.since))
	}
	if c.parser.close {
		return g.replace(c)
	}
	if g.c.Rate == 0 && !g.over(now) {
		return g.start(c, now)
	}
	g.idle = append(g.idle, c)
	return nil
}

// replace opens a new connection. An answer due on the old connection counts as wrong.
func (g *generator) replace(c *connection) error {
	i := slices.Index(g.connections, c)
	if c.busy {
		g.wrong(errBroken, 1)
		g.busy--
	}
	g.idle = slices.DeleteFunc(g.idle, func(o *connection) bool { return o == c })
	err := unix.Close(c.fd)
	c.fd = -1
	if err != nil {
		return fmt.Errorf("close socket: %w", err)
	}
	if g.broken++; g.broken > maxBroken {
		return fmt.Errorf("%d connections broke: %w", g.broken, errBroken)
	}
	return g.connect(i)
}

func (g *generator) wrong(why error, n int) {
	g.result.Wrong += n
	if g.result.Why == nil {
		g.result.Why = why
	}
}
