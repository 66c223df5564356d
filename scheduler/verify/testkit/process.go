package testkit

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"testing"
	"time"

	"chronos/scheduler/verify/freeport"
)

// Process is a child process. On Linux a Process ends with this process, whatever ends this
// process.
type Process struct {
	Cmd  *exec.Cmd
	Log  *Log          // output of the process
	Done chan struct{} // closed when the process has ended
	Err  error         // how the process ended; set before Done is closed
}

// Launch starts a program that prints to out. The caller ends it by Kill or Stop.
func Launch(out io.Writer, env []string, name string, args ...string) (*Process, error) {
	p := &Process{Cmd: exec.Command(name, args...), Done: make(chan struct{})} //nolint:noctx // Kill ends it
	p.Cmd.Env = env
	p.Cmd.Stdout, p.Cmd.Stderr = out, out
	p.Cmd.SysProcAttr = endsWithParent()
	started := make(chan error, 1)
	go func() {
		// To the kernel the parent is the thread, so the thread must live as long as the child.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.Cmd.Start()
		started <- err
		if err == nil {
			p.Err = p.Cmd.Wait()
			close(p.Done)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	return p, nil
}

// Start starts a program that is killed with the test. If the test fails, Start shows the end of
// the program's log.
func Start(t testing.TB, env []string, name string, args ...string) *Process {
	t.Helper()
	log := &Log{}
	p, err := Launch(log, env, name, args...)
	if err != nil {
		t.Fatal(err)
	}
	p.Log = log
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			t.Logf("log of %s (pid %d), end:\n%s", filepath.Base(name), p.PID(), log.Tail(40))
		}
	})
	return p
}

// PID is the process ID.
func (p *Process) PID() int { return p.Cmd.Process.Pid }

// Signal sends a signal, unless the process has ended.
func (p *Process) Signal(s syscall.Signal) { _ = p.Cmd.Process.Signal(s) }

// Kill ends the process at once, stopped or not, and returns when it has ended.
func (p *Process) Kill() {
	p.Signal(syscall.SIGKILL)
	<-p.Done
}

// Stop asks the process to end, and returns how the process ended. Stop kills a process that
// takes too long.
func (p *Process) Stop(within time.Duration) error {
	p.Signal(syscall.SIGTERM)
	select {
	case <-p.Done:
		return p.Err
	case <-time.After(within):
		p.Kill()
		return fmt.Errorf("pid %d had not ended %v after SIGTERM", p.PID(), within)
	}
}

// Program is the path of a program. Without the program, the test is skipped, or fails in CI.
func Program(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		Missing(t, name+" is not on PATH; make test installs it")
	}
	return path
}

// Missing skips a test if the machine lacks a program or the like. In CI the test fails.
func Missing(t testing.TB, why string) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatal(why)
	}
	t.Skip(why) //nolint:forbidigo // an external program is missing
}

// FreePort is an unused port of the loopback interface.
func FreePort(t testing.TB) string {
	t.Helper()
	port, err := freeport.Pick()
	if err != nil {
		t.Fatal(err)
	}
	return strconv.Itoa(port)
}

// built is the tests of a package with a program of ours.
type built struct {
	tests   interface{ Run() int }
	program string
	path    *string
}

// WithBinary builds a program of ours before the tests of a package run. Then path names the
// program.
func WithBinary(tests interface{ Run() int }, program string, path *string) interface{ Run() int } {
	return built{tests, program, path}
}

// Run returns the exit status.
func (b built) Run() int {
	dir, err := os.MkdirTemp("", "chronos-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, "make a folder for what is tested:", err)
		return 1
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary folder
	*b.path = filepath.Join(dir, filepath.Base(b.program))
	if out, err := exec.Command("go", "build", "-o", *b.path, b.program).CombinedOutput(); err != nil { //nolint:noctx // for all tests
		fmt.Fprintf(os.Stderr, "build %s: %v\n%s", b.program, err, out)
		return 1
	}
	return b.tests.Run()
}
