package processtest

import (
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"chronos/scheduler/verify/heldup"
	"chronos/scheduler/verify/testkit"
	"chronos/scheduler/webhook/webhooktest"
)

// TestSecondSignalEndsAtOnce: after the first SIGTERM the node waits for a callback that hangs;
// the second SIGTERM ends the node at once.
func TestSecondSignalEndsAtOnce(t *testing.T) {
	t.Parallel()
	node := startNode(t, testkit.StartRedis(t).URL)
	receiver := webhooktest.New(t)
	receiver.Respond(func(webhooktest.Call) webhooktest.Answer { return webhooktest.Answer{Hang: true} })
	newAPI(t).create(t, node, 0, receiver.URL(), "")
	receiver.WaitFor(t, 5*time.Second, webhooktest.AtLeast(1))
	node.Signal(syscall.SIGTERM)
	testkit.Eventually(t, 5*time.Second, "the node is stopping", func() bool { return strings.Contains(node.Log.String(), "node stops") })
	if status, _ := raw(t, http.MethodGet, node.admin+"/readyz", ""); status != http.StatusServiceUnavailable {
		t.Errorf("a draining node says %d to /readyz, want 503", status)
	}
	// A signal that comes soon after the first does not count as the second.
	node.Signal(syscall.SIGTERM)
	select {
	case <-node.Done:
		t.Fatal("two signals at once ended the node with a callback under way")
	case <-time.After(500 * time.Millisecond):
	}
	watch, second := heldup.Begin(t), time.Now()
	err := node.Stop(20 * time.Second)
	watch.AtMost(t, second, "the end after the second signal", time.Since(second), time.Second)
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 1 {
		t.Errorf("the node ended with %v, want exit status 1", err)
	}
}

// startEmbeddedNode starts a node that runs its own store.
func startEmbeddedNode(t *testing.T, env ...string) *nodeProcess {
	t.Helper()
	return awaitNode(t, testkit.Start(t, append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "XDG_RUNTIME_DIR=" + t.TempDir(), "CHRONOS_LISTEN=127.0.0.1:0", "CHRONOS_ADMIN_LISTEN=127.0.0.1:0",
	}, env...), binary))
}

// TestEmbeddedNodeIsKilled: a node without CHRONOS_REDIS is killed. The next node in the
// directory takes over the redis-server with all timers.
func TestEmbeddedNodeIsKilled(t *testing.T) {
	t.Parallel()
	testkit.Program(t, "redis-server")
	dir := filepath.Join(t.TempDir(), "data")
	first := startEmbeddedNode(t, "CHRONOS_DATA_DIR="+dir)
	t.Cleanup(func() { killRedisIn(t, dir) })
	receiver, client := webhooktest.New(t), newAPI(t)
	made := client.create(t, first, 4*time.Second, receiver.URL(), "kept")
	redisPid := strings.TrimSpace(redisInfo(t, dir))
	watch, killed := heldup.Begin(t), time.Now()
	first.Kill()
	second := startEmbeddedNode(t, "CHRONOS_DATA_DIR="+dir)
	if got := strings.TrimSpace(redisInfo(t, dir)); got != redisPid {
		t.Errorf("redis-server %s serves the directory, want the %s that was left running", got, redisPid)
	}
	later := client.create(t, second, 6*time.Second, receiver.URL(), "kept too")
	calls := receiver.WaitFor(t, 10*time.Second, webhooktest.AtLeast(1))
	if calls[0].Key() != made.id.Key || calls[0].Body != "kept" {
		t.Errorf("%s with body %q; want the timer of the killed node", calls[0], calls[0].Body)
	}
	watch.AtMost(t, killed, "the way of the killed node's timer", calls[0].Late(), time.Second)
	if err := second.Stop(15 * time.Second); err != nil {
		t.Errorf("stop: %v", err)
	}
	third := startEmbeddedNode(t, "CHRONOS_DATA_DIR="+dir)
	calls = receiver.WaitFor(t, 15*time.Second, webhooktest.AtLeast(2))
	if calls[1].Key() != later.id.Key || calls[1].Body != "kept too" {
		t.Errorf("%s with body %q, want the timer that was there before the restart", calls[1], calls[1].Body)
	}
	if err := third.Stop(15 * time.Second); err != nil {
		t.Errorf("stop: %v", err)
	}
}

func TestMemoryNode(t *testing.T) {
	t.Parallel()
	node := startEmbeddedNode(t, "CHRONOS_REDIS=memory")
	receiver := webhooktest.New(t)
	newAPI(t).create(t, node, 500*time.Millisecond, receiver.URL(), "in memory")
	calls := receiver.WaitFor(t, 5*time.Second, webhooktest.AtLeast(1))
	if calls[0].Body != "in memory" || calls[0].Late() < -time.Millisecond {
		t.Errorf("%s with body %q, %v late", calls[0], calls[0].Body, calls[0].Late())
	}
	if err := node.Stop(10 * time.Second); err != nil {
		t.Errorf("stop: %v", err)
	}
}

// redisInfo is the pid of the redis-server in a data directory.
func redisInfo(t *testing.T, dir string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "redis-cli", "-s", filepath.Join(dir, "redis.sock"), "INFO", "server").Output()
	if err != nil {
		t.Fatalf("ask redis-server: %v", err)
	}
	_, rest, _ := strings.Cut(string(out), "process_id:")
	pid, _, _ := strings.Cut(rest, "\r\n")
	return pid
}

// killRedisIn ends the redis-server that a killed node has left behind, if the test ended before
// another node took the redis-server over.
func killRedisIn(t *testing.T, dir string) {
	t.Helper()
	out, err := exec.Command("redis-cli", "-s", filepath.Join(dir, "redis.sock"), "INFO", "server").Output() //nolint:noctx // the test's context has ended
	if err != nil {
		return // nothing is left
	}
	_, rest, _ := strings.Cut(string(out), "process_id:")
	pid, _, _ := strings.Cut(rest, "\r\n")
	if n, err := strconv.Atoi(pid); err == nil {
		_ = syscall.Kill(n, syscall.SIGKILL)
	}
}
