package testkit

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Redis is a redis-server that a test may end and start again.
type Redis struct {
	*Process                         // the running process, or the last process
	Network, Address, URL, Port, Dir string
	Args                             []string      // of the next start
	Admin                            *redis.Client // of the test itself

	t   testing.TB
	env []string
	tls *tls.Config // of Admin; nil for none
}

// NewRedis is a redis-server with an append-only file, not started yet. If args name an argument
// twice, the last one counts.
func NewRedis(t testing.TB, args ...string) *Redis {
	t.Helper()
	dir, port := t.TempDir(), FreePort(t)
	address := net.JoinHostPort("127.0.0.1", port)
	return (&Redis{
		Network: "tcp", Address: address, URL: "redis://" + address + "/0", Port: port, Dir: dir, t: t,
		Args: append([]string{"--port", port, "--bind", "127.0.0.1", "--dir", dir, "--appendonly", "yes", "--save", "", "--loglevel", "warning"}, args...),
	}).withAdmin()
}

// StartRedis makes a redis-server with NewRedis, and starts the server.
func StartRedis(t testing.TB, args ...string) *Redis {
	t.Helper()
	r := NewRedis(t, args...)
	r.Start()
	return r
}

// StartVolatileRedis starts a redis-server that keeps nothing. The server listens on a socket in
// the test's folder, so the name of the test must be short. Env is added to the environment.
func StartVolatileRedis(t testing.TB, env ...string) *Redis {
	t.Helper()
	dir := t.TempDir()
	socket := filepath.Join(dir, "s")
	r := (&Redis{
		Network: "unix", Address: socket, URL: "unix://" + socket, Dir: dir, t: t, env: env,
		Args: []string{"--port", "0", "--unixsocket", socket, "--dir", dir, "--appendonly", "no", "--save", ""},
	}).withAdmin()
	r.Start()
	return r
}

func (r *Redis) withAdmin() *Redis {
	r.Admin = redis.NewClient(&redis.Options{
		Network: r.Network, Addr: r.Address, DisableIdentity: true, Protocol: 2, ContextTimeoutEnabled: true, TLSConfig: r.tls,
	})
	r.t.Cleanup(func() { _ = r.Admin.Close() })
	return r
}

// Launch starts the redis-server with the data in its folder, and does not wait for an answer.
func (r *Redis) Launch() {
	r.t.Helper()
	r.Process = Start(r.t, append(os.Environ(), r.env...), Program(r.t, "redis-server"), r.Args...)
}

// Start is Launch, and returns when the redis-server answers.
func (r *Redis) Start() {
	r.t.Helper()
	r.Launch()
	r.AwaitAnswer()
}

// AwaitAnswer returns when the redis-server answers. Another process may have taken the port
// since the port was free; answers of that process do not count.
func (r *Redis) AwaitAnswer() {
	r.t.Helper()
	Eventually(r.t, Soon, "redis-server answers, and no other process at "+r.Address, func() bool {
		select {
		case <-r.Done:
			r.t.Fatalf("redis-server ended: %v\n%s", r.Err, r.Log)
		default:
		}
		return r.answers()
	})
}

func (r *Redis) answers() bool {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second) // the server may stand still
	defer cancel()
	if err := r.Admin.Ping(ctx).Err(); err != nil {
		return redis.HasErrorPrefix(err, "NOAUTH") // the test has given the server a password
	}
	info, err := r.Admin.Info(ctx, "server").Result()
	return err == nil && strings.Contains(info, fmt.Sprintf("process_id:%d\r\n", r.PID()))
}

// Do runs a command of the test itself.
func (r *Redis) Do(args ...any) any {
	r.t.Helper()
	answer, err := r.Admin.Do(r.t.Context(), args...).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		r.t.Fatalf("%v: %v", args, err)
	}
	return answer
}

// Calls is how often the redis-server executed a command.
func (r *Redis) Calls(command string) int {
	r.t.Helper()
	info, err := r.Admin.Info(r.t.Context(), "commandstats").Result()
	if err != nil {
		r.t.Fatal(err)
	}
	_, stat, _ := strings.Cut(info, "cmdstat_"+command+":calls=")
	number, _, _ := strings.Cut(stat, ",")
	n, _ := strconv.Atoi(number)
	return n
}
