package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"chronos/scheduler/verify/testkit"
)

// TestEmbeddedSurvivesKilledNode runs the test binary once more, as the node to kill.
func TestEmbeddedSurvivesKilledNode(t *testing.T) {
	const variable = "EMBEDDED_TEST_DIR"
	if dir := os.Getenv(variable); dir != "" {
		e, _ := startIn(t, dir)
		fmt.Println("ready", pidOf(t, e))
		_, _ = io.Copy(io.Discard, os.Stdin) // until killed, or until the parent test ends
		return
	}
	t.Parallel()
	testkit.Program(t, "redis-server")
	dir := newDataDir(t)
	node := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestEmbeddedSurvivesKilledNode$")
	node.Env = append(os.Environ(), variable+"="+dir)
	pid := startNode(t, node)

	_, err := startEmbedded(t.Context(), dir, slog.New(slog.DiscardHandler))
	if err == nil || !strings.Contains(err.Error(), "pid "+strconv.Itoa(node.Process.Pid)+" on ") {
		t.Fatalf("beside a living node: %v, want a refusal that names pid %d", err, node.Process.Pid)
	}
	killNode(t, node)

	e, log := startIn(t, dir)
	if got := pidOf(t, e); got != pid {
		t.Errorf("pid %d serves, want the %d that was left running", got, pid)
	}
	if !strings.Contains(log.String(), "taken_over=true") {
		t.Errorf("no line about the taking over in the log:\n%s", log)
	}
	storeKey(t, e)

	// The node watches and restarts a redis-server that was taken over just like its own child.
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, startLimit, "another redis-server serves", func() bool { got := pidOf(t, e); return got != 0 && got != pid })
	wantKey(t, e)
	stopBackend(t, e)
	again, _ := startIn(t, dir)
	wantKey(t, again)
}

// TestEmbeddedStopsTakenOver stops a redis-server that isn't the node's child.
func TestEmbeddedStopsTakenOver(t *testing.T) {
	t.Parallel()
	testkit.Program(t, "redis-server")
	dir := newDataDir(t)
	node := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestEmbeddedSurvivesKilledNode$")
	node.Env = append(os.Environ(), "EMBEDDED_TEST_DIR="+dir)
	pid := startNode(t, node)
	killNode(t, node)
	e, log := startIn(t, dir)
	if got := pidOf(t, e); got != pid {
		t.Errorf("pid %d serves, want the %d that was left running", got, pid)
	}
	storeKey(t, e)
	stopBackend(t, e)
	if !isFree(dir) || !strings.Contains(log.String(), "by=SHUTDOWN") {
		t.Errorf("the redis-server lives on, or was not ended by SHUTDOWN:\n%s", log)
	}
	again, _ := startIn(t, dir)
	wantKey(t, again)
}

// startNode starts the process and gives the pid of its redis-server.
func startNode(t *testing.T, node *exec.Cmd) int {
	t.Helper()
	stdin, err := node.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = stdin.Close() })
	stdout, err := node.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	node.WaitDelay = startLimit
	if err := node.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		if number, ok := strings.CutPrefix(lines.Text(), "ready "); ok {
			pid, err := strconv.Atoi(number)
			if err != nil || pid == 0 {
				t.Fatalf("the node says %q", lines.Text())
			}
			return pid
		}
		t.Log(lines.Text())
	}
	t.Fatalf("the node ended before it was ready: %v", errors.Join(lines.Err(), node.Wait()))
	return 0
}

func killNode(t *testing.T, node *exec.Cmd) {
	t.Helper()
	if err := node.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := node.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Fatalf("the node ended by itself: %v", err)
	}
}

func TestEmbeddedRestartsDeadServer(t *testing.T) {
	t.Parallel()
	testkit.Program(t, "redis-server")
	e, log := startIn(t, newDataDir(t))
	storeKey(t, e)
	for range 3 { // the second and third wait a little
		pid := pidOf(t, e)
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		testkit.Eventually(t, startLimit, "another redis-server serves", func() bool { got := pidOf(t, e); return got != 0 && got != pid })
		wantKey(t, e)
	}
	stopBackend(t, e)
	if got := strings.Count(log.String(), "signal: killed"); got != 3 {
		t.Errorf("%d deaths in the log, want 3:\n%s", got, log)
	}
}

// TestEmbeddedStopWhileServerIsDead stops while a restart fails again and again.
func TestEmbeddedStopWhileServerIsDead(t *testing.T) {
	t.Parallel()
	testkit.Program(t, "redis-server")
	dir := newDataDir(t)
	e, log := startIn(t, dir)
	// A directory in place of the manifest keeps redis-server from starting.
	manifest := filepath.Join(dir, "appendonlydir", "appendonly.aof.manifest")
	if err := errors.Join(os.Rename(manifest, manifest+".aside"), os.Mkdir(manifest, 0o700)); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pidOf(t, e), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, startLimit, "two starts fail", func() bool { return strings.Count(log.String(), "can't be started again") >= 2 })
	stopBackend(t, e)
	if err := errors.Join(os.Remove(manifest), os.Rename(manifest+".aside", manifest)); err != nil {
		t.Fatal(err)
	}
	again, _ := startIn(t, dir)
	if pidOf(t, again) == 0 {
		t.Error("no redis-server answers")
	}
}

func TestEmbeddedEndsStoppedServer(t *testing.T) {
	t.Parallel()
	testkit.Program(t, "redis-server")
	dir := newDataDir(t)
	e, log := startIn(t, dir)
	storeKey(t, e)
	if err := syscall.Kill(pidOf(t, e), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := e.Stop(ctx); err != nil {
		t.Errorf("stop: %v", err)
	}
	if !isFree(dir) || !strings.Contains(log.String(), "by=SIGKILL") {
		t.Errorf("the redis-server lives on, or was not ended by SIGKILL:\n%s", log)
	}
	again, _ := startIn(t, dir)
	wantKey(t, again)
}
