package broker

import (
	"syscall"
	"testing"
)

// Broker is a Server of a test. It is for the goroutine of the test alone, which each
// method ends that fails.
type Broker struct {
	t      testing.TB
	server *Server
}

// Start starts a broker with no topics, and returns when it answers. It is killed
// when the test is over. Where none can run the test is skipped, as by Need.
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

// CreateTopic creates a topic, and returns when each partition has its leader.
func (b *Broker) CreateTopic(name string, partitions int, configs map[string]string) {
	b.t.Helper()
	b.must(b.server.CreateTopic(b.t.Context(), name, partitions, configs))
}

// Stop stops the process where it is, as for a machine that hangs: connections stay
// open and nothing is answered.
func (b *Broker) Stop() { b.t.Helper(); b.must(b.server.signal(syscall.SIGSTOP)) }

// Continue lets a stopped process go on.
func (b *Broker) Continue() { b.t.Helper(); b.must(b.server.signal(syscall.SIGCONT)) }

// Kill ends the process at once, as SIGKILL does, and returns when it has ended.
func (b *Broker) Kill() { b.server.Kill() }

// Restart starts the broker again at the same address with what it has kept, and
// returns when it serves each partition. If it runs it is killed before.
func (b *Broker) Restart() { b.t.Helper(); b.must(b.server.Restart(b.t.Context())) }

func (b *Broker) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}
