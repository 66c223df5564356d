package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

const (
	stopLimit  = 15 * time.Second // from SIGTERM to SIGKILL
	readyLimit = 20 * time.Second
	readyAgain = 50 * time.Millisecond
)

// process is a program that runs until it ends or stop is called. It is started by start.
type process struct {
	name   string
	cancel context.CancelFunc
	ended  chan struct{} // closed when the program has ended and err is set
	err    error
}

// command is a program that gets SIGTERM when ctx ends, and SIGKILL if it goes on. It is not in our process group, so
// that Ctrl-C leaves it to us in which order they end.
func command(ctx context.Context, path string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = stopLimit
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd
}

// start runs a program with its output in a file. The end of ctx does not end it: stop must be called.
func start(ctx context.Context, name, logPath string, env []string, path string, args ...string) (*process, error) {
	log, err := os.Create(logPath)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	cmd := command(own, path, args...)
	cmd.Stdout, cmd.Stderr, cmd.Env = log, log, append(os.Environ(), env...)
	if err := cmd.Start(); err != nil {
		cancel()
		return nil, errors.Join(fmt.Errorf("start %s: %w", name, err), log.Close())
	}
	p := &process{name: name, cancel: cancel, ended: make(chan struct{})}
	go func() {
		defer close(p.ended)
		// Stopped by us, it ends well if its status is 0; Wait would call that canceled.
		if err := cmd.Wait(); err != nil && !cmd.ProcessState.Success() {
			p.err = fmt.Errorf("%s ended: %w", name, err)
		}
		_ = log.Close()
	}()
	return p, nil
}

// stop ends the program if it runs and returns its error, nil if it ended with status 0. It may be called again.
func (p *process) stop() error {
	p.cancel()
	<-p.ended
	return p.err
}

// wait waits until the program or ctx ends.
func (p *process) wait(ctx context.Context) error {
	select {
	case <-p.ended:
		return p.err
	case <-ctx.Done():
		return fmt.Errorf("wait for %s: %w", p.name, ctx.Err())
	}
}

// freeAddress is one of the loopback interface that nobody listens on.
func freeAddress(ctx context.Context) (string, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	return address, nil
}

// ready waits until url answers 200. It fails when the program ends before, and after a while.
func (p *process) ready(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, readyLimit)
	defer cancel()
	again := time.NewTicker(readyAgain)
	defer again.Stop()
	for {
		_, err := request(ctx, http.MethodGet, url)
		if err == nil {
			return nil
		}
		select {
		case <-p.ended:
			return errors.Join(fmt.Errorf("wait for %s: it ended", p.name), p.err)
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w; last answer: %w", p.name, ctx.Err(), err)
		case <-again.C:
		}
	}
}

// request returns the body of the answer. Any status but 200 is an error.
func request(ctx context.Context, method, url string) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, method, url, http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", url, err)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", url, err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", url, err)
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("ask %s: %s: %s", url, response.Status, body)
	}
	return body, nil
}

// killInDirectory ends what still works in a directory that is ours alone: the redis-server of a node that had to be
// killed. It returns how many there were. Where there is no /proc it finds none.
func killInDirectory(dir string) int {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return 0
	}
	links, err := filepath.Glob("/proc/[0-9]*/cwd")
	if err != nil {
		return 0
	}
	killed := 0
	for _, link := range links {
		if cwd, err := os.Readlink(link); err != nil || cwd != dir {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(link)))
		if err == nil && syscall.Kill(pid, syscall.SIGKILL) == nil {
			killed++
		}
	}
	return killed
}
