package api

import (
	"context"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"chronos/api/apitest"
	"chronos/scheduler/timer"
)

const lookup = "GET /timers/k HTTP/1.1\r\nHost: h\r\n\r\n"

// At the limit of requests under way, further requests are refused and the earlier requests finish.
// The admin listener answers.
func TestTooManyRequests(t *testing.T) {
	const most = 4
	entered, leave := make(chan struct{}, most), make(chan struct{})
	registry := prometheus.NewRegistry()
	s := New(Config{MaxRequests: most, Registerer: registry, Timers: &fakeTimers{before: func(_ context.Context, operation string, _ timer.ID) error {
		if operation == "delete" {
			entered <- struct{}{}
			<-leave
		}
		return nil
	}}})
	address := apitest.Serve(t, s)
	var working []net.Conn
	for range most {
		c := apitest.Dial(t, address)
		if _, err := io.WriteString(c, "DELETE /timers/k HTTP/1.1\r\nHost: h\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		<-entered
		working = append(working, c)
	}
	flood := apitest.Dial(t, address)
	for range 100 {
		got, closed := apitest.Send(t, flood, lookup)
		if apitest.WantOverloaded(t, got); closed {
			t.Fatal("the connection was closed")
		}
	}
	admin := serveAdmin(t, NewAdmin(AdminConfig{Gatherer: registry, OpenReads: true}))
	for path, part := range map[string]string{"/livez": "alive", "/readyz": "ready", "/metrics": `chronos_api_overload_refusals_total{limit="requests"} 100`} {
		got, _ := apitest.Send(t, apitest.Dial(t, admin), "GET "+path+" HTTP/1.1\r\nHost: localhost\r\n\r\n")
		if got.Status != 200 || !strings.Contains(string(got.Body), part) {
			t.Errorf("%s under overload: %d %.200q", path, got.Status, got.Body)
		}
	}
	close(leave)
	for _, c := range working {
		if got, _ := apitest.Await(t, c); got.Status != 201 {
			t.Errorf("a request from before: have %d", got.Status)
		}
	}
	if got, _ := apitest.Send(t, flood, lookup); got.Status != 404 {
		t.Errorf("afterwards: have %d", got.Status)
	}
}

func serveAdmin(t *testing.T, admin *Admin) (address string) {
	t.Helper()
	ln, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- admin.Serve(ln) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), apitest.Patience)
		defer cancel()
		if err := admin.Shutdown(ctx); err != nil {
			t.Errorf("shut down admin: %v", err)
		}
		if err := <-served; err != nil {
			t.Errorf("serve admin: %v", err)
		}
	})
	return ln.Addr().String()
}
