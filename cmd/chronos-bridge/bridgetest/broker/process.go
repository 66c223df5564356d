package broker

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// process is a child that doesn't outlive the test, however that ends.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended; err is set before
	err  error
}

// startProcess starts a command that writes to the end of a log.
func startProcess(log, name string, args ...string) (*process, error) {
	out, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open the log: %w", err)
	}
	defer func() { _ = out.Close() }()                                         // the child has its own
	p := &process{cmd: exec.Command(name, args...), done: make(chan struct{})} //nolint:noctx // ended by kill
	p.cmd.Stdout, p.cmd.Stderr = out, out
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
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	return p, nil
}

func (p *process) signal(s syscall.Signal) error {
	if err := p.cmd.Process.Signal(s); err != nil {
		return fmt.Errorf("send %v to pid %d: %w", s, p.cmd.Process.Pid, err)
	}
	return nil
}

// kill ends the process at once, stopped or not, and returns when it has ended.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // fails only if it has ended
	<-p.done
}
