package webhook_test

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	"chronos/scheduler/webhook"
)

// TestReservedAddresses: an address is reserved under every name and spelling of the address, at its
// port alone. A refused callback makes no connection.
func TestReservedAddresses(t *testing.T) {
	server := serveRaw(t, answering(ok))
	_, port, _ := net.SplitHostPort(server.addr)
	dns := serveDNS(t, always("127.0.0.1"))
	const refused = "address not allowed: somebody's"
	for name, tt := range map[string]struct {
		addresses []string // $ is the receiver's port
		anyLocal  bool
		want      map[string]string
	}{
		"exactly": {
			addresses: []string{"192.0.2.1:$", "127.0.0.1:$"},
			want: map[string]string{
				"127.0.0.1:$": refused, "[::ffff:127.0.0.1]:$": refused, "a.test:$": refused, "[2002:7f00:1::]:$": refused,
				"127.0.0.1:1": "connection refused", "127.0.0.2:$": "connection refused",
			},
		},
		"as an IPv4-mapped address": {addresses: []string{"[::ffff:127.0.0.1]:$"}, want: map[string]string{"127.0.0.1:$": refused}},
		"every address of this machine": {
			addresses: []string{"[::]:$"},
			want:      map[string]string{"127.0.0.1:$": refused, "127.0.0.2:$": refused, "[::1]:$": refused, "a.test:$": refused},
		},
		"every IPv4 address of this machine": {addresses: []string{"0.0.0.0:$"}, want: map[string]string{"127.0.0.3:$": refused}},
		"one of this machine's, and so every other": {
			addresses: []string{"127.0.0.9:$"}, anyLocal: true,
			want: map[string]string{"127.0.0.1:$": refused, "[::1]:$": refused, "a.test:$": refused},
		},
		"another machine's": {addresses: []string{"192.0.2.199:$"}, anyLocal: true, want: map[string]string{"127.0.0.1:$": ""}},
		"another port":      {addresses: []string{"[::]:1", "127.0.0.1:2"}, want: map[string]string{"127.0.0.1:$": "", "a.test:$": ""}},
		"none":              {want: map[string]string{"127.0.0.1:$": ""}},
	} {
		t.Run(name, func(t *testing.T) {
			withPort := func(s string) string { return strings.ReplaceAll(s, "$", port) }
			reserved := webhook.Reserved{Whose: "somebody's", AnyLocal: tt.anyLocal}
			for _, address := range tt.addresses {
				reserved.Addresses = append(reserved.Addresses, netip.MustParseAddrPort(withPort(address)))
			}
			client := dns.client(t, webhook.Config{Reserved: func() []webhook.Reserved { return []webhook.Reserved{{Whose: "nobody's"}, reserved} }})
			for authority, want := range tt.want {
				before := len(server.seen())
				if got := deliver(t, client, delivery("http://"+withPort(authority)+"/")); got.Reason != want {
					t.Errorf("%s: %+v, want %q", authority, got, want)
				}
				if arrived := len(server.seen()) - before; arrived != 0 && want != "" {
					t.Errorf("%s: %d requests arrived", authority, arrived)
				}
			}
		})
	}
}

// TestReservedIsAskedForEachConnection: Reserved is asked before every new connection, but not before a
// connection is used again.
func TestReservedIsAskedForEachConnection(t *testing.T) {
	server := serveRaw(t, answering(ok))
	var asked atomic.Int32
	var closed atomic.Bool
	client := newClient(t, webhook.Config{Reserved: func() []webhook.Reserved {
		asked.Add(1)
		if !closed.Load() {
			return nil
		}
		return []webhook.Reserved{{Whose: "somebody's", Addresses: []netip.AddrPort{netip.MustParseAddrPort(server.addr)}}}
	}})
	for range 5 {
		wantDelivered(t, deliver(t, client, delivery(server.url)))
	}
	if n := asked.Load(); n != 1 {
		t.Errorf("asked %d times for five callbacks on one connection", n)
	}
	closed.Store(true)
	for _, c := range server.conns() {
		_ = c.Close()
	}
	wantFailed(t, deliver(t, client, delivery(server.url)), "address not allowed: somebody's")
}

// TestReservedWithDial: a connection of a Config.Dial is judged by its remote address.
func TestReservedWithDial(t *testing.T) {
	ours, theirs := net.Pipe()
	defer func() { _ = theirs.Close() }()
	c := &elsewhere{Conn: ours, remote: net.TCPAddrFromAddrPort(netip.MustParseAddrPort("192.0.2.1:6379"))}
	client := newClient(t, webhook.Config{
		Dial: func(_ context.Context, _, _ string) (net.Conn, error) { return c, nil },
		Reserved: func() []webhook.Reserved {
			return []webhook.Reserved{{Whose: "somebody's", Addresses: []netip.AddrPort{netip.MustParseAddrPort("192.0.2.1:6379")}}}
		},
	})
	wantFailed(t, deliver(t, client, delivery("http://a.test/")), "address not allowed: somebody's")
	if !c.closed || c.wrote != 0 {
		t.Errorf("closed %v, %d bytes written", c.closed, c.wrote)
	}
}
