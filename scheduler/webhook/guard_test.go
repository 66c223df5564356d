package webhook_test

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"chronos/scheduler/dispatch"
	"chronos/scheduler/timer"
	"chronos/scheduler/webhook"
	"chronos/scheduler/webhook/webhooktest"
)

const (
	linkLocal   = "address not allowed: link-local or metadata"
	unspecified = "address not allowed: unspecified"
	multicast   = "address not allowed: multicast or broadcast"
	denied      = "address denied by CHRONOS_CALLBACK_DENY"
	notAllowed  = "not in CHRONOS_CALLBACK_ALLOW"
	unusable    = "uri not usable"
	notASCII    = "host not in ASCII"
	notFound    = "host not found"
)

func guard(t *testing.T, allow, deny string) *webhook.Guard {
	t.Helper()
	g, err := webhook.ParseGuard(allow, deny)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// TestSpellingsOfAddresses: every looked-up name has the metadata service's address, so any text that
// isn't an address fails, too.
func TestSpellingsOfAddresses(t *testing.T) {
	server := serveRaw(t, answering(ok))
	_, port, _ := net.SplitHostPort(server.addr)
	client := serveDNS(t, always("169.254.169.254")).client(t, webhook.Config{})
	for _, tt := range []struct {
		authority string // $ is the port of a receiver on 127.0.0.1
		want      string // the reason, "" for delivered to the receiver
		unknown   bool   // before the host is looked up
	}{
		// metadata, as IPv4
		{authority: "169.254.169.254", want: linkLocal},
		{authority: "169.254.169.254:80", want: linkLocal},
		{authority: "169.254.169.254:", want: linkLocal},
		{authority: "169.254.169.254.", want: linkLocal},
		{authority: "169.254.169.254..", want: linkLocal},
		{authority: "2852039166", want: linkLocal},
		{authority: "2852039166.", want: linkLocal},
		{authority: "0xa9fea9fe", want: linkLocal},
		{authority: "0XA9FEA9FE", want: linkLocal},
		{authority: "0xA9.0xFE.0xA9.0xFE", want: linkLocal},
		{authority: "025177524776", want: linkLocal},
		{authority: "0251.0376.0251.0376", want: linkLocal},
		{authority: "0000251.000376.00251.0376", want: linkLocal},
		{authority: "169.16689662", want: linkLocal},
		{authority: "169.254.43518", want: linkLocal},
		{authority: "0xa9.254.0251.0376", want: linkLocal},
		{authority: "169.254.0", want: linkLocal},
		{authority: "169.254.169.0376", want: linkLocal},
		{authority: "169.254.255.255:1", want: linkLocal},
		{authority: "127.0.0.1@169.254.169.254", want: linkLocal},
		{authority: "127.0.0.1:$@169.254.169.254", want: linkLocal},
		{authority: "a:b@169.254.169.254", want: linkLocal},
		{authority: "100.100.100.200", want: linkLocal},
		{authority: "168.63.129.16", want: linkLocal},
		{authority: "192.0.0.192", want: linkLocal},
		// as IPv6
		{authority: "[fe80::1]", want: linkLocal},
		{authority: "[fe80::1%25lo]:80", want: linkLocal},
		{authority: "[FEBF:ffff::]", want: linkLocal},
		{authority: "[fd00:ec2::254]", want: linkLocal},
		{authority: "[fd00:ec2::254%25lo]", want: linkLocal},
		{authority: "[fd00:ec2::23]", want: linkLocal},
		{authority: "[fd00:c1::a9fe:a9fe]", want: linkLocal},
		{authority: "[fd00:100::100:200]", want: linkLocal},
		{authority: "[fd00:42::42]", want: linkLocal},
		{authority: "[fd20:ce::254]", want: linkLocal},
		{authority: "[fd00:a9fe:a9fe::1]", want: linkLocal},
		{authority: "168.63.129.16", want: linkLocal},
		{authority: "192.0.0.192", want: linkLocal},
		{authority: "[FD00:0EC2:0:0:0:0:0:0254]", want: linkLocal},
		{authority: "[fd20:ce::254]", want: linkLocal},
		{authority: "[fd00:a9fe:a9fe::1]", want: linkLocal},
		{authority: "[::ffff:169.254.169.254]", want: linkLocal},
		{authority: "[::FFFF:a9fe:a9fe]:8080", want: linkLocal},
		{authority: "[0:0:0:0:0:ffff:169.254.169.254]", want: linkLocal},
		{authority: "[::169.254.169.254]", want: linkLocal},
		{authority: "[::ffff:0:169.254.169.254]", want: linkLocal},
		{authority: "[64:ff9b::169.254.169.254]", want: linkLocal},
		{authority: "[64:ff9b::a9fe:a9fe]", want: linkLocal},
		{authority: "[64:ff9b:1::a9fe:a9fe]", want: linkLocal},
		{authority: "[64:ff9b:1:a9fe:a9:fe00::]", want: linkLocal},
		{authority: "[64:ff9b:1:7a9:fe:a9fe::]", want: linkLocal},
		{authority: "[64:ff9b:1:7:a9:fea9:fe00::]", want: linkLocal},
		{authority: "[2002:a9fe:a9fe::]", want: linkLocal},
		{authority: "[2002:a9fe:a9fe:1:2:3:4:5]", want: linkLocal},
		{authority: "[2001:0:a9fe:a9fe::1]", want: linkLocal},
		{authority: "[2001:0:c000:201::5601:5601]", want: linkLocal},
		{authority: "[2001:db8::5efe:169.254.169.254]", want: linkLocal},
		{authority: "[2001:db8::200:5efe:a9fe:a9fe]", want: linkLocal},
		{authority: "[::ffff:100.100.100.200]", want: linkLocal},
		// no address to call
		{authority: "0.0.0.0:$", want: unspecified},
		{authority: "0:$", want: unspecified},
		{authority: "0x0:$", want: unspecified},
		{authority: "0x:$", want: unspecified},
		{authority: "00.0:$", want: unspecified},
		{authority: "0.0.0.1", want: unspecified},
		{authority: "[::]:$", want: unspecified},
		{authority: "[0:0:0:0:0:0:0:0]:$", want: unspecified},
		{authority: "[::ffff:0.0.0.0]:$", want: unspecified},
		{authority: "[64:ff9b::]:$", want: unspecified},
		{authority: "255.255.255.255", want: multicast},
		{authority: "4294967295", want: multicast},
		{authority: "224.0.0.1", want: multicast},
		{authority: "[ff02::1]", want: multicast},
		{authority: "[::ffff:239.1.1.1]", want: multicast},
		// no URI
		{authority: "１６９.254.169.254", want: notASCII},
		{authority: "169。254。169。254", want: notASCII},
		{authority: "①⑥⑨.254.169.254", want: notASCII},
		{authority: "%EF%BC%91%EF%BC%96%EF%BC%99.254.169.254", want: notASCII},
		{authority: "%31%36%39.254.169.254", want: unusable},
		{authority: "169.254.169.254%2580", want: unusable},
		{authority: "127.0.0.1%2540169.254.169.254", want: unusable},
		{authority: "169.254.169.254%00.a.test", want: unusable},
		{authority: "169.254.169.254\x00.a.test", want: unusable},
		{authority: "169.254.169.254\t", want: unusable},
		{authority: "127.0.0.1:$\\@169.254.169.254", want: unusable},
		{authority: "[169.254.169.254]", want: unusable},
		{authority: "[fe80::1", want: unusable},
		{authority: "fe80::1", want: unusable},
		{authority: "[[fe80::1]]", want: unusable},
		{authority: "[fe80::1%25a%20b]", want: unusable},
		{authority: "[::ffff:169.254.169.254%25lo]", want: linkLocal},
		{authority: "169.254.169.254,127.0.0.1", want: unusable},
		{authority: "169.254.169.254;", want: unusable},
		{authority: "127.0.0.1:$:80", want: unusable},
		{authority: "127.0.0.1:$ @169.254.169.254", want: unusable},
		{authority: "169.254.169.254:080x", want: unusable},
		// names, and texts that Go's resolver takes for a name or for nothing at all
		{authority: "metadata.google.internal", want: linkLocal, unknown: true},
		{authority: "METADATA.test.", want: linkLocal, unknown: true},
		{authority: "127.0.0.1.nip.test", want: linkLocal, unknown: true},
		{authority: "0x7f.1:$", want: linkLocal},
		{authority: "256.256.256.256", want: notFound},
		{authority: "127.1:$", want: notFound},
		{authority: "2130706433:$", want: notFound},
		{authority: "127.0.0.1.:$", want: notFound},
		// the receiver
		{authority: "127.0.0.1:$"},
		{authority: "127.0.0.1:00$"},
		{authority: "169.254.169.254@127.0.0.1:$"},
		{authority: "169.254.169.254:80@127.0.0.1:$"},
		{authority: "%31%36%39.254@127.0.0.1:$"},
		{authority: "127.0.0.1:$#@169.254.169.254"},
		{authority: "127.0.0.1:$?@169.254.169.254"},
		{authority: "[::ffff:127.0.0.1]:$"},
		{authority: "[::FFFF:7f00:1]:$"},
	} {
		d := delivery("http://" + strings.ReplaceAll(tt.authority, "$", port) + "/latest/meta-data/")
		before := len(server.seen())
		got := deliver(t, client, d)
		if got.Reason != tt.want || (tt.want == "") != (got.Verdict == dispatch.VerdictDelivered) {
			t.Errorf("%s: %+v, want %q", tt.authority, got, tt.want)
		}
		if arrived := len(server.seen()) - before; arrived == 1 != (tt.want == "") {
			t.Errorf("%s: %d requests arrived", tt.authority, arrived)
		}
		if err := client.Check(d.Callback); (err == nil) != (tt.unknown || tt.want == "") {
			t.Errorf("%s: checked before: %v", tt.authority, err)
		}
	}
}

// TestRebindingResolver: the answer to the first question is allowed, and the answer to the second
// question is not. Only the address that is dialed counts.
func TestRebindingResolver(t *testing.T) {
	server := serveRaw(t, func(c *rawConn) {
		if c.request() != "" {
			c.say("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
		}
	})
	_, port, _ := net.SplitHostPort(server.addr)
	for address, want := range map[string]string{
		"169.254.169.254": linkLocal, "fe80::1": linkLocal, "::ffff:169.254.169.254": linkLocal, "64:ff9b::a9fe:a9fe": linkLocal,
		"0.0.0.0": unspecified, "::": unspecified, "127.0.0.3": denied, "192.0.2.1": notAllowed,
	} {
		t.Run(address, func(t *testing.T) {
			before := len(server.seen())
			addrs := always("127.0.0.1")
			dns := serveDNS(t, func(name string) []netip.Addr { return addrs(name) })
			client := dns.client(t, webhook.Config{Guard: guard(t, "127.0.0.0/8", "127.0.0.3")})
			d := delivery("http://rebind.test.:" + port + "/")
			if err := client.Check(d.Callback); err != nil {
				t.Errorf("checked before: %v", err)
			}
			wantDelivered(t, deliver(t, client, d))
			dns.mu.Lock()
			addrs = always(address)
			dns.mu.Unlock()
			wantFailed(t, deliver(t, client, d), want)
			if n := len(server.seen()) - before; n != 1 {
				t.Errorf("%d requests arrived, want 1", n)
			}
			if n := dns.times("rebind.test"); n != 2 {
				t.Errorf("%d lookups for two attempts", n)
			}
		})
	}
}

func TestSeveralAddresses(t *testing.T) {
	allowed := serveRaw(t, answering(ok))
	_, port, _ := net.SplitHostPort(allowed.addr)
	forbidden, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.2:"+port)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = forbidden.Close() })
	touched := make(chan net.Addr, 1)
	go func() {
		for {
			c, err := forbidden.Accept()
			if err != nil {
				close(touched)
				return
			}
			touched <- c.RemoteAddr()
			_ = c.Close()
		}
	}()
	d := delivery("http://several.test.:" + port + "/")
	for _, tt := range []struct {
		addrs []string
		want  string
	}{
		{addrs: []string{"127.0.0.2", "127.0.0.1"}},
		{addrs: []string{"127.0.0.1", "127.0.0.2"}},
		{addrs: []string{"169.254.169.254", "127.0.0.2", "127.0.0.1"}},
		{addrs: []string{"fe80::1", "127.0.0.1"}},
		{addrs: []string{"fe80::1", "::ffff:127.0.0.2", "64:ff9b::7f00:2", "127.0.0.2", "127.0.0.1"}},
		{addrs: []string{"127.0.0.2", "169.254.169.254"}, want: denied},
		{addrs: []string{"169.254.169.254", "127.0.0.2"}, want: denied}, // loopback is tried first
		{addrs: []string{"fe80::1", "169.254.169.254"}, want: linkLocal},
		{addrs: []string{"64:ff9b::7f00:2", "127.0.0.2"}, want: denied},
	} {
		client := serveDNS(t, always(tt.addrs...)).client(t, webhook.Config{Guard: guard(t, "", "127.0.0.2")})
		if got := deliver(t, client, d); got.Reason != tt.want || tt.want != "" && got.Class != dispatch.ClassDenied {
			t.Errorf("%v: %+v, want %q", tt.addrs, got, tt.want)
		}
	}
	_ = forbidden.Close()
	if from, ok := <-touched; ok {
		t.Errorf("the denied address got a connection from %v", from)
	}
	if n := len(allowed.seen()); n != 5 {
		t.Errorf("%d requests arrived at the allowed address, want 5", n)
	}
}

func TestRedirectReachesNobody(t *testing.T) {
	elsewhere := webhooktest.New(t)
	for _, location := range []string{
		elsewhere.URL(), "http://169.254.169.254/", "//169.254.169.254/", "http://[fe80::1]/", "/again",
	} {
		server := serveRaw(t, answering("HTTP/1.1 302 Found\r\nContent-Length: 0\r\nLocation: "+location+"\r\n\r\n"))
		var dialer dialer
		client := newClient(t, webhook.Config{Dial: dialer.dial})
		wantFailed(t, deliver(t, client, delivery(server.url)), "status 302")
		if n := len(server.seen()); n != 1 || len(dialer.conns) != 1 {
			t.Errorf("to %s: %d requests on %d connections", location, n, len(dialer.conns))
		}
	}
	if calls := elsewhere.Calls(); len(calls) != 0 {
		t.Errorf("followed: %v", calls)
	}
}

func TestGuardRules(t *testing.T) {
	server := serveRaw(t, answering(ok))
	_, port, _ := net.SplitHostPort(server.addr)
	dns := serveDNS(t, always("127.0.0.1"))
	for _, tt := range []struct {
		name, allow, deny string // $ is the receiver's port
		want              map[string]string
	}{
		{
			name: "none",
			want: map[string]string{"127.0.0.1:$": "", "a.test:$": "", "169.254.1.1:$": linkLocal},
		},
		{
			name: "loopback denied", deny: "127.0.0.0/8,::1",
			want: map[string]string{
				"127.0.0.1:$": denied, "a.test:$": denied, "[::1]:$": denied, "[::ffff:127.0.0.1]:$": denied, "0.0.0.0:$": unspecified,
				"[::127.0.0.1]:$": denied, "[2002:7f00:1::]:$": denied, "127.1:$": denied, "2130706433:$": denied,
			},
		},
		{
			name: "IPv4 loopback denied means all loopback", deny: "127.0.0.0/8",
			want: map[string]string{
				"127.0.0.1:$": denied, "127.9.9.9:$": denied, "[::1]:$": denied, "[::ffff:127.0.0.1]:$": denied, "localhost:$": denied, "x.localhost.:$": denied,
				"a.test:$": denied, "[64:ff9b::127.0.0.1]:$": denied,
			},
		},
		{
			name: "localhost denied means all loopback", deny: "LOCALHOST.",
			want: map[string]string{
				"127.0.0.1:$": denied, "127.9.9.9:$": denied, "[::1]:$": denied, "[::ffff:127.0.0.1]:$": denied, "localhost:$": denied,
				"localhost.:$": denied, "a.test:$": denied,
			},
		},
		{
			name: "loopback denied at a port", deny: "127.0.0.0/8:1,localhost:2",
			want: map[string]string{"127.0.0.1:$": "", "[::1]:1": denied, "[::1]:2": denied, "127.0.0.1:2": denied},
		},
		{
			name: "all of IPv4 denied", deny: "0.0.0.0/0",
			want: map[string]string{"127.0.0.1:$": denied, "[::1]:$": denied},
		},
		{
			name: "some of loopback denied", deny: "127.0.0.2,127.1.0.0/16,[::1]:1",
			want: map[string]string{"127.0.0.1:$": "", "a.test:$": "", "127.1.2.3:$": denied, "[::1]:1": denied, "127.0.0.2:$": denied},
		},
		{
			name: "mapped address denied", deny: "::ffff:127.0.0.0/104",
			want: map[string]string{"127.0.0.1:$": denied, "[::ffff:127.0.0.1]:$": denied},
		},
		{
			name: "name denied", deny: "A.test.,*.B.test",
			want: map[string]string{
				"a.test:$": denied, "A.TEST.:$": denied, "x.a.test:$": "", "b.test:$": "", "x.b.test:$": denied,
				"x.y.B.test.:$": denied, "xb.test:$": "", "127.0.0.1:$": "",
			},
		},
		{
			name: "port denied", deny: ":$,b.test:1",
			want: map[string]string{"127.0.0.1:$": denied, "a.test:$": denied, "127.0.0.1:00$": denied, "b.test:1": denied},
		},
		{
			name: "other port denied", deny: ":22,127.0.0.1:23,a.test:24",
			want: map[string]string{"127.0.0.1:$": "", "a.test:$": ""},
		},
		{
			name: "address allowed", allow: "127.0.0.1",
			want: map[string]string{"127.0.0.1:$": "", "a.test:$": "", "127.0.0.2:$": notAllowed, "[::1]:$": notAllowed, "8.8.8.8": notAllowed},
		},
		{
			name: "address with another port allowed", allow: "127.0.0.1:1,[::1]:$",
			want: map[string]string{"127.0.0.1:$": notAllowed, "a.test:$": notAllowed},
		},
		{
			name: "name allowed", allow: "a.test:$,*.b.test",
			want: map[string]string{
				"a.test:$": "", "a.test.:$": "", "x.b.test:$": "", "b.test:$": notAllowed, "c.test:$": notAllowed, "127.0.0.1:$": notAllowed,
				"a.test:1": notAllowed, "a.test": notAllowed,
			},
		},
		{
			name: "port allowed", allow: ":$",
			want: map[string]string{"127.0.0.1:$": "", "a.test:$": "", "a.test": notAllowed, "127.0.0.1:99999": notAllowed},
		},
		{
			name: "translated address isn't the allowed one", allow: "127.0.0.0/8",
			want: map[string]string{"[::ffff:127.0.0.1]:$": "", "[64:ff9b::127.0.0.1]:$": notAllowed, "[::127.0.0.1]:$": notAllowed},
		},
		{
			name: "denied wins", allow: "127.0.0.0/8,a.test", deny: "127.0.0.1",
			want: map[string]string{"127.0.0.1:$": denied, "a.test:$": denied, "b.test:$": denied},
		},
		{
			name: "forbidden ones can't be allowed", allow: "169.254.0.0/16,fe80::/10,0.0.0.0/0,::/0,metadata.test",
			want: map[string]string{"169.254.169.254": linkLocal, "[fe80::1]": linkLocal, "0.0.0.0:$": unspecified, "127.0.0.1:$": ""},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			withPort := func(s string) string { return strings.ReplaceAll(s, "$", port) }
			client := dns.client(t, webhook.Config{Guard: guard(t, withPort(tt.allow), withPort(tt.deny))})
			for authority, want := range tt.want {
				if got := deliver(t, client, delivery("http://"+withPort(authority))); got.Reason != want {
					t.Errorf("%s: %+v, want %q", authority, got, want)
				}
			}
		})
	}
}

// elsewhere is a connection that claims to lead to some address.
type elsewhere struct {
	net.Conn
	remote net.Addr
	closed bool
	wrote  int
}

func (c *elsewhere) RemoteAddr() net.Addr { return c.remote }

func (c *elsewhere) Close() error {
	c.closed = true
	return c.Conn.Close()
}

func (c *elsewhere) Write(p []byte) (int, error) {
	c.wrote += len(p)
	return len(p), nil
}

func TestGuardWithDial(t *testing.T) {
	tcp := func(s string) net.Addr { return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(s)) }
	pipe, _ := net.Pipe()
	for _, tt := range []struct {
		name, uri, allow, deny string
		remote                 net.Addr
		dialed                 bool
		reason                 string
	}{
		{name: "refused before", uri: "http://169.254.169.254/", reason: linkLocal},
		{name: "denied before", uri: "http://a.test/", deny: "a.test", reason: denied},
		{name: "not allowed before", uri: "http://a.test/", allow: "b.test", reason: notAllowed},
		{name: "leads to metadata", uri: "http://a.test/", remote: tcp("169.254.169.254:80"), dialed: true, reason: linkLocal},
		{name: "leads to a denied address", uri: "http://a.test/", deny: "10.0.0.0/8", remote: tcp("10.1.2.3:80"), dialed: true, reason: denied},
		{name: "leads past what is allowed", uri: "http://a.test/", allow: "10.0.0.0/8", remote: tcp("11.1.2.3:80"), dialed: true, reason: notAllowed},
		{name: "in memory, and an address asked for", uri: "http://a.test/", allow: "10.0.0.0/8", remote: pipe.RemoteAddr(), dialed: true, reason: notAllowed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ours, theirs := net.Pipe()
			defer func() { _ = theirs.Close() }()
			c := &elsewhere{Conn: ours, remote: tt.remote}
			dialed := false
			client := newClient(t, webhook.Config{
				Guard: guard(t, tt.allow, tt.deny),
				Dial: func(context.Context, string, string) (net.Conn, error) {
					dialed = true
					return c, nil
				},
			})
			wantFailed(t, deliver(t, client, delivery(tt.uri)), tt.reason)
			if dialed != tt.dialed || c.closed != tt.dialed || c.wrote != 0 {
				t.Errorf("dialed %v, closed %v, %d bytes written", dialed, c.closed, c.wrote)
			}
		})
	}
	t.Run("another port, and in memory", func(t *testing.T) {
		server := serveRaw(t, answering(ok))
		client := newClient(t, webhook.Config{
			Guard: guard(t, "a.test:80", ""),
			Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, network, server.addr)
			},
		})
		wantDelivered(t, deliver(t, client, delivery("http://a.test/")))
		memory := webhooktest.NewMemory()
		webhooktest.Serve(t, memory)
		client = newClient(t, webhook.Config{Guard: guard(t, "*.test", ""), Dial: memory.Dial})
		wantDelivered(t, deliver(t, client, delivery("http://memory.test/")))
	})
}

