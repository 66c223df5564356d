package testkit

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Redis is a redis-server that a test may end and start again.
type Redis struct {
	*Process                   // that runs, or ran last
	Network, Address, URL, Dir string

	t    testing.TB
	env  []string
	args []string
}

// NewRedis is a redis-server that was not started yet, with an append-only file. Of two
// arguments of a name the last counts.
func NewRedis(t testing.TB, args ...string) *Redis {
	t.Helper()
	dir, port := t.TempDir(), FreePort(t)
	address := net.JoinHostPort("127.0.0.1", port)
	return &Redis{
		Network: "tcp", Address: address, URL: "redis://" + address + "/0", Dir: dir, t: t,
		args: append([]string{"--port", port, "--bind", "127.0.0.1", "--dir", dir, "--appendonly", "yes", "--save", "", "--loglevel", "warning"}, args...),
	}
}

// StartVolatileRedis starts a redis-server that keeps nothing. It listens on a socket in the
// test's folder: the name of the test must be short. Env is added to the environment.
func StartVolatileRedis(t testing.TB, env ...string) *Redis {
	t.Helper()
	dir := t.TempDir()
	socket := filepath.Join(dir, "s")
	r := &Redis{
		Network: "unix", Address: socket, URL: "unix://" + socket, Dir: dir, t: t, env: env,
		args: []string{"--port", "0", "--unixsocket", socket, "--dir", dir, "--appendonly", "no", "--save", ""},
	}
	r.Start()
	return r
}

// Start starts the redis-server with what is in its folder, and returns when it answers.
func (r *Redis) Start() {
	r.t.Helper()
	r.Process = Start(r.t, append(os.Environ(), r.env...), Program(r.t, "redis-server"), r.args...)
	r.AwaitAnswer()
}

// AwaitAnswer returns when the redis-server answers. Another process may have taken the port
// since it was free: what that one answers does not count.
func (r *Redis) AwaitAnswer() {
	r.t.Helper()
	own := fmt.Sprintf("process_id:%d\r\n", r.PID())
	Eventually(r.t, 10*time.Second, "redis-server answers, and no other process at "+r.Address, func() bool {
		select {
		case <-r.Done:
			r.t.Fatalf("redis-server ended: %v\n%s", r.Err, r.Log)
		default:
		}
		return r.says("PING\r\nINFO server\r\n", "+PONG\r\n", own)
	})
}

// says sends commands and reports whether the first line of the answer, and one of the
// others, are what is wanted.
func (r *Redis) says(commands, first, other string) bool {
	conn, err := net.DialTimeout(r.Network, r.Address, time.Second) //nolint:noctx // it has a limit
	if err != nil {
		return false
	}
	defer conn.Close()                                //nolint:errcheck // nothing is left to write
	_ = conn.SetDeadline(time.Now().Add(time.Second)) // of a server that stands still
	if _, err := io.WriteString(conn, commands); err != nil {
		return false
	}
	answer := bufio.NewReader(conn)
	if line, err := answer.ReadString('\n'); err != nil || line != first {
		return false
	}
	for {
		line, err := answer.ReadString('\n')
		if err != nil || line == other {
			return err == nil
		}
	}
}
