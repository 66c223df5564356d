package broker

import (
	"syscall"
	"testing"
)

// Broker is a Server of a test. Only the goroutine of the test may use a Broker: a method that
// fails ends the goroutine.
type Broker struct {
	t      testing.TB
	server *Server
}

// Start starts a broker with no topics, and returns when the broker answers. The end of the
// test kills the broker. If no broker can run here, Start skips the test, as Need does.
func Start(t testing.TB) *Broker {
	t.Helper()
	Need(t)
	server, err := Launch(t.Context(), t.TempDir(), 0, false)
	return brokerOf(t, server, err)
}

// StartSecure is Start with a second listener, where the user must log in.
func StartSecure(t testing.TB, user, password string) (*Broker, *Secure) {
	t.Helper()
	Need(t)
	server, secure, err := launchSecure(t.Context(), t.TempDir(), user, password)
	return brokerOf(t, server, err), secure
}

func brokerOf(t testing.TB, server *Server, err error) *Broker {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		server.Kill()
		if t.Failed() {
			t.Logf("log of the broker at %s, end:\n%s", server.addr, server.logTail())
		}
	})
	return &Broker{t: t, server: server}
}

// Addr is where clients find the broker, host and port.
func (b *Broker) Addr() string { return b.server.Addr() }

// Log is the file that the broker logs to, over all restarts.
func (b *Broker) Log() string { return b.server.Log() }

// CreateTopic creates a topic, and returns when every partition has its leader.
func (b *Broker) CreateTopic(name string, partitions int, configs map[string]string) {
	b.t.Helper()
	b.must(b.server.CreateTopic(b.t.Context(), name, partitions, configs))
}

// Stop makes the process stand still, like a machine that hangs: connections stay open, and the
// process answers nothing.
func (b *Broker) Stop() { b.t.Helper(); b.must(b.server.signal(syscall.SIGSTOP)) }

// Continue lets a stopped process go on.
func (b *Broker) Continue() { b.t.Helper(); b.must(b.server.signal(syscall.SIGCONT)) }

// Kill ends the process at once with SIGKILL, and returns when the process has ended.
func (b *Broker) Kill() { b.server.Kill() }

// Restart starts the broker again, at the same address with the same data, and returns when
// the broker serves every partition. A running broker is killed first.
func (b *Broker) Restart() { b.t.Helper(); b.must(b.server.Restart(b.t.Context())) }

func (b *Broker) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}
