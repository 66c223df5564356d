package webhook

import (
	"bufio"
	"container/list"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"time"

	"chronos/scheduler/dispatch"
)

var (
	// errUnused says that an idle connection was of no use, and that nothing was sent on the
	// connection.
	errUnused = errors.New("idle connection not usable")

	errHandshake = errors.New("TLS handshake failed")
)

// conn is a connection to a destination. The owner is the pool or an attempt.
type conn struct {
	wire        *wire
	stream      net.Conn // the wire, or TLS on the wire
	destination string
	reused      bool

	// of the pool
	idleSince time.Time
	place     *list.Element
}

// dial connects to t, with TLS if t is secure.
func (c *Client) dial(ctx context.Context, t *target) (*conn, error) {
	network, err := c.connect(ctx, t)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	w := newWire(network)
	// The caller owns the URI, from which the destination is cut.
	cn := &conn{wire: w, stream: w, destination: strings.Clone(t.destination)}
	if !t.secure {
		return cn, nil
	}
	config := c.tls.Clone()
	config.ServerName = t.serverName()
	secure := tls.Client(w, config)
	if err := secure.HandshakeContext(ctx); err != nil {
		cn.abort()
		return nil, fmt.Errorf("%w: %w", errHandshake, err)
	}
	cn.stream = secure
	return cn, nil
}

// connect connects to t unless the guard refuses the address, or the address is reserved. Guard and
// reserved addresses are asked right before connecting to an address, so earlier answers of the
// resolver don't matter.
func (c *Client) connect(ctx context.Context, t *target) (net.Conn, error) {
	p := t.place()
	if err := c.guard.check(p); err != nil {
		return nil, err
	}
	if c.dialContext == nil {
		dialer := net.Dialer{
			Resolver: c.resolver,
			ControlContext: func(_ context.Context, _, address string, _ syscall.RawConn) error {
				exact, err := netip.ParseAddrPort(address)
				if err != nil {
					return fmt.Errorf("read address: %w", err)
				}
				if err := c.guard.check(p.at(exact)); err != nil {
					return err
				}
				return c.unreserved(exact)
			},
		}
		return dialer.DialContext(ctx, "tcp", t.address())
	}
	network, err := c.dialContext(ctx, "tcp", t.address())
	if err != nil {
		return nil, err
	}
	err = c.guard.check(p.over(network))
	if remote, ok := network.RemoteAddr().(*net.TCPAddr); ok && err == nil {
		err = c.unreserved(remote.AddrPort())
	}
	if err != nil {
		_ = network.Close()
		return nil, err
	}
	return network, nil
}

// begin binds the connection to an attempt. The error is errUnused if the receiver closed the idle
// connection, or sent something. Unasked bytes would be taken for the answer to the next request.
func (cn *conn) begin(ctx context.Context, deadline time.Time) error {
	if cn.reused && !cn.silent() {
		return errUnused
	}
	if err := cn.wire.begin(ctx, deadline); err != nil {
		if cn.reused {
			return errUnused
		}
		return fmt.Errorf("set deadline: %w", err)
	}
	if cn.reused && time.Now().Before(deadline) && cn.wire.stale() {
		return errUnused
	}
	return nil
}

// exchange sends the request and reads the head of the answer.
func (cn *conn) exchange(ctx context.Context, b *buffers, t *target, d *dispatch.Delivery) (answer, *failure) {
	reused := cn.reused
	cn.reused = true
	head := appendHead(b.w.AvailableBuffer(), t, d, b.signer, time.Now())
	if err := ctx.Err(); err != nil {
		return answer{}, &failure{stageSend, err}
	}
	sendErr := cn.send(b.w, head, d.Callback.Opaque)
	if sendErr != nil {
		untouched := cn.wire.sentBytes == 0
		switch late := late(sendErr) || ctx.Err() != nil; {
		case untouched && reused && !late:
			return answer{}, &failure{stageSend, errUnused}
		case untouched || late:
			return answer{}, &failure{stageWrite, cause(ctx, sendErr)}
		}
	}
	got, err := readAnswer(b.r)
	if err != nil {
		return answer{}, &failure{stageRead, cause(ctx, err)}
	}
	// A receiver may answer a long request and hang up before the receiver has read the whole request.
	got.unclear = got.unclear || sendErr != nil
	return got, nil
}

func (*conn) send(w *bufio.Writer, head []byte, body string) error {
	_, err := w.Write(head)
	if err == nil {
		_, err = w.WriteString(body)
	}
	if err == nil {
		err = w.Flush()
	}
	return err
}

// cause is why ctx ended, if the end of ctx ended a read or write.
func cause(ctx context.Context, err error) error {
	if ended := ctx.Err(); ended != nil {
		return ended
	}
	return err
}

// silent reports whether TLS holds no answer that was read already. With the deadline in the past, TLS
// only looks at its buffer.
func (cn *conn) silent() bool {
	secure, ok := cn.stream.(*tls.Conn)
	if !ok {
		return true
	}
	if err := secure.SetReadDeadline(time.Unix(1, 0)); err != nil {
		return false
	}
	var buf [1]byte
	n, err := secure.Read(buf[:])
	return n == 0 && errors.Is(err, os.ErrDeadlineExceeded)
}

// close tells the peer. All writes must be done.
func (cn *conn) close() { _ = cn.stream.Close() }

// abort closes the connection without a farewell, which could block.
func (cn *conn) abort() { _ = cn.wire.Close() }
