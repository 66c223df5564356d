// Package redistest runs real Redis servers for tests of the packages that speak Redis.
package redistest

import (
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"chronos/redisstore/endpoint"
	"chronos/scheduler/verify/testkit"
)

// Server is a redis-server that a test stops, kills and starts again.
type Server struct {
	*testkit.Process // that runs, or ran last

	t     *testing.T
	Args  []string // of the next start
	Port  string
	Admin *redis.Client // of the test itself
}

// Start starts a redis-server that keeps an append-only file; further
// arguments come last and win.
func Start(t *testing.T, args ...string) *Server {
	t.Helper()
	port := testkit.FreePort(t)
	return Run(t, port, append([]string{
		"--port", port, "--bind", "127.0.0.1", "--dir", t.TempDir(), "--save", "", "--appendonly", "yes",
	}, args...)...)
}

// Run starts a redis-server with these arguments alone, which have it listen on the port of
// this machine. The server ends with the test.
func Run(t *testing.T, port string, args ...string) *Server {
	t.Helper()
	p := &Server{t: t, Args: args, Port: port}
	p.Admin = redis.NewClient(&redis.Options{Addr: p.Addr(), DisableIdentity: true, Protocol: 2})
	t.Cleanup(func() { _ = p.Admin.Close() })
	p.Start()
	return p
}

// Addr is host:port.
func (p *Server) Addr() string { return "127.0.0.1:" + p.Port }

// URL leads to the first database.
func (p *Server) URL() string { return "redis://" + p.Addr() + "/0" }

// Shard is the first database as a shard.
func (p *Server) Shard(name string) endpoint.Config { return endpoint.Config{Name: name, URL: p.URL()} }

// Launch starts the server and doesn't wait for it.
func (p *Server) Launch() {
	p.t.Helper()
	p.Process = testkit.Start(p.t, nil, testkit.Program(p.t, "redis-server"), p.Args...)
}

// Start starts the server again, and waits until the server answers.
func (p *Server) Start() {
	p.t.Helper()
	p.Launch()
	Await(p.t, Soon, "redis-server to answer", func() bool {
		select {
		case <-p.Done:
			p.t.Fatalf("redis-server ended:\n%s", p.Log)
		default:
		}
		err := p.Admin.Ping(p.t.Context()).Err()
		var answer redis.Error
		return err == nil || errors.As(err, &answer) && !strings.HasPrefix(answer.Error(), "LOADING")
	})
}

// Do runs a command of the test itself.
func (p *Server) Do(args ...any) any {
	p.t.Helper()
	answer, err := p.Admin.Do(p.t.Context(), args...).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		p.t.Fatalf("%v: %v", args, err)
	}
	return answer
}

// Fact is a line of INFO.
func (p *Server) Fact(section, name string) string {
	p.t.Helper()
	info, err := p.Admin.Info(p.t.Context(), section).Result()
	if err != nil {
		p.t.Fatal(err)
	}
	for line := range strings.Lines(info) {
		if value, is := strings.CutPrefix(line, name+":"); is {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// Calls is how often the server executed a command.
func (p *Server) Calls(command string) int {
	stat := p.Fact("commandstats", "cmdstat_"+command)
	_, rest, _ := strings.Cut(stat, "calls=")
	number, _, _ := strings.Cut(rest, ",")
	n, _ := strconv.Atoi(number)
	return n
}
