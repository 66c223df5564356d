package bridgetest

import (
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"chronos/internal/testkit"
)

// process is a child of the test that is killed with it.
type process struct {
	cmd  *exec.Cmd
	log  *testkit.Log
	done chan struct{} // closed when it has ended; err is set before
	err  error
}

func start(t *testing.T, env []string, name string, args ...string) *process {
	t.Helper()
	p := &process{cmd: exec.Command(name, args...), log: &testkit.Log{}, done: make(chan struct{})} //nolint:noctx // ended below
	p.cmd.Env = env
	p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
	p.cmd.SysProcAttr = endsWithParent()
	started := make(chan error, 1)
	go func() {
		// To the kernel the parent is the thread, which must live as long as the child therefore.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			p.err = p.cmd.Wait()
			close(p.done)
		}
	}()
	if err := <-started; err != nil {
		t.Fatalf("start %s: %v", name, err)
	}
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("log of %s (pid %d), end:\n%s", filepath.Base(name), p.cmd.Process.Pid, p.log.Tail(40))
		}
	})
	return p
}

func (p *process) signal(s syscall.Signal) { _ = p.cmd.Process.Signal(s) }

// kill ends the process at once and returns when it has ended.
func (p *process) kill() {
	p.signal(syscall.SIGKILL)
	<-p.done
}

// stop asks the process to end, which it must do in good order.
func (p *process) stop(t *testing.T, within time.Duration) {
	t.Helper()
	p.signal(syscall.SIGTERM)
	select {
	case <-p.done:
		if p.err != nil {
			t.Errorf("pid %d ended after SIGTERM with %v", p.cmd.Process.Pid, p.err)
		}
	case <-time.After(within):
		t.Errorf("pid %d has not ended %v after SIGTERM", p.cmd.Process.Pid, within)
		p.kill()
	}
}

// eventually polls until the condition holds, and reports whether it came to that.
// The test goes on without it: what is missing is worth more with all the figures.
func eventually(t *testing.T, within, each time.Duration, what string, holds func() bool) bool {
	t.Helper()
	deadline := time.After(within)
	ticker := time.NewTicker(each)
	defer ticker.Stop()
	for !holds() {
		select {
		case <-ticker.C:
		case <-deadline:
			t.Errorf("waited %v in vain: %s", within, what)
			return false
		}
	}
	return true
}
