package main

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"chronos/scheduler/verify/testkit"
)

const startLimit = 20 * time.Second

// newDataDir is the path of a data directory yet to be made. After the test, no process may live in the directory.
func newDataDir(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	t.Cleanup(func() {
		testkit.Eventually(t, startLimit, "no process lives in the data directory", func() bool { return len(processesIn(t, dir)) == 0 && isFree(dir) })
	})
	return dir
}

// isFree reports whether no redis-server holds the lock of the directory.
func isFree(dir string) bool {
	lock, err := tryLock(filepath.Join(dir, redisLock))
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	return unlock(lock) == nil
}

// processesIn are the processes with a working directory in dir, where the system shows processes.
func processesIn(t *testing.T, dir string) []string {
	t.Helper()
	if runtime.GOOS != "linux" {
		return nil
	}
	links, err := filepath.Glob("/proc/[0-9]*/cwd")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, link := range links {
		if cwd, err := os.Readlink(link); err == nil && (cwd == dir || strings.HasPrefix(cwd, dir+"/") || strings.HasPrefix(cwd, dir+" ")) {
			found = append(found, link)
		}
	}
	return found
}

// startIn starts an embedded store, and stops the store at the end of the test at the latest.
func startIn(t *testing.T, dir string) (*embedded, *testkit.Log) {
	t.Helper()
	log := &testkit.Log{}
	ctx, cancel := context.WithTimeout(t.Context(), startLimit)
	defer cancel()
	e, err := startEmbedded(ctx, dir, slog.New(slog.NewTextHandler(log, nil)))
	if err != nil {
		t.Fatalf("%v\n%s", err, log)
	}
	t.Cleanup(func() { stopBackend(t, e) })
	return e, log
}

func stopBackend(t *testing.T, b backend) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	if err := b.Stop(ctx); err != nil {
		t.Errorf("stop: %v", err)
	}
}

// clientOf reaches the backend as the node does: through the URL.
func clientOf(t *testing.T, b backend) *redis.Client {
	t.Helper()
	options, err := redis.ParseURL(b.URL())
	if err != nil {
		t.Fatalf("parse %s: %v", b.URL(), err)
	}
	c := redis.NewClient(options)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// storeKey stores the key that wantKey looks for.
func storeKey(t *testing.T, b backend) {
	t.Helper()
	if err := clientOf(t, b).Set(t.Context(), "timer", "kept", 0).Err(); err != nil {
		t.Fatalf("set: %v", err)
	}
}

func wantKey(t *testing.T, b backend) {
	t.Helper()
	if got, err := clientOf(t, b).Get(t.Context(), "timer").Result(); err != nil || got != "kept" {
		t.Errorf("get = %q, %v; want what was kept", got, err)
	}
}

// pidOf asks the redis-server for its pid, 0 without an answer.
func pidOf(t *testing.T, e *embedded) int {
	t.Helper()
	if e.dial(t.Context()) != nil {
		return 0
	}
	info, err := clientOf(t, e).Info(t.Context(), "server").Result()
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(info, "process_id:")
	pid, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		t.Fatalf("no process_id in %s", info)
	}
	return pid
}

func TestEmbeddedKeepsData(t *testing.T) {
	t.Parallel()
	testkit.Program(t, "redis-server")
	dir := newDataDir(t)
	first, _ := startIn(t, dir)
	storeKey(t, first)
	pid := pidOf(t, first)
	stopBackend(t, first)
	stopBackend(t, first) // again: nothing to do, and no error
	if !isFree(dir) {
		t.Error("the redis-server lives on after Stop")
	}

	second, log := startIn(t, dir)
	wantKey(t, second)
	if pidOf(t, second) == pid {
		t.Errorf("pid %d again: the first redis-server wasn't stopped", pid)
	}
	if !strings.Contains(log.String(), "taken_over=false") {
		t.Errorf("no line about a new redis-server in the log:\n%s", log)
	}
}

// TestEmbeddedReadsTornFile starts on a file that ends in half a command, as after a power failure.
func TestEmbeddedReadsTornFile(t *testing.T) {
	t.Parallel()
	testkit.Program(t, "redis-server")
	dir := newDataDir(t)
	first, _ := startIn(t, dir)
	storeKey(t, first)
	stopBackend(t, first)
	files, err := filepath.Glob(filepath.Join(dir, "appendonlydir", "*.incr.aof"))
	if err != nil || len(files) != 1 {
		t.Fatalf("append-only files: %v, %v", files, err)
	}
	file, err := os.OpenFile(files[0], os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = file.WriteString("*3\r\n$3\r\nSET\r\n$5\r\nti")
	if err := errors.Join(err, file.Close()); err != nil {
		t.Fatal(err)
	}
	second, _ := startIn(t, dir)
	wantKey(t, second)
}

func TestEmbeddedIsPrivateAndDurable(t *testing.T) {
	t.Parallel()
	testkit.Program(t, "redis-server")
	dir := newDataDir(t)
	e, _ := startIn(t, dir)
	for path, want := range map[string]fs.FileMode{"": 0o700, redisSocket: 0o700, nodeLock: 0o600, redisLock: 0o600, redisLog: 0o600} {
		info, err := os.Stat(filepath.Join(dir, path))
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != want {
			t.Errorf("mode of %q is %o, want %o", path, got, want)
		}
	}
	storeKey(t, e)
	if files := wantPrivate(t, dir); files < 6 {
		t.Errorf("%d files and folders in the data directory: the append-only file is missing", files)
	}
	settings := map[string]string{
		"port": "0", "appendonly": "yes", "appendfsync": "everysec", "save": "", "maxmemory-policy": "noeviction",
		"aof-load-truncated": "yes", "protected-mode": "yes", "dir": dir,
	}
	for name, want := range settings {
		got, err := clientOf(t, e).ConfigGet(t.Context(), name).Result()
		if err != nil || got[name] != want {
			t.Errorf("redis-server runs with %s %q, %v; want %q", name, got[name], err, want)
		}
	}
	group, err := syscall.Getpgid(pidOf(t, e))
	if err != nil || group == syscall.Getpgrp() {
		t.Errorf("process group %d, %v: a signal from the terminal would reach the redis-server", group, err)
	}
	if want := "redis-cli -s " + dir + "/redis.sock"; e.CLI() != want {
		t.Errorf("CLI() = %s, want %s", e.CLI(), want)
	}
}

// wantPrivate checks that only this user may read the files in the directory, and counts the
// files and folders.
func wantPrivate(t *testing.T, dir string) (files int) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		if files++; info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %o", path, info.Mode().Perm())
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestEmbeddedRefusesSecondNode(t *testing.T) {
	t.Parallel()
	testkit.Program(t, "redis-server")
	dir := newDataDir(t)
	first, _ := startIn(t, dir)
	storeKey(t, first)
	_, err := startEmbedded(t.Context(), dir, slog.New(slog.DiscardHandler))
	if err == nil {
		t.Fatal("a second node was let in")
	}
	for _, part := range []string{dir, "CHRONOS_REDIS", "pid " + strconv.Itoa(os.Getpid()) + " on "} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the refusal does not name %q: %v", part, err)
		}
	}
	wantKey(t, first)
}

