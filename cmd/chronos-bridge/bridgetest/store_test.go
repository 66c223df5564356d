package bridgetest

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"chronos/internal/testkit"
)

// store is a redis-server with an append-only file, as many starts as it may have.
type store struct {
	*testkit.Process
	t               *testing.T
	name, port, dir string
	client          *redis.Client
}

// needRedis skips the test where there is no redis-server, but not in CI.
func needRedis(t *testing.T) (path string) {
	t.Helper()
	path, err := exec.LookPath("redis-server")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("redis-server is not installed; make test installs it")
		}
		t.Skip("redis-server is not installed; make test installs it") //nolint:forbidigo // an external program is missing
	}
	return path
}

func newStore(t *testing.T, name string) *store {
	t.Helper()
	s := &store{t: t, name: name, port: freePort(t), dir: t.TempDir()}
	s.client = redis.NewClient(&redis.Options{Addr: net.JoinHostPort("127.0.0.1", s.port)})
	t.Cleanup(func() { _ = s.client.Close() })
	s.start()
	return s
}

// start starts the redis-server with what is in its folder.
func (s *store) start() {
	s.t.Helper()
	s.Process = testkit.Start(s.t, os.Environ(), needRedis(s.t), "--port", s.port, "--bind", "127.0.0.1", "--dir", s.dir,
		"--appendonly", "yes", "--save", "", "--loglevel", "warning")
	s.answers()
}

func (s *store) answers() {
	s.t.Helper()
	testkit.Await(s.t, 10*time.Second, "redis-server "+s.name+" answers", func() bool {
		return s.client.Ping(s.t.Context()).Err() == nil
	})
}

// stop has it stand still, goOn ends that.
func (s *store) stop() { s.Signal(syscall.SIGSTOP) }

func (s *store) goOn() { s.t.Helper(); s.Signal(syscall.SIGCONT); s.answers() }

func (s *store) url() string { return s.name + "=redis://127.0.0.1:" + s.port + "/0" }

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // at once
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() //nolint:errcheck // nothing was written
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

// contents are what all stores of a rig hold of the bridges' lane.
type contents struct {
	live, leases, letters int
	tombstones            map[string]int // copies of each
}

func (r *rig) readContents(ctx context.Context) (contents, error) {
	all := contents{tombstones: make(map[string]int)}
	for _, s := range r.stores {
		for p := range 16 {
			if err := all.read(ctx, s, fmt.Sprintf("chronos:{kafka.%02d}:", p)); err != nil {
				return all, fmt.Errorf("read store %s: %w", s.name, err)
			}
		}
	}
	return all, nil
}

// read reads a partition's keys, as lua/README.md describes them.
func (all *contents) read(ctx context.Context, s *store, prefix string) error {
	const header = 13 // fields before the specification, which a tombstone lacks
	pipe := s.client.TxPipeline()
	timers, leases, dead := pipe.HGetAll(ctx, prefix+"timers"), pipe.HLen(ctx, prefix+"leases"), pipe.ZCard(ctx, prefix+"dead")
	if _, err := pipe.Exec(ctx); err != nil {
		return err
	}
	all.leases += int(leases.Val())
	all.letters += int(dead.Val())
	for key, record := range timers.Val() {
		fields := strings.SplitN(record, " ", header+1)
		switch {
		case key == "#":
		case len(fields) < header:
			return fmt.Errorf("record of %s has %d fields", key, len(fields))
		case len(fields) == header || fields[header] == "":
			all.tombstones[key]++
		default:
			all.live++
		}
	}
	return nil
}
