package processtest

import (
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"chronos/cmd/internal/pages"
	"chronos/scheduler/verify/testkit"
)

const (
	repository = "../../.."
	// Blocks that no test runs: each needs what the machine of a test lacks, or takes minutes.
	mostNotRun = 25
)

// TestShellBlocks runs the shell blocks of README and docs in their order, each page on a cluster of its own with three
// Redis instances, two nodes and a receiver. A block ends with status 0, and prints what the page shows. A curl that is
// refused fails, unless the page shows so.
func TestShellBlocks(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob(repository + "/docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	paths = append(paths, repository+"/README.md")
	slices.Reverse(paths) // topology.md takes longest, and so begins among the first
	notRun, run := []string{}, 0
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Base(path)
		blocks, err := pages.Read(string(text))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		ours := slices.DeleteFunc(slices.Clone(blocks), func(b pages.Block) bool { return b.How == pages.NotRun || b.How == pages.RunBy })
		for _, b := range blocks {
			switch b.How {
			case pages.NotRun:
				notRun = append(notRun, fmt.Sprintf("%s:%d: %s", name, b.Line, b.Note))
			case pages.RunBy:
				wantRunBy(t, name, b)
			default:
				run++
			}
		}
		for len(ours) > 0 {
			next := 1 + slices.IndexFunc(ours[1:], func(b pages.Block) bool { return b.Fresh })
			if next == 0 {
				next = len(ours)
			}
			part := ours[:next]
			ours = ours[next:]
			t.Run(fmt.Sprintf("%s:%d", name, part[0].Line), func(t *testing.T) {
				t.Parallel()
				follow(t, part)
			})
		}
	}
	t.Logf("%d blocks are run, %d are not:\n%s", run, len(notRun), strings.Join(notRun, "\n"))
	if len(notRun) > mostNotRun {
		t.Errorf("%d blocks are not run, want %d at most", len(notRun), mostNotRun)
	}
	if run < 40 {
		t.Errorf("only %d blocks are run", run)
	}
}

// wantRunBy checks that a test of the package that is to run the block reads the page.
func wantRunBy(t *testing.T, page string, b pages.Block) {
	t.Helper()
	tests, err := filepath.Glob(filepath.Join(repository, b.Note, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(tests, func(path string) bool {
		text, err := os.ReadFile(path)
		return err == nil && strings.Contains(string(text), "/"+page) && strings.Contains(string(text), "pages.Read(")
	}) {
		t.Errorf("%s:%d: no test of %s reads the page", page, b.Line, b.Note)
	}
}

// receiverProgram builds the receiver of the load tests once.
var receiverProgram = sync.OnceValues(func() (string, error) {
	path := filepath.Join(filepath.Dir(binary), "receiver")
	out, err := exec.Command("go", "build", "-C", repository+"/loadtest", "-o", path, "./receiver").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build the receiver: %w\n%s", err, out)
	}
	return path, nil
})

// follower follows a page as a user does, in one folder and one shell.
type follower struct {
	t       *testing.T
	dir     string
	env     []string
	real    map[string]string // what stands on the page, and what stands for it
	running []*testkit.Process
	servers map[string]*testkit.Process // by the address on the page
}

func follow(t *testing.T, blocks []pages.Block) {
	t.Helper()
	f := newFollower(t)
	text := ""
	for _, b := range blocks {
		text += b.First + b.Script
	}
	f.start(text)
	for _, b := range blocks {
		if err := f.block(b); err != nil {
			t.Fatalf("block at line %d: %v\n%s", b.Line, err, b.Script)
		}
	}
	for _, p := range slices.Backward(f.running) {
		f.interrupt(p)
	}
}

// newFollower makes a folder that has all of the repository but what is built there.
func newFollower(t *testing.T) *follower {
	t.Helper()
	f := &follower{t: t, dir: t.TempDir(), real: map[string]string{}, servers: map[string]*testkit.Process{}}
	entries, err := os.ReadDir(repository)
	if err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs(repository)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if name := entry.Name(); !slices.Contains([]string{".git", ".bin", "chronos-data", "tokens", "profile"}, name) {
			f.link(filepath.Join(root, name), name)
		}
	}
	programs := filepath.Join(t.TempDir(), "bin")
	if err := os.Mkdir(programs, 0o755); err != nil {
		t.Fatal(err)
	}
	curl := testkit.Program(t, "curl")
	f.write(filepath.Join(programs, "curl"), fmt.Sprintf("#!/bin/bash\nexec %s -sS ${CURL_FAIL:-} -w '\\n' \"$@\"\n", curl))
	if err := os.Symlink(binary, filepath.Join(programs, "chronos")); err != nil {
		t.Fatal(err)
	}
	api, admin, receiver := address(t), address(t), address(t)
	f.env = []string{
		"PATH=" + programs + ":" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "XDG_RUNTIME_DIR=" + t.TempDir(), "NO_COLOR=1",
		"GOCACHE=" + goEnv(t, "GOCACHE"), "GOMODCACHE=" + goEnv(t, "GOMODCACHE"), "GOFLAGS=" + goEnv(t, "GOFLAGS"), "GOPROXY=" + goEnv(t, "GOPROXY"),
		"CHRONOS_LISTEN=" + api, "CHRONOS_ADMIN_LISTEN=" + admin, "CHRONOS_URL=http://" + api, "CHRONOS_ADMIN_URL=http://" + admin,
	}
	_, port, _ := net.SplitHostPort(admin)
	maps.Copy(f.real, map[string]string{
		"localhost:7253": api, "127.0.0.1:7253": api, "localhost:7254": admin, "127.0.0.1:7254": admin, "127.0.0.1-7254": "127.0.0.1-" + port,
		"127.0.0.1:9000": receiver, "go run -C loadtest ./receiver": "go run -C loadtest ./receiver -listen " + receiver,
		"/etc/chronos/": f.dir + "/etc/", "/var/lib/redis/": f.dir + "/redis/", "/path/to/chronos": f.dir,
	})
	return f
}

func goEnv(t *testing.T, name string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "env", name).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

func address(t *testing.T) string {
	t.Helper()
	return net.JoinHostPort("127.0.0.1", testkit.FreePort(t))
}

func (f *follower) link(target, name string) {
	if err := os.Symlink(target, filepath.Join(f.dir, name)); err != nil {
		f.t.Fatal(err)
	}
}

func (f *follower) write(path, text string) {
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil { //nolint:gosec // a program
		f.t.Fatal(err)
	}
}