func TestCheck(t *testing.T) {
	const pointer = "/callback/http/uri"
	client := newClient(t, webhook.Config{Guard: guard(t, "*.test,10.0.0.0/8,:8443", "10.0.0.0/16,secret.test,:22")})
	for uri, code := range map[string]string{
		"http://a.test/":              "",
		"http://me:pw@A.test.:1/":     "",
		"http://10.1.0.1/":            "",
		"http://10.0.0.1/":            "uri-denied",
		"http://0xa000001/":           "uri-denied",
		"http://secret.test/":         "uri-denied",
		"http://a.test:22/":           "uri-denied",
		"http://other.example/":       "", // may be in 10.0.0.0/8
		"https://other.example:8443/": "",
		"http://192.0.2.1/":           "uri-denied",
		"http://192.0.2.1:8443/":      "",
		"http://169.254.169.254:8443": "uri-denied",
		"http://a%2580/":              "uri-malformed",
		"http://a,b/":                 "uri-malformed",
		"http://[::1%25a%20b]/":       "uri-malformed",
	} {
		err := client.Check(timer.Callback{URI: uri})
		var invalid *timer.InvalidError
		if code == "" {
			if err != nil {
				t.Errorf("%s: %v", uri, err)
			}
			continue
		}
		if !errors.As(err, &invalid) || invalid.Pointer != pointer || invalid.Code != code || invalid.Detail == "" {
			t.Errorf("%s: %#v, want %s", uri, err, code)
			continue
		}
		if strings.ContainsFunc(invalid.Detail, func(r rune) bool { return r < ' ' || r > '~' }) {
			t.Errorf("%s: detail %q doesn't fit a header", uri, invalid.Detail)
		}
	}
}

