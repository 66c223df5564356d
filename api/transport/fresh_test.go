package transport

import (
	"io"
	"net"
	"testing"

	"chronos/api/apitest"

	"github.com/prometheus/client_golang/prometheus"
)

// counts are how many connections a client has without a request.
func counts(s *rig, address string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fresh[clientOf(&net.TCPAddr{IP: net.ParseIP(address)})]
}

// A single client that begins requests on all available connections keeps nobody else out.
func TestHalfRequestsOfOneClientKeepNobodyOut(t *testing.T) {
	const most, quarter, one, other = 16, 4, "127.0.0.1", "127.0.0.2"
	registry := prometheus.NewRegistry()
	s := newRig(Limits{MaxConnections: most}, registry)
	address := apitest.Serve(t, s)
	var held []net.Conn
	for i := range 2 * most {
		c := apitest.DialFrom(t, one, address)
		if _, err := io.WriteString(c, lookup[:9]); err != nil {
			t.Fatal(err)
		}
		if i < quarter {
			held = append(held, c)
			until(t, "the connection is busy", func() bool { return open(s) == i+1 && idle(s) == 0 })
			continue
		}
		got, closed := apitest.Await(t, c)
		if apitest.WantOverloaded(t, got); !closed {
			t.Error("the connection stays open")
		}
	}
	if have := apitest.Samples(t, registry, "chronos_api_overload_refusals_total"); have["client"] != 2*most-quarter || len(have) != 1 {
		t.Errorf("counted %v, want %d of the client", have, 2*most-quarter)
	}
	for range most - quarter { // all that are left
		if got, closed := apitest.Send(t, apitest.DialFrom(t, other, address), lookup); got.Status != 404 || closed {
			t.Fatalf("another client: have %d, closed %v", got.Status, closed)
		}
	}
	if n := counts(s, other); n != 0 {
		t.Errorf("%d connections that had a request are counted", n)
	}

	for _, c := range held[:2] {
		if got, _ := apitest.Send(t, c, lookup[9:]); got.Status != 404 {
			t.Errorf("the end of a request: have %d", got.Status)
		}
	}
	if err := held[2].Close(); err != nil {
		t.Fatal(err)
	}
	until(t, "the client has one left", func() bool { return counts(s, one) == 1 })
	for range quarter - 1 {
		c := apitest.DialFrom(t, one, address)
		if _, err := io.WriteString(c, lookup[:9]); err != nil {
			t.Fatal(err)
		}
	}
	until(t, "the client has a quarter again", func() bool { return counts(s, one) == quarter })
	if got, _ := apitest.Send(t, apitest.DialFrom(t, one, address), lookup); got.Status != 503 {
		t.Errorf("one more: have %d", got.Status)
	}
}

// A proxy is a single client, and may have all connections once requests have come on the
// connections.
func TestConnectionsThatWereUsedDoNotCount(t *testing.T) {
	const most = 8
	s := newRig(Limits{MaxConnections: most}, nil)
	address := apitest.Serve(t, s)
	body := apitest.WithLength("PUT /timers/k HTTP/1.1\r\nHost: h\r\n")
	large := "PUT /timers/k HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n" + apitest.InChunks(apitest.Simple, 9) + "\r\n"
	conns := make([]net.Conn, most)
	for i := range conns {
		conns[i] = apitest.Dial(t, address)
		if got, _ := apitest.Send(t, conns[i], []string{lookup, body, large}[i%3]); got.Status != 404 && got.Status != 200 {
			t.Fatalf("connection %d: have %d", i, got.Status)
		}
	}
	for _, c := range conns { // half a request on each connection
		if _, err := io.WriteString(c, lookup[:9]); err != nil {
			t.Fatal(err)
		}
	}
	until(t, "all are busy", func() bool { return idle(s) == 0 })
	for i, c := range conns {
		if got, _ := apitest.Send(t, c, lookup[9:]); got.Status != 404 && got.Status != 200 {
			t.Errorf("connection %d: have %d", i, got.Status)
		}
	}
}

// A connection that is refused unread, or closed to make room, no longer counts as fresh.
func TestFreshConnectionsAreUncounted(t *testing.T) {
	const most, one = 4, "127.0.0.1"
	s := newRig(Limits{MaxConnections: most}, nil)
	address := apitest.Serve(t, s)
	for range 3 {
		if got, closed := apitest.Send(t, apitest.DialFrom(t, one, address), "NO HTTP\r\n\r\n"); got.Status != 400 || !closed {
			t.Fatalf("have %d, closed %v", got.Status, closed)
		}
		until(t, "it is uncounted", func() bool { return counts(s, one) == 0 && open(s) == 0 })
	}
	silent := apitest.DialFrom(t, one, address)
	until(t, "it is idle", func() bool { return idle(s) == 1 })
	for i := range most {
		c := apitest.DialFrom(t, "127.0.1."+string(rune('1'+i)), address)
		if _, err := io.WriteString(c, lookup[:9]); err != nil {
			t.Fatal(err)
		}
		until(t, "it is busy", func() bool { return idle(s) == min(1, most-1-i) && open(s) == min(i+2, most) })
	}
	if rest, err := io.ReadAll(silent); err != nil || len(rest) > 0 {
		t.Errorf("have %q and %v, want the end", rest, err)
	}
	until(t, "it is uncounted", func() bool { return counts(s, one) == 0 })
}

func TestClientsAreTold(t *testing.T) {
	for address, want := range map[string]string{
		"10.0.0.1":         "10.0.0.1/32",
		"::ffff:10.0.0.1":  "10.0.0.1/32",
		"2001:db8:1:2:3::": "2001:db8:1:2::/64",
		"::1":              "::/64",
		"fe80::1":          "fe80::1/128",
	} {
		if have := clientOf(&net.TCPAddr{IP: net.ParseIP(address), Port: 9}); have.String() != want {
			t.Errorf("%s: have %v, want %s", address, have, want)
		}
	}
	if have := clientOf(&net.TCPAddr{IP: net.ParseIP("fe80::1"), Zone: "eth0"}); have.String() != "fe80::1/128" {
		t.Errorf("with a zone: have %v", have)
	}
	ours, theirs := net.Pipe()
	defer ours.Close()   //nolint:errcheck // in memory
	defer theirs.Close() //nolint:errcheck // in memory
	for _, nobody := range []net.Addr{theirs.RemoteAddr(), &net.UnixAddr{Name: "s"}, &net.TCPAddr{}, (*net.TCPAddr)(nil), nil} {
		if have := clientOf(nobody); have.IsValid() {
			t.Errorf("%v: have %v", nobody, have)
		}
	}
}
