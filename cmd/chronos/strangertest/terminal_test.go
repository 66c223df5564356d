package strangertest

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"chronos/cmd/internal/pages"
	"chronos/scheduler/verify/testkit"
)

// stranger is someone with a clean clone, a home without settings, and terminals.
type stranger struct {
	t       *testing.T
	dir     string
	env     []string
	shell   *terminal
	cleanUp pages.Block // what ends the Redis instances; they are no children of a terminal
}

// newStranger makes a stranger, who needs the ports.
func newStranger(t *testing.T, ports ...string) *stranger {
	t.Helper()
	for _, port := range ports {
		l, err := net.Listen("tcp", "127.0.0.1:"+port) //nolint:noctx // closed at once
		if err != nil {
			t.Fatalf("the pages use the port %s, which is in use here: %v", port, err)
		}
		_ = l.Close()
	}
	root := output(t, ".", "git", "rev-parse", "--show-toplevel")
	prometheus := output(t, root, "go", "tool", "-n", "-modfile=.ci/tools.mod", "prometheus")
	s := &stranger{t: t, dir: filepath.Join(t.TempDir(), "chronos")}
	output(t, root, "git", "clone", "--quiet", root, s.dir)
	programs := t.TempDir()
	if err := os.Symlink(prometheus, filepath.Join(programs, "prometheus")); err != nil {
		t.Fatal(err)
	}
	s.env = []string{"PATH=" + programs + ":" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "XDG_RUNTIME_DIR=" + t.TempDir(), "TMPDIR=" + t.TempDir(), "NO_COLOR=1"}
	for _, name := range []string{"GOCACHE", "GOMODCACHE", "GOFLAGS", "GOPROXY", "GOSUMDB", "GOTOOLCHAIN"} {
		s.env = append(s.env, name+"="+output(t, root, "go", "env", name))
	}
	s.shell = s.terminal()
	t.Cleanup(func() {
		if t.Failed() && s.cleanUp.Script != "" {
			s.shell.run(s.cleanUp.Script)
		}
		s.shell.close()
	})
	return s
}

func output(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), name, args...)
	var errs strings.Builder
	command.Dir, command.Stderr = dir, &errs
	out, err := command.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, &errs)
	}
	return strings.TrimSpace(string(out))
}

// terminal is a shell that takes one block after another.
type terminal struct {
	t      *testing.T
	shell  *exec.Cmd
	in     io.WriteCloser
	log    *testkit.Log
	blocks int
	ended  chan struct{}
}

func (s *stranger) terminal() *terminal {
	s.t.Helper()
	// Not the test's context, which ends before the cleaning up.
	term := &terminal{t: s.t, shell: exec.CommandContext(context.Background(), "bash"), log: &testkit.Log{}, ended: make(chan struct{})}
	term.shell.Dir, term.shell.Env, term.shell.Stdout, term.shell.Stderr = s.dir, s.env, term.log, term.log
	term.shell.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	term.shell.WaitDelay = time.Second
	var err error
	if term.in, err = term.shell.StdinPipe(); err == nil {
		err = term.shell.Start()
	}
	if err != nil {
		s.t.Fatal(err)
	}
	go func() {
		defer close(term.ended)
		_ = term.shell.Wait()
	}()
	return term
}

// open runs a block that does not end by itself, in a terminal of its own, until the block prints a text.
func (s *stranger) open(b pages.Block, ready string, within time.Duration) *terminal {
	s.t.Helper()
	term := s.terminal()
	s.t.Cleanup(term.close)
	_, _ = io.WriteString(term.in, b.Script+"\nexit\n")
	term.await(ready, within)
	return term
}

func (term *terminal) await(text string, within time.Duration) {
	term.t.Helper()
	testkit.Eventually(term.t, within, "the terminal shows "+text+" (log below)", func() bool {
		select {
		case <-term.ended:
			if !strings.Contains(term.log.String(), text) {
				term.t.Fatalf("ended without %q:\n%s", text, term.log.Tail(40))
			}
		default:
		}
		return strings.Contains(term.log.String(), text)
	})
}

// run runs a block, and waits for the end.
func (term *terminal) run(script string) (printed string, status int) {
	term.t.Helper()
	term.blocks++
	end := fmt.Sprintf("block %d has ended: ", term.blocks)
	before := len(term.log.String())
	_, _ = fmt.Fprintf(term.in, "%s\necho \"%s$?.\"\n", script, end)
	testkit.Eventually(term.t, compiles, "the end of\n"+script, func() bool {
		text, rest, _ := strings.Cut(term.log.String()[before:], end)
		code, _, ended := strings.Cut(rest, ".")
		printed = text
		status, _ = strconv.Atoi(code)
		return ended
	})
	return printed, status
}

// interrupt is Ctrl-C.
func (term *terminal) interrupt() {
	term.t.Helper()
	_ = syscall.Kill(-term.shell.Process.Pid, syscall.SIGINT)
	select {
	case <-term.ended:
	case <-time.After(testkit.Soon):
		term.t.Errorf("%v after Ctrl-C there are still processes:\n%s", testkit.Soon, term.log.Tail(20))
	}
}

// close ends the terminal with all that runs in the terminal.
func (term *terminal) close() {
	if term.t.Failed() {
		term.t.Logf("a terminal showed at last:\n%s", term.log.Tail(30))
	}
	_ = syscall.Kill(-term.shell.Process.Pid, syscall.SIGKILL)
	<-term.ended
}
