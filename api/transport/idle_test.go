package transport

import (
	"io"
	"net"
	"strconv"
	"testing"

	"chronos/api/apitest"

	"github.com/prometheus/client_golang/prometheus"
)

func idle(s *rig) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for at := s.idle.next; at != &s.idle; at = at.next {
		n++
	}
	return n
}

// At the limit of connections, the connection that has been idle longest makes room. A new
// connection is refused only if no connection is idle.
func TestIdleConnectionsMakeRoom(t *testing.T) {
	const most = 3
	registry := prometheus.NewRegistry()
	s := newRig(Limits{MaxConnections: most}, registry)
	address := apitest.Serve(t, s)
	clients := 0
	dial := func(t *testing.T, address string) net.Conn { // a client may not have all connections without a request
		clients++
		return apitest.DialFrom(t, "127.0.1."+strconv.Itoa(clients), address)
	}
	use := func(c net.Conn, idleThen int) {
		t.Helper()
		if got, closed := apitest.Send(t, c, lookup); got.Status != 404 || closed {
			t.Fatalf("have %d, closed %v", got.Status, closed)
		}
		until(t, "the connection is idle", func() bool { return idle(s) == idleThen })
	}
	first, second, unused := dial(t, address), dial(t, address), dial(t, address)
	until(t, "all are there", func() bool { return idle(s) == 3 })
	use(second, 3)
	use(first, 3) // the order is now unused, second, first
	for i, longest := range []net.Conn{unused, second} {
		use(dial(t, address), 3)
		if rest, err := io.ReadAll(longest); err != nil || len(rest) > 0 {
			t.Errorf("connection %d: have %q and %v, want the end", i, rest, err)
		}
	}
	use(first, 3) // the first connection was not idle longest
	if n := open(s); n != most {
		t.Errorf("%d connections are open, want %d", n, most)
	}
	busy := make([]net.Conn, most)
	for i := range busy {
		busy[i] = dial(t, address)
		if _, err := io.WriteString(busy[i], lookup[:9]); err != nil {
			t.Fatal(err)
		}
		until(t, "it is busy", func() bool { return idle(s) == most-1-i && open(s) == most })
	}
	got, closed := apitest.Send(t, dial(t, address), lookup)
	if apitest.WantOverloaded(t, got); !closed {
		t.Error("the connection stays open")
	}
	for i, c := range busy {
		if got, _ := apitest.Send(t, c, lookup[9:]); got.Status != 404 {
			t.Errorf("busy connection %d: have %d", i, got.Status)
		}
	}
	if have := apitest.Samples(t, registry, "chronos_api_idle_connections_closed_total"); have[""] != 2+most {
		t.Errorf("counted %v, want %d", have, 2+most)
	}
}
