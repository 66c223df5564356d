package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"chronos/scheduler/awake"
)

// backend is a store that the node runs itself, because CHRONOS_REDIS names no
// shards. The methods are safe for concurrent use.
type backend interface {
	// URL is in the form that go-redis' ParseURL takes. The URL never changes.
	URL() string

	// CLI is a shell command that opens the store, typed in the node's working directory.
	CLI() string

	// Stop ends the store, and returns when the store has ended. The caller closes all
	// clients first. Later calls wait for the first call and return the same error. A
	// context that ends makes Stop hurry; Stop still cleans up everything.
	Stop(ctx context.Context) error
}

const (
	privateUmask   = 0o077
	steadyRun      = 10 * time.Second // after so long a life a redis-server is started again at once
	firstRestart   = 100 * time.Millisecond
	slowestRestart = 5 * time.Second
)

// embedded is a redis-server in the data directory that belongs to this node.
// The redis-server outlives the node's sudden death: the next node on the
// directory takes the redis-server over. Until Stop, a redis-server that dies is
// started again with the same data.
//
// Two locks keep the directory to a single node and a single redis-server. The
// node holds node.lock; the redis-server inherits and holds redis.lock. The kernel
// drops a lock when the holder ends, so nobody needs to trust a pid file.
type embedded struct {
	dir    dataDir
	binary string
	log    *slog.Logger
	lock   *os.File // node.lock
	link   *shortcut
	client *redis.Client // only for control: a single command at a time

	server *redisServer // the last; used by startEmbedded, then by supervise, then by Stop

	cancel     context.CancelFunc // ends supervise
	supervised chan struct{}      // closed when supervise has ended
	stop       sync.Once
	stopped    chan struct{} // closed at the end of Stop
	stopErr    error         // set before stopped is closed
}

var _ backend = (*embedded)(nil)

// startEmbedded creates the data directory if need be, makes sure that a redis-server
// serves the directory, and returns when the redis-server answers. Loading much data
// takes long and is logged. The context bounds only the start; the caller must call Stop.
func startEmbedded(ctx context.Context, path string, log *slog.Logger) (*embedded, error) {
	binary, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, errors.New("find redis-server on PATH: it is not there; install it (Debian: apt-get install redis-server), " +
			"or set CHRONOS_REDIS to a Redis, or set CHRONOS_REDIS=memory, which keeps nothing when the node ends")
	}
	if binary, err = filepath.Abs(binary); err != nil {
		return nil, fmt.Errorf("find redis-server: %w", err)
	}
	// From here on only this user can read the files of this process and of the redis-server.
	syscall.Umask(privateUmask)
	dir, err := openDataDir(path)
	if err != nil {
		return nil, err
	}
	lock, err := dir.lockForNode()
	if err != nil {
		return nil, err
	}
	link, err := dir.shorten()
	if err != nil {
		return nil, errors.Join(err, unlock(lock))
	}
	e := &embedded{
		dir: dir, binary: binary, log: log, lock: lock, link: link,
		client:     controlClient(link.socket),
		supervised: make(chan struct{}), stopped: make(chan struct{}),
	}
	background, cancel := context.WithCancel(context.WithoutCancel(ctx))
	e.cancel = cancel
	if err := e.attach(ctx); err != nil {
		close(e.supervised)
		return nil, errors.Join(err, e.Stop(ctx))
	}
	go e.supervise(background)
	return e, nil
}

// controlClient makes a client that gives up soon, because every caller asks again.
func controlClient(socket string) *redis.Client {
	return redis.NewClient(&redis.Options{
		Network: "unix", Addr: socket,
		Protocol: 2, PoolSize: 1, MaxRetries: -1, DialerRetries: 1,
		DialTimeout: dialLimit, ReadTimeout: time.Second, WriteTimeout: time.Second,
		ContextTimeoutEnabled: true, DisableIdentity: true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
}

func (e *embedded) URL() string { return socketURL(e.link.socket) }

func (e *embedded) CLI() string { return e.dir.cli() }

// attach finds or starts the redis-server and waits for an answer. If a redis-server
// that was found dies during the wait, attach starts a new redis-server.
func (e *embedded) attach(ctx context.Context) error {
	for ctx.Err() == nil {
		var s *redisServer
		lock, err := e.dir.lockForRedis()
		switch {
		case err == nil:
			if s, err = e.launch(ctx, lock); err != nil {
				return err
			}
		case errors.Is(err, errLocked):
			s = e.takeOver()
		default:
			return err
		}
		e.server = s
		err = e.awaitReady(ctx, s)
		switch {
		case err == nil:
			return nil
		case s.ours:
			return errors.Join(err, e.endServer(ctx, s))
		case !errors.Is(err, errGone):
			return err
		}
	}
	return fmt.Errorf("start redis-server in %s: %w", e.dir.given, ctx.Err())
}

// supervise starts a redis-server that has died again, until ctx ends.
func (e *embedded) supervise(ctx context.Context) {
	defer close(e.supervised)
	for tries := 0; ; {
		began := time.Now()
		select {
		case <-ctx.Done():
			return
		case <-e.server.gone:
		}
		e.log.Error("redis-server ended without being asked to; it is started again with the same data",
			"pid", e.server.pid, "error", e.server.end(), "last_lines", e.server.logTail())
		if time.Since(began) >= steadyRun {
			tries = 0
		}
		for again := true; again; tries++ {
			if !awake.Sleep(ctx, restartDelay(tries)) || ctx.Err() != nil {
				return
			}
			err := e.attach(ctx)
			if ctx.Err() != nil {
				return
			}
			if again = err != nil; again {
				e.log.Error("redis-server can't be started again", "error", err, "next_try_in", restartDelay(tries+1))
			}
		}
	}
}

// restartDelay is how long to wait before the next start after so many tries.
func restartDelay(tries int) time.Duration {
	if tries == 0 {
		return 0
	}
	return min(firstRestart<<min(tries-1, 16), slowestRestart)
}

func (e *embedded) Stop(ctx context.Context) error {
	e.stop.Do(func() {
		e.cancel()
		<-e.supervised
		var err error
		if e.server != nil {
			err = e.endServer(ctx, e.server)
		}
		e.stopErr = errors.Join(err, e.client.Close(), e.link.remove(), unlock(e.lock))
		close(e.stopped)
	})
	<-e.stopped
	return e.stopErr
}
