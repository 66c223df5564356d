package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	askAgain      = 20 * time.Millisecond  // between two looks whether a redis-server is ready
	lockAgain     = 100 * time.Millisecond // between two looks whether a redis-server that isn't our child has died
	dialLimit     = 300 * time.Millisecond
	firstProgress = time.Second
	progressEvery = 5 * time.Second
)

var (
	errGone    = errors.New("redis-server ended")
	errForeign = errors.New("another redis-server answers")
)

// redisServer is one process of redis-server.
type redisServer struct {
	pid     int
	ours    bool          // our child, and not taken over from an earlier node
	gone    chan struct{} // closed when the process has died
	waitErr error         // how our child ended, set before gone is closed
	logPath string
	logFrom int64       // where this process' part of the log begins
	process *os.Process // nil, with pid 0, if taken over and without an answer yet
}

func (s *redisServer) isGone() bool {
	select {
	case <-s.gone:
		return true
	default:
		return false
	}
}

// waitGone waits for the end of the process, and reports whether the process is gone.
func (s *redisServer) waitGone(ctx context.Context, d time.Duration) bool {
	limit := time.NewTimer(d)
	defer limit.Stop()
	select {
	case <-s.gone:
	case <-limit.C:
	case <-ctx.Done():
	}
	return s.isGone()
}

// end says how the process ended. Call end after gone is closed.
func (s *redisServer) end() error {
	if s.waitErr != nil {
		return fmt.Errorf("%w: %w", errGone, s.waitErr)
	}
	return errGone
}

func (s *redisServer) logTail() string { return tail(s.logPath, s.logFrom, 8) }

// launch starts a redis-server and gives the lock to the redis-server. The data directory
// is the working directory, so that no path in the configuration can be too long.
func (e *embedded) launch(ctx context.Context, lock *os.File) (*redisServer, error) {
	defer func() { _ = lock.Close() }() // the child has its own
	if e.dial(ctx) == nil {
		return nil, fmt.Errorf("start redis-server in %s: one that no node started serves it already; stop it (%s shutdown)",
			e.dir.given, e.dir.cli())
	}
	log, from, err := e.dir.openLog()
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }() // the child has its own
	// The context must not end the redis-server: Stop does, or the redis-server lives on for
	// the next node.
	cmd := exec.CommandContext(context.WithoutCancel(ctx), e.binary, redisArguments()...)
	cmd.Dir = e.dir.path
	cmd.Env = redisEnvironment(os.Environ())
	cmd.Stdout, cmd.Stderr = log, log
	cmd.ExtraFiles = []*os.File{lock}
	// In the node's process group, Ctrl-C would end the redis-server before the node has drained.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start redis-server: %w", err)
	}
	s := &redisServer{pid: cmd.Process.Pid, process: cmd.Process, ours: true, gone: make(chan struct{}), logPath: log.Name(), logFrom: from}
	go func() { // ends with the process
		s.waitErr = cmd.Wait()
		close(s.gone)
	}()
	return s, nil
}

// redisArguments configure a redis-server that only its owner can reach, through the
// socket. A killed redis-server keeps all acknowledged writes; a power failure loses only
// the last second.
func redisArguments() []string {
	return []string{
		"--port", "0", "--protected-mode", "yes", "--unixsocket", redisSocket, "--unixsocketperm", "700",
		"--dir", ".", "--pidfile", redisPID, "--daemonize", "no", "--supervised", "no",
		"--appendonly", "yes", "--appendfsync", "everysec", "--aof-load-truncated", "yes", "--save", "",
		"--maxmemory-policy", "noeviction",
	}
}

// redisEnvironment hides the node's configuration from a redis-server, since the
// configuration may hold passwords.
func redisEnvironment(environ []string) []string {
	env := make([]string, 0, len(environ))
	for _, entry := range environ {
		if !strings.HasPrefix(entry, "CHRONOS_") {
			env = append(env, entry)
		}
	}
	return env
}

// takeOver watches a redis-server that an earlier node started, or the remains of that
// redis-server. Once the lock is free, the redis-server is gone.
func (e *embedded) takeOver() *redisServer {
	s := &redisServer{gone: make(chan struct{}), logPath: e.dir.file(redisLog)}
	go func() { // ends with the process, at the latest with Stop
		again := time.NewTicker(lockAgain)
		defer again.Stop()
		for {
			select {
			case <-e.stopped:
				return
			case <-again.C:
			}
			if lock, err := e.dir.lockForRedis(); err == nil {
				s.waitErr = unlock(lock)
				close(s.gone)
				return
			}
		}
	}()
	return s
}

