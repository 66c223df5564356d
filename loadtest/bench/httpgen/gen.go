//go:build linux

package httpgen

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// Config is a load. The zero value of an optional field does nothing.
type Config struct {
	// Addresses are host:port of IPv4. The connections are spread over the addresses.
	Addresses   []string
	Connections int

	// Request appends the n-th request, from 0, to buf.
	Request func(n int, buf []byte) []byte
	// Check looks at a status and the first bytes of the body; nil wants status 200.
	Check func(status int, body []byte) error

	// Warm is the time at the beginning in which answers don't count; optional.
	Warm time.Duration
	// Duration is the time after Warm in which answers count; 0 if Requests ends the load.
	Duration time.Duration
	// Requests is the number of requests; 0 for no bound.
	Requests int
	// Rate is the rate of an open load, in requests a second; 0 is a closed load.
	Rate float64

	// Stop ends the load before Duration is over, once Stop returns true; optional. Stop is called
	// often.
	Stop func() bool
	// Begin and End are called when counting begins and ends; optional. Begin and End should be
	// quick, because nothing is sent meanwhile.
	Begin, End func()
}

// Result is the outcome of a load.
type Result struct {
	// Answered is the number of right answers that were counted, in Elapsed.
	Answered int
	Elapsed  time.Duration
	// Took has a duration for each counted answer. In an open load, the duration begins at the
	// instant at which the request should have been sent.
	Took []time.Duration
	// Wrong is the number of answers over the whole run that Check refused or that did not come.
	// Why is the first cause.
	Wrong int
	Why   error
}

// Rate is the number of counted answers a second.
func (r *Result) Rate() float64 {
	if r.Elapsed <= 0 {
		return 0
	}
	return float64(r.Answered) / r.Elapsed.Seconds()
}

const (
	drainLimit  = 5 * time.Second
	maxBroken   = 100 // bound on replaced connections
	readSize    = 64 << 10
	maxEvents   = 256
	longestWait = 100 * time.Millisecond // until the next look at the context
)

// Run makes the load. Run returns when the load is over, the context ends, or too many connections
// broke. Run takes a thread for itself.
func Run(ctx context.Context, c Config) (Result, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if c.Check == nil {
		c.Check = want200
	}
	if c.Connections < 1 || len(c.Addresses) == 0 || c.Duration <= 0 && c.Requests <= 0 {
		return Result{}, errors.New("make load: connections, addresses, and a duration or a number of requests are needed")
	}
	g := &generator{c: c, piece: make([]byte, readSize)}
	defer g.close()
	if err := g.open(); err != nil {
		return Result{}, fmt.Errorf("make load: %w", err)
	}
	if err := g.loop(ctx); err != nil {
		return g.result, fmt.Errorf("make load: %w", err)
	}
	return g.result, nil
}

func want200(status int, body []byte) error {
	if status != http.StatusOK {
		return fmt.Errorf("answered %d: %.200q", status, body)
	}
	return nil
}

// connection is a socket. A busy connection waits for an answer; an idle connection is in the list
// idle.
type connection struct {
	fd      int
	address unix.SockaddrInet4
	busy    bool
	since   time.Time // when the request was sent, or should have been
	request []byte
	unsent  []byte // rest of request
	parser  parser
}

type generator struct {
	c           Config
	epoll       int
	timer       int // of an open load
	connections []*connection
	idle        []*connection
	piece       []byte

	begin, countFrom, end time.Time // end is zero if Requests ends the load
	counting, ended       bool
	next                  int // number of the next request
	busy                  int
	broken                int
	result                Result
}

func (g *generator) open() (err error) {
	g.epoll, g.timer = -1, -1
	if g.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return fmt.Errorf("open epoll: %w", err)
	}
	if g.c.Rate > 0 {
		if g.timer, err = unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC); err != nil {
			return fmt.Errorf("open timer: %w", err)
		}
		event := unix.EpollEvent{Events: unix.EPOLLIN, Fd: -1}
		if err := unix.EpollCtl(g.epoll, unix.EPOLL_CTL_ADD, g.timer, &event); err != nil {
			return fmt.Errorf("watch timer: %w", err)
		}
	}
	for i := range g.c.Connections {
		address, err := resolve(g.c.Addresses[i%len(g.c.Addresses)])
		if err != nil {
			return err
		}
		c := &connection{fd: -1, address: address}
		g.connections = append(g.connections, c)
		if err := g.connect(i); err != nil {
			return err
		}
	}
	return nil
}

func resolve(address string) (unix.SockaddrInet4, error) {
	tcp, err := net.ResolveTCPAddr("tcp4", address)
	if err != nil {
		return unix.SockaddrInet4{}, fmt.Errorf("resolve address: %w", err)
	}
	to := unix.SockaddrInet4{Port: tcp.Port}
	copy(to.Addr[:], tcp.IP.To4())
	return to, nil
}

// connect (re)opens a connection and makes it idle.
func (g *generator) connect(i int) error {
	c := g.connections[i]
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open socket: %w", err)
	}
	c.fd, c.parser, c.unsent, c.busy = fd, parser{}, nil, false
	if err := unix.Connect(fd, &c.address); err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1); err != nil {
		return fmt.Errorf("set up socket: %w", err)
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		return fmt.Errorf("set up socket: %w", err)
	}
	event := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(i)}
	if err := unix.EpollCtl(g.epoll, unix.EPOLL_CTL_ADD, fd, &event); err != nil {
		return fmt.Errorf("watch socket: %w", err)
	}
	g.idle = append(g.idle, c)
	return nil
}

func (g *generator) close() {
	for _, c := range g.connections {
		if c.fd >= 0 {
			_ = unix.Close(c.fd)
		}
	}
	for _, fd := range []int{g.timer, g.epoll} {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
}
