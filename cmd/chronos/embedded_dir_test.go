package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"chronos/scheduler/verify/testkit"
)

// TestShortcutOfKilledNodeIsRemoved leaves a shortcut as a killed node does.
func TestShortcutOfKilledNodeIsRemoved(t *testing.T) {
	t.Parallel()
	dir, err := openDataDir(filepath.Join(t.TempDir(), strings.Repeat("x", maxSocketPath)))
	if err != nil {
		t.Fatal(err)
	}
	left, err := dir.shorten()
	if err != nil {
		t.Fatal(err)
	}
	next, err := dir.shorten()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(left.temp); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s is left behind: %v", left.temp, err)
	}
	// The directory that a note names is removed only if the link in the directory leads here.
	other := t.TempDir()
	if err := os.WriteFile(dir.file(linkNote), []byte(other), 0o600); err != nil {
		t.Fatal(err)
	}
	third, err := dir.shorten()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(other); err != nil {
		t.Errorf("a directory that isn't a shortcut was removed: %v", err)
	}
	if err := errors.Join(next.remove(), third.remove()); err != nil {
		t.Error(err)
	}
}

func TestDirectoryThatOthersCanReadIsRefused(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "it's data")
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	for mode, refused := range map[fs.FileMode]bool{0o700: false, 0o500: false, 0o750: true, 0o705: true, 0o710: true, 0o702: true} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		_, err := openDataDir(path)
		if !refused {
			if err != nil {
				t.Errorf("mode %o: %v", mode, err)
			}
			continue
		}
		wantParts(t, err, path, fmt.Sprintf("mode %04o", mode), "chmod 700 "+quoted(path), "CHRONOS_DATA_DIR")
	}
	// The advice of the error helps.
	if out, err := exec.CommandContext(t.Context(), "sh", "-c", "chmod 700 "+quoted(path)).CombinedOutput(); err != nil {
		t.Fatalf("chmod: %v: %s", err, out)
	}
	if _, err := openDataDir(path); err != nil {
		t.Error(err)
	}
	if os.Geteuid() == 0 { // nobody else can give a directory away
		if err := os.Chown(path, 65534, 65534); err != nil {
			t.Fatal(err)
		}
		_, err := openDataDir(path)
		wantParts(t, err, path, "belongs to the user", "65534", "CHRONOS_DATA_DIR")
	}
}

func TestEmbeddedCLI(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", maxSocketPath)
	for given, want := range map[string]string{
		"./chronos-data":    "redis-cli -s ./chronos-data/redis.sock",
		"data/":             "redis-cli -s data/redis.sock",
		"/var/lib/my db":    "redis-cli -s '/var/lib/my db/redis.sock'",
		"it's":              `redis-cli -s 'it'\''s/redis.sock'`,
		long:                "(cd " + long + " && redis-cli -s redis.sock)",
		"$(reboot)/" + long: "(cd '$(reboot)/" + long + "' && redis-cli -s redis.sock)",
	} {
		if got := (dataDir{given: given}).cli(); got != want {
			t.Errorf("cli of %s: got %s, want %s", given, got, want)
		}
	}
}

func TestSocketURL(t *testing.T) {
	t.Parallel()
	for _, socket := range []string{"/run/a/redis.sock", "/a b/c,d=e/50%/ü?x#y/redis.sock"} {
		options, err := redis.ParseURL(socketURL(socket))
		if err != nil {
			t.Fatalf("parse %s: %v", socketURL(socket), err)
		}
		if options.Network != "unix" || options.Addr != socket {
			t.Errorf("%s leads to %s %s, want %s", socketURL(socket), options.Network, options.Addr, socket)
		}
		if strings.ContainsAny(socketURL(socket), ",=") {
			t.Errorf("%s would not be one part of a list", socketURL(socket))
		}
	}
}

func TestRestartDelay(t *testing.T) {
	t.Parallel()
	for tries, want := range map[int]time.Duration{
		0: 0, 1: 100 * time.Millisecond, 2: 200 * time.Millisecond, 6: 3200 * time.Millisecond, 7: 5 * time.Second, 1e6: 5 * time.Second,
	} {
		if got := restartDelay(tries); got != want {
			t.Errorf("restartDelay(%d) = %s, want %s", tries, got, want)
		}
	}
}

func TestRedisEnvironment(t *testing.T) {
	t.Parallel()
	got := redisEnvironment([]string{"PATH=/bin", "CHRONOS_REDIS=redis://:hunter2@h", "LANG=C"})
	if strings.Join(got, " ") != "PATH=/bin LANG=C" {
		t.Errorf("got %q", got)
	}
}

func TestLogIsPutAside(t *testing.T) {
	t.Parallel()
	dir := dataDir{path: t.TempDir()}
	if err := os.WriteFile(dir.file(redisLog), make([]byte, maxLog+1), 0o600); err != nil {
		t.Fatal(err)
	}
	file, end, err := dir.openLog()
	if err != nil || end != 0 {
		t.Fatalf("the new log begins at %d, %v", end, err)
	}
	defer func() { _ = file.Close() }()
	if _, err := file.WriteString("1\n2\n3\n"); err != nil {
		t.Fatal(err)
	}
	if got := tail(dir.file(redisLog), 0, 2); got != "2\n3" {
		t.Errorf("tail of two lines: %q", got)
	}
	if got := tail(dir.file(redisLog), 4, 9); got != "3" {
		t.Errorf("tail after an offset: %q", got)
	}
	if _, err := os.Stat(dir.file(redisLog + ".1")); err != nil {
		t.Error(err)
	}
}

func TestEmbeddedLongPath(t *testing.T) {
	t.Parallel()
	testkit.Program(t, "redis-server")
	dir := filepath.Join(newDataDir(t), strings.Repeat("long/", 30), "with, space=ü'")
	e, _ := startIn(t, dir)
	storeKey(t, e)
	temp := e.link.temp
	if temp == "" || len(e.link.socket) > maxSocketPath {
		t.Errorf("the socket is reached by %s", e.link.socket)
	}
	info, err := os.Stat(temp)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%s is %v, %v; want a directory of mode 700", temp, info, err)
	}
	output, err := exec.CommandContext(t.Context(), "sh", "-c", e.CLI()+" </dev/null").CombinedOutput()
	if err != nil {
		t.Errorf("%s: %v: %s", e.CLI(), err, output)
	}
	stopBackend(t, e)
	if _, err := os.Stat(temp); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s is left behind: %v", temp, err)
	}
	again, _ := startIn(t, dir)
	wantKey(t, again)
}