// awaitReady waits until the redis-server answers and has loaded its data. The wait fails
// when the context ends, and with errGone if the redis-server dies.
func (e *embedded) awaitReady(ctx context.Context, s *redisServer) error {
	began, progress := time.Now(), firstProgress
	again := time.NewTicker(askAgain)
	defer again.Stop()
	for {
		err := e.identify(ctx, s)
		if err == nil {
			err = e.client.Ping(ctx).Err()
		}
		if err == nil {
			e.log.Info("redis-server is ready", "pid", s.pid, "dir", e.dir.given, "taken_over", !s.ours,
				"waited", time.Since(began).Round(time.Millisecond))
			return nil
		}
		if errors.Is(err, errForeign) {
			return fmt.Errorf("look at redis-server in %s: %w", e.dir.given, err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for redis-server in %s: %w; its last answer: %w", e.dir.given, ctx.Err(), err)
		case <-s.gone:
			return fmt.Errorf("start redis-server in %s: %w; its log %s ends with:\n%s", e.dir.given, s.end(), s.logPath, s.logTail())
		case <-again.C:
		}
		if elapsed := time.Since(began); elapsed >= progress {
			e.log.Info("redis-server is not ready yet", "pid", s.pid, "answer", err, "loaded", e.loaded(ctx), "elapsed", elapsed.Round(time.Second))
			progress = elapsed + progressEvery
		}
	}
}

// identify checks that the redis-server behind the socket has its data in our directory,
// and notes its pid. A redis-server tells its pid even while loading.
func (e *embedded) identify(ctx context.Context, s *redisServer) error {
	if err := e.dial(ctx); err != nil {
		return err
	}
	got, err := e.client.ConfigGet(ctx, "dir").Result()
	if err != nil {
		return err
	}
	ours, err := os.Stat(e.dir.path)
	if err != nil {
		return err
	}
	if its, err := os.Stat(got["dir"]); err != nil || !os.SameFile(ours, its) {
		return fmt.Errorf("%w: %s", errForeign, got["dir"])
	}
	text, err := e.info(ctx, "server", "process_id")
	if err != nil {
		return err
	}
	pid, err := strconv.Atoi(text)
	if err != nil {
		return fmt.Errorf("read process_id of redis-server: %w", err)
	}
	if s.process == nil {
		// The redis-server holds the lock and answers, so no later process has this pid.
		if s.process, err = os.FindProcess(pid); err != nil {
			return fmt.Errorf("find process of redis-server: %w", err)
		}
		s.pid = pid
	}
	if s.pid != pid {
		return fmt.Errorf("%w: pid %d instead of %d", errForeign, pid, s.pid)
	}
	return nil
}

// dial looks whether anybody listens. The client would write a line to standard error if
// nobody listens, though that is normal at a start.
func (e *embedded) dial(ctx context.Context) error {
	dialer := net.Dialer{Timeout: dialLimit}
	conn, err := dialer.DialContext(ctx, "unix", e.link.socket)
	if err != nil {
		return err
	}
	return conn.Close()
}

// info gives a field of INFO, or "" for a missing field.
func (e *embedded) info(ctx context.Context, section, field string) (string, error) {
	text, err := e.client.Info(ctx, section).Result()
	for line := range strings.Lines(text) {
		if name, value, _ := strings.Cut(strings.TrimSpace(line), ":"); name == field {
			return value, nil
		}
	}
	return "", err
}

// loaded is the share of the data that the redis-server has read so far, "" if unknown.
func (e *embedded) loaded(ctx context.Context) string {
	percent, err := e.info(ctx, "persistence", "loading_loaded_perc")
	if err != nil || percent == "" {
		return ""
	}
	return percent + " %"
}

// endServer ends the redis-server: first politely, so that the redis-server writes and
// syncs its file, then less politely. When the context has ended, SIGKILL is the only step
// left. Even SIGKILL loses no acknowledged write, unless the power fails too. endServer
// leaves a redis-server alone that was taken over and never told its pid.
func (e *embedded) endServer(ctx context.Context, s *redisServer) error {
	if s.process == nil {
		return nil
	}
	shutdown := func() error {
		if err := e.identify(ctx, s); err != nil {
			return err
		}
		return e.client.Shutdown(ctx).Err()
	}
	steps := []struct {
		name string
		do   func() error
		wait time.Duration
		ctx  context.Context
	}{
		{"SHUTDOWN", shutdown, 3 * time.Second, ctx},
		{"SIGTERM", func() error { return s.process.Signal(syscall.SIGTERM) }, 3 * time.Second, ctx},
		{"SIGKILL", s.process.Kill, 2 * time.Second, context.WithoutCancel(ctx)},
	}
	for _, step := range steps {
		if step.ctx.Err() != nil || s.isGone() {
			continue
		}
		err := step.do()
		if s.waitGone(step.ctx, step.wait) {
			e.log.Info("redis-server has ended", "pid", s.pid, "by", step.name)
			return nil
		}
		e.log.Warn("redis-server does not end", "pid", s.pid, "by", step.name, "error", err)
	}
	if s.isGone() {
		return nil
	}
	return fmt.Errorf("stop redis-server in %s: pid %d does not end", e.dir.given, s.pid)
}
