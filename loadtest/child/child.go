// Package child starts the measured programs, waits for them, sends requests to them and ends them.
package child

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

	"chronos/scheduler/verify/freeport"
)

const (
	stopLimit  = 15 * time.Second // from SIGTERM to SIGKILL
	readyLimit = 20 * time.Second
	readyAgain = 20 * time.Millisecond
)

// Process is a program that runs until the program ends or Stop is called.
type Process struct {
	name   string
	log    string
	cmd    *exec.Cmd
	cancel context.CancelFunc
	ended  chan struct{} // closed when the program has ended and err is set
	err    error
}

// Command is a program that gets SIGTERM when ctx ends, and SIGKILL if the program goes on. The
// program is not in our process group: Ctrl-C does not end the program, so the caller decides the
// order of ends.
func Command(ctx context.Context, path string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = stopLimit
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd
}

// Start starts a program; the output goes to a file of dir. The end of ctx does not end the
// program: the caller must call Stop.
func Start(ctx context.Context, name, dir string, env []string, path string, args ...string) (*Process, error) {
	log, err := os.CreateTemp(dir, name+"-*.log")
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	cmd := Command(own, path, args...)
	cmd.Stdout, cmd.Stderr, cmd.Env = log, log, append(os.Environ(), env...)
	if err := cmd.Start(); err != nil {
		cancel()
		return nil, errors.Join(fmt.Errorf("start %s: %w", name, err), log.Close())
	}
	p := &Process{name: name, log: log.Name(), cmd: cmd, cancel: cancel, ended: make(chan struct{})}
	go func() {
		defer close(p.ended)
		// A stopped program ends well if the exit status is 0, although Wait then reports the
		// canceled context.
		if err := cmd.Wait(); err != nil && !cmd.ProcessState.Success() {
			p.err = fmt.Errorf("%s ended: %w", name, err)
		}
		_ = log.Close()
	}()
	return p, nil
}

// PID is the id of the process.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Stop ends the program if the program runs, and waits for the end. Stop returns an error if the
// exit status is not 0. Stop may be called again.
func (p *Process) Stop() error {
	p.cancel()
	<-p.ended
	return p.err
}

// CPU is the processor time of the program. The program must have ended.
func (p *Process) CPU() time.Duration {
	<-p.ended
	return p.cmd.ProcessState.UserTime() + p.cmd.ProcessState.SystemTime()
}

// Wait waits until the program ends by itself, or ctx ends.
func (p *Process) Wait(ctx context.Context) error {
	select {
	case <-p.ended:
		return p.err
	case <-ctx.Done():
		return fmt.Errorf("wait for %s: %w", p.name, ctx.Err())
	}
}

// Tail is the end of the program's output.
func (p *Process) Tail() string {
	const tail = 2000
	text, err := os.ReadFile(p.log)
	if err != nil {
		return ""
	}
	return string(text[max(0, len(text)-tail):])
}

// Output is the whole output of the program.
func (p *Process) Output() ([]byte, error) {
	text, err := os.ReadFile(filepath.Clean(p.log))
	if err != nil {
		return nil, fmt.Errorf("read output of %s: %w", p.name, err)
	}
	return text, nil
}

// Until repeats ask until ask succeeds. Until fails when the program ends earlier, and after a
// while.
func (p *Process) Until(ctx context.Context, ask func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, readyLimit)
	defer cancel()
	again := time.NewTicker(readyAgain)
	defer again.Stop()
	for {
		err := ask(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-p.ended:
			return fmt.Errorf("wait for %s: it ended: %w\n%s", p.name, errors.Join(p.err, err), p.Tail())
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w; last: %w\n%s", p.name, ctx.Err(), err, p.Tail())
		case <-again.C:
		}
	}
}

// Answers is an ask for Until: a GET of url must be answered 200.
func Answers(url string) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := Ask(ctx, http.MethodGet, url)
		return err
	}
}

// Ask sends a request and returns the body of the answer. Any status but 200 is an error.
func Ask(ctx context.Context, method, url string) ([]byte, error) {
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

// FreeAddress is a free host:port of the loopback interface.
func FreeAddress() (string, error) {
	port, err := freeport.Pick()
	if err != nil {
		return "", err
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), nil
}
