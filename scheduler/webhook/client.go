package webhook

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"slices"
	"sync"
	"time"

	"chronos/scheduler/dispatch"
	"chronos/scheduler/timer"
)

const (
	defaultMaxIdle     = 4096
	defaultIdleTimeout = 30 * time.Second

	// maxAttempt bounds an attempt whose context has no deadline, or a later deadline.
	maxAttempt = 30 * time.Second

	readBuffer  = 4 << 10
	writeBuffer = 8 << 10
	tlsSessions = 1024
)

// Config says how callbacks are delivered. The zero value is what a node uses.
type Config struct {
	// MaxIdle is how many idle connections are kept over all destinations; the longest idle connection
	// goes first. 0 stands for 4,096.
	MaxIdle int
	// IdleTimeout is how long an idle connection is kept. 0 stands for 30 s.
	IdleTimeout time.Duration
	// TLS is for https; nil stands for the system's roots. The client copies TLS, sets ServerName and
	// NextProtos, and raises MinVersion to TLS 1.2 at least.
	TLS *tls.Config
	// Guard says where callbacks may go; nil has no rules.
	Guard *Guard
	// Reserved says which addresses callbacks never connect to; nil for none. Reserved is called before
	// every new connection, so Reserved must be quick and safe for concurrent use.
	Reserved func() []Reserved
	// Secrets sign every callback, and every secret makes a signature. Without secrets nothing is
	// signed.
	Secrets []Secret
	// Dial connects; nil stands for a zero net.Dialer, and then the guard is asked before every
	// connection. A given Dial connects first, once Guard accepts the URI. If Guard refuses the remote
	// address, the connection is closed with nothing sent. A connection without an IP address, as in
	// memory, is judged by the URI.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Client calls back over HTTP/1.1 and implements [dispatch.Deliverer]. Client is safe for concurrent
// use. An attempt under way has one connection, so at most as many connections are in use as calls of
// Deliver. Config bounds the idle connections. New makes a Client, Close ends the Client.
type Client struct {
	dialContext func(ctx context.Context, network, address string) (net.Conn, error) // Config's, maybe nil
	resolver    *net.Resolver                                                        // of tests; nil for the system's
	guard       *Guard
	reserved    func() []Reserved // Config's, maybe nil
	secrets     []Secret
	tls         *tls.Config
	pool        *pool
	buffers     sync.Pool // of *buffers
}

var _ dispatch.Deliverer = (*Client)(nil)

// buffers are the buffers of an attempt.
type buffers struct {
	r      *bufio.Reader
	w      *bufio.Writer
	signer *signer // nil if nothing is signed
}

// New makes a Client. It starts nothing.
func New(cfg Config) *Client {
	if cfg.MaxIdle <= 0 {
		cfg.MaxIdle = defaultMaxIdle
	}
	if cfg.IdleTimeout <= 0 {
		cfg.IdleTimeout = defaultIdleTimeout
	}
	return &Client{
		dialContext: cfg.Dial,
		guard:       cfg.Guard,
		reserved:    cfg.Reserved,
		secrets:     slices.DeleteFunc(slices.Clone(cfg.Secrets), func(s Secret) bool { return s.key == nil }),
		tls:         tlsConfig(cfg.TLS),
		pool:        newPool(cfg.MaxIdle, cfg.IdleTimeout),
	}
}

func tlsConfig(given *tls.Config) *tls.Config {
	config := given.Clone()
	if config == nil {
		config = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	config.MinVersion = max(config.MinVersion, tls.VersionTLS12)
	config.NextProtos = []string{"http/1.1"}
	if config.ClientSessionCache == nil {
		config.ClientSessionCache = tls.NewLRUClientSessionCache(tlsSessions)
	}
	return config
}

// Close closes the idle connections; connections in use are closed when their attempt is over. Call
// Close after the last Deliver has returned, or earlier, so that running attempts leave no connections behind. Close may be
// called again.
func (c *Client) Close() { c.pool.close() }

// Destination is scheme://host:port of the callback's URI, with the host in lower case and the port
// filled in. For a URI that Timer.Validate refuses, Destination is "". Destination may share the URI's
// memory.
func (*Client) Destination(cb timer.Callback) string {
	t, err := parseTarget(cb.URI)
	if err != nil {
		return ""
	}
	return t.destination
}

// Check reports known faults of a callback as a *[timer.InvalidError], without a lookup of the host.
// The URI may be unusable, or no such host can exist. [Guard] may refuse the port or the host, as a
// name or any spelling of an address. After nil, Deliver may still find that the host's address is
// refused. Timer.Validate must accept the callback.
func (c *Client) Check(cb timer.Callback) error {
	if c.guard.open() && plainName(cb.URI) {
		return checkHost(cb.URI)
	}
	t, err := parseTarget(cb.URI)
	if err != nil {
		return invalidURI("uri-malformed", "uri's host is neither a host name nor an address in brackets; correct it")
	}
	err = c.guard.check(t.place())
	if err == nil {
		return checkHost(cb.URI)
	}
	detail := err.Error()
	if refused, ok := errors.AsType[*refusedError](err); ok {
		detail = refused.detail
	}
	return invalidURI("uri-denied", detail)
}

func invalidURI(code, detail string) error {
	return &timer.InvalidError{Pointer: "/callback/http/uri", Code: code, Detail: detail}
}

// Deliver makes one attempt, as [dispatch.Deliverer] says. Deliver ends at ctx's deadline, at most 50
// ms after ctx is canceled, and after 30 s in any case.
func (c *Client) Deliver(ctx context.Context, d dispatch.Delivery) dispatch.Delivered {
	start := time.Now()
	deadline, ok := ctx.Deadline()
	if last := start.Add(maxAttempt); !ok || deadline.After(last) {
		limited, cancel := context.WithDeadline(ctx, last)
		defer cancel()
		ctx, deadline = limited, last
	}
	got, fail := c.attempt(ctx, deadline, &d)
	if fail != nil {
		return dispatch.Delivered{Class: fail.class(), Reason: fail.reason(time.Since(start))}
	}
	return got.delivered(time.Now())
}

// attempt sends the request once, if possible on an idle connection.
func (c *Client) attempt(ctx context.Context, deadline time.Time, d *dispatch.Delivery) (answer, *failure) {
	t, err := parseTarget(d.Callback.URI)
	if err != nil {
		return answer{}, &failure{stageConnect, err}
	}
	for {
		if err := ctx.Err(); err != nil {
			return answer{}, &failure{stageSend, err}
		}
		cn := c.pool.take(t.destination)
		if cn == nil {
			if cn, err = c.dial(ctx, &t); err != nil {
				return answer{}, &failure{stageConnect, err}
			}
		}
		got, fail := c.exchange(ctx, deadline, cn, &t, d)
		if fail == nil || !errors.Is(fail, errUnused) {
			return got, fail
		}
	}
}

// exchange sends the request on cn and reads the answer, then gives cn to the pool or closes cn. If the
// failure is errUnused, nothing was sent.
func (c *Client) exchange(
	ctx context.Context, deadline time.Time, cn *conn, t *target, d *dispatch.Delivery,
) (answer, *failure) {
	if err := cn.begin(ctx, deadline); err != nil {
		cn.abort()
		return answer{}, &failure{stageSend, err}
	}
	b := c.acquire(cn)
	defer c.release(b)
	got, fail := cn.exchange(ctx, b, t, d)
	clean := fail == nil && got.finish(b.r)
	if cn.wire.end() && clean {
		c.pool.put(cn)
	} else {
		cn.abort()
	}
	return got, fail
}

func (c *Client) acquire(cn *conn) *buffers {
	b, ok := c.buffers.Get().(*buffers)
	if !ok {
		b = &buffers{
			r:      bufio.NewReaderSize(nil, readBuffer),
			w:      bufio.NewWriterSize(nil, writeBuffer),
			signer: newSigner(c.secrets),
		}
	}
	b.r.Reset(cn.stream)
	b.w.Reset(cn.stream)
	return b
}

func (c *Client) release(b *buffers) {
	b.r.Reset(nil)
	b.w.Reset(nil)
	c.buffers.Put(b)
}