// TestEmbeddedWaitsForLoading uses a redis-server that needs two seconds and more to read its data.
func TestEmbeddedWaitsForLoading(t *testing.T) {
	testkit.Program(t, "redis-server")
	const keys = 8000
	dir := newDataDir(t)
	first, _ := startIn(t, dir)
	_, err := clientOf(t, first).Pipelined(t.Context(), func(p redis.Pipeliner) error {
		for i := range keys {
			p.Set(t.Context(), strconv.Itoa(i), "kept", 0)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	stopBackend(t, first)
	slowDown(t)

	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	_, err = startEmbedded(ctx, dir, slog.New(slog.DiscardHandler))
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("start for half a second: %v, want %v", err, context.DeadlineExceeded)
	}
	if !isFree(dir) {
		t.Error("a start that gave up left its redis-server running")
	}

	second, log := startIn(t, dir)
	if size, err := clientOf(t, second).DBSize(t.Context()).Result(); err != nil || size != keys {
		t.Errorf("%d keys, %v; want %d", size, err, keys)
	}
	if line := "redis-server is not ready yet"; !strings.Contains(log.String(), line) {
		t.Errorf("no line %q about the loading in the log:\n%s", line, log)
	}
}

// slowDown puts a redis-server first in PATH that reads 3,000 keys a second.
func slowDown(t *testing.T) {
	t.Helper()
	server := testkit.Program(t, "redis-server")
	bin := t.TempDir()
	script := "#!/bin/sh\nexec '" + server + "' \"$@\" --key-load-delay 300\n"
	if err := os.WriteFile(filepath.Join(bin, "redis-server"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
}

func TestEmbeddedStartFaults(t *testing.T) {
	testkit.Program(t, "redis-server")
	t.Run("redis-server missing", func(t *testing.T) {
		t.Setenv("PATH", t.TempDir())
		_, err := startEmbedded(t.Context(), newDataDir(t), slog.New(slog.DiscardHandler))
		wantParts(t, err, "redis-server", "install", "CHRONOS_REDIS to a Redis", "CHRONOS_REDIS=memory")
	})
	t.Run("redis-server refuses its data", func(t *testing.T) {
		dir := newDataDir(t)
		if err := os.MkdirAll(filepath.Join(dir, "appendonlydir", "appendonly.aof.manifest"), 0o700); err != nil {
			t.Fatal(err)
		}
		_, err := startEmbedded(t.Context(), dir, slog.New(slog.DiscardHandler))
		wantParts(t, err, dir, "exit status 1", "redis.log ends with", "appendonly.aof.manifest")
	})
	t.Run("data directory is a file", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := startEmbedded(t.Context(), file, slog.New(slog.DiscardHandler))
		wantParts(t, err, "data directory", file)
	})
	t.Run("context ended", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		dir := newDataDir(t)
		_, err := startEmbedded(ctx, dir, slog.New(slog.DiscardHandler))
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want %v", err, context.Canceled)
		}
	})
	t.Run("someone's own redis-server", func(t *testing.T) {
		dir := newDataDir(t)
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		own := exec.CommandContext(t.Context(), "redis-server", "--port", "0", "--save", "", "--dir", dir, "--unixsocket", filepath.Join(dir, redisSocket))
		if err := own.Start(); err != nil {
			t.Fatal(err)
		}
		testkit.Eventually(t, startLimit, "the socket takes connections", func() bool {
			conn, err := new(net.Dialer).DialContext(t.Context(), "unix", filepath.Join(dir, redisSocket))
			if err == nil {
				err = conn.Close()
			}
			return err == nil
		})
		_, err := startEmbedded(t.Context(), dir, slog.New(slog.DiscardHandler))
		wantParts(t, err, "no node started", "redis-cli -s "+dir+"/redis.sock shutdown")
		_ = own.Process.Kill()
		_ = own.Wait() // it was killed
	})
}

func wantParts(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatal("no error")
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the error does not name %q: %v", part, err)
		}
	}
}