// TestCheckKnowsLoopback: names and literals that can only be loopback are refused when a timer is set.
func TestCheckKnowsLoopback(t *testing.T) {
	for _, deny := range []string{"127.0.0.0/8", "localhost"} {
		client := newClient(t, webhook.Config{Guard: guard(t, "", deny)})
		for _, uri := range []string{"http://localhost/", "http://a.LOCALHOST.:8080/", "http://[::1]/", "http://127.0.0.7/", "http://[::ffff:127.0.0.1]/"} {
			if err := client.Check(timer.Callback{URI: uri}); err == nil {
				t.Errorf("%s denied: %s is accepted", deny, uri)
			}
		}
		if err := client.Check(timer.Callback{URI: "http://mylocalhost/"}); err != nil {
			t.Errorf("%s denied: %v", deny, err)
		}
	}
}

func TestCheckAllocatesNothing(t *testing.T) {
	client := newClient(t, webhook.Config{})
	for _, uri := range []string{"http://a.test/", "https://receiver.test:8443/callback?x=y", "http://10.0.0.1:80/"} {
		cb := timer.Callback{URI: uri}
		if n := testing.AllocsPerRun(100, func() {
			if err := client.Check(cb); err != nil {
				t.Error(err)
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations", uri, n)
		}
	}
}

func TestParseGuardErrors(t *testing.T) {
	for _, tt := range []struct {
		allow, deny string
		want        []string
	}{
		{allow: "10.0.0.0/8,", want: []string{"CHRONOS_CALLBACK_ALLOW entry 2 is empty"}},
		{allow: ",", want: []string{"CHRONOS_CALLBACK_ALLOW entry 1 is empty", "CHRONOS_CALLBACK_ALLOW entry 2 is empty"}},
		{
			allow: "a.test, 10.0.0.1/8, b.test:0, 1.2.3", deny: "ok.test,[10.0.0.1]:80,fe80::1%lo,10.0.0.0/33",
			want: []string{
				"CHRONOS_CALLBACK_ALLOW entry 2 is a CIDR with bits set behind its prefix",
				"CHRONOS_CALLBACK_ALLOW entry 3 has a port that is no number from 1 to 65535",
				"CHRONOS_CALLBACK_ALLOW entry 4 is a number and no address",
				"CHRONOS_CALLBACK_DENY entry 2 has brackets around something else than IPv6",
				"CHRONOS_CALLBACK_DENY entry 3 has a zone",
				"CHRONOS_CALLBACK_DENY entry 4 is no CIDR",
			},
		},
		{deny: "ü.test", want: []string{"CHRONOS_CALLBACK_DENY entry 1 is no host name"}},
	} {
		g, err := webhook.ParseGuard(tt.allow, tt.deny)
		if err == nil {
			t.Errorf("%q, %q: accepted as %v", tt.allow, tt.deny, g)
			continue
		}
		rest := err.Error()
		for _, want := range append(tt.want, "an entry is a CIDR") {
			_, after, found := strings.Cut(rest, want)
			if !found {
				t.Errorf("%q, %q: %q isn't in %q", tt.allow, tt.deny, want, err)
			}
			rest = after
		}
	}
	for _, entry := range []string{
		"*", "*.", "*.*.test", "a*.test", "a..test", ".test", "a b", "a.test:", "a.test:http", "a.test:+80", "a.test:080",
		"a.test:65536", ":", ":0", "a.test:1:2", "http://a.test", "a.test/", "[::1", "[::1]x", "[::1]80", "[::1]:", "[]", "[]:80",
		"[::1]]:80", "::1]:80", "10.0.0.0/8/8", "10.0.0.0/-1", "10.0.0.0/08", "::1/129", "10.0.0", "0x7f.1", "2130706433", "127.0.0.1.",
		"010.0.0.1", "a.test.1", "%31", "a.test\x00", strings.Repeat("a", 64) + ".test", strings.Repeat("a.", 127) + "test",
	} {
		if g, err := webhook.ParseGuard("", entry); err == nil {
			t.Errorf("%q is accepted as %v", entry, g)
		}
	}
}

func TestParseGuardShowsRules(t *testing.T) {
	for allow, want := range map[string]string{
		"":  "",
		" ": "",
		" A.Test. , *.B.test:80,:443,10.0.0.1/32,10.0.0.0/8:8080 ": "a.test,*.b.test:80,:443,10.0.0.1,10.0.0.0/8:8080",
		"::1,[::1],[::1]:80,[FD00::/8]:443,fd00::/8":               "::1,::1,[::1]:80,[fd00::/8]:443,fd00::/8",
		"::ffff:10.0.0.1,::ffff:10.0.0.0/104,::/0,[::]":            "10.0.0.1,10.0.0.0/8,::/0,::",
	} {
		if diff := cmp.Diff("CHRONOS_CALLBACK_ALLOW="+want+" CHRONOS_CALLBACK_DENY=", guard(t, allow, "").String()); diff != "" {
			t.Errorf("%q (-want +got):\n%s", allow, diff)
		}
	}
	if got := (*webhook.Guard)(nil).String(); got != "CHRONOS_CALLBACK_ALLOW= CHRONOS_CALLBACK_DENY=" {
		t.Errorf("no rules are shown as %q", got)
	}
}
