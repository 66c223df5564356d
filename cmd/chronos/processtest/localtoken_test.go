package processtest

import (
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"chronos/scheduler/verify/testkit"
)

// TestAdminWithoutTokensFile: without any set-up the admin listener lets everybody read health,
// metrics, the description, the topology, the status and the load. Only the user of the node may do the rest.
func TestAdminWithoutTokensFile(t *testing.T) {
	t.Parallel()
	testkit.Program(t, "redis-server")
	data, runtime := filepath.Join(t.TempDir(), "data"), t.TempDir()
	node := startEmbeddedNode(t, "CHRONOS_DATA_DIR="+data, "XDG_RUNTIME_DIR="+runtime)
	t.Cleanup(func() { killRedisIn(t, data) })
	if node.token == "" {
		t.Fatal("the node made no token")
	}
	files := filesOf(t, data, runtime)
	if len(files) != 2 {
		t.Errorf("the token is in %v, want a file in the data directory and one in the runtime directory", files)
	}
	for _, path := range files {
		info, err := os.Lstat(path)
		if err != nil || info.Mode() != 0o600 {
			t.Errorf("%s: %v, %v, want a file that nobody else reads", path, info.Mode(), err)
		}
		if !strings.Contains(node.Log.String(), path) {
			t.Errorf("the log does not name %s", path)
		}
	}

	const wrong = "chr_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
	for _, c := range []struct {
		method, path string
		status       int  // with the token
		open         bool // also without the token
	}{
		{"GET", "/livez", 200, true},
		{"GET", "/readyz", 200, true},
		{"GET", "/metrics", 200, true},
		{"GET", "/openapi.yaml", 200, true},
		{"GET", "/topology", 200, true},
		{"GET", "/status", 200, true},
		{"GET", "/load", 200, true},
		{"GET", "/timers", 200, false},
		{"GET", "/timers/x/copies", 404, false},
		{"GET", "/dead/groups", 200, false},
		{"POST", "/timers/x/fire", 404, false},
		{"POST", "/timers/bulk/delete?all=true", 200, false},
		{"GET", "/dead", 200, false},
		{"GET", "/dead/x", 404, false},
		{"GET", "/debug/pprof/", 200, false},
		{"GET", "/debug/pprof/goroutine", 200, false},
		{"GET", "/debug/pprof/profile?seconds=1", 200, false},
		{"POST", "/topology/shards/other/drain", 409, false},
		{"DELETE", "/topology/shards/other", 409, false},
		{"POST", "/dead/fire?all=true", 200, false},
		{"POST", "/dead/x/fire", 404, false},
		{"DELETE", "/dead/x", 404, false},
		{"DELETE", "/dead?all=true", 200, false},
	} {
		if got := node.ask(t, c.method, c.path, ""); got.Status != c.status {
			t.Errorf("%s %s with the token: %d %.200s, want %d", c.method, c.path, got.Status, got.Body, c.status)
		}
		for about, headers := range map[string][]string{"no token": nil, "a wrong token": {"Authorization", "Bearer " + wrong}} {
			status, body := raw(t, c.method, node.admin+c.path, "", headers...)
			if open := status == http.StatusOK; open != c.open || !c.open && status != http.StatusUnauthorized {
				t.Errorf("%s %s with %s: %d %.200s", c.method, c.path, about, status, body)
			}
		}
	}

	if !regexp.MustCompile(`msg="admin change" method=DELETE path=/dead query="all=true" status=200 by=local address=127\.0\.0\.1:\d+\n`).MatchString(node.Log.String()) {
		t.Error("the log does not say who deleted the dead letters")
	}

	if err := node.Stop(15 * time.Second); err != nil {
		t.Errorf("stop: %v", err)
	}
	if left := filesOf(t, data, runtime); len(left) != 0 {
		t.Errorf("after the end there is still %v", left)
	}
	if strings.Contains(node.Log.String(), node.token) || regexp.MustCompile(`chr_`).MatchString(node.Log.String()) {
		t.Error("the token is in the log")
	}
}

// filesOf are the token files of a node in its data directory and in the runtime directory.
func filesOf(t *testing.T, data, runtime string) (files []string) {
	t.Helper()
	for _, dir := range []string{data, filepath.Join(runtime, "chronos")} {
		found, err := filepath.Glob(filepath.Join(dir, "admin-127.0.0.1-*.token*"))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	return files
}

// TestCommandsFindTheToken: commands of the node's user work in any directory. CHRONOS_TOKEN
// counts more than a found token, and a command without a valid token tells the user how to go on.
func TestCommandsFindTheToken(t *testing.T) {
	t.Parallel()
	runtime := t.TempDir()
	first := startNode(t, testkit.StartRedis(t).URL, "XDG_RUNTIME_DIR="+runtime)
	second := startNode(t, testkit.StartRedis(t).URL, "XDG_RUNTIME_DIR="+runtime, "CHRONOS_ADMIN_LISTEN=0.0.0.0:0", "CHRONOS_ADMIN_OPEN=true", "CHRONOS_ADMIN_HOSTS=chronos.test")
	if first.token == second.token || first.token == "" || second.token == "" {
		t.Fatal("two nodes have no token each")
	}
	where, found := "XDG_RUNTIME_DIR="+runtime, "no such dead letter"
	for _, c := range []struct {
		about   string
		node    *nodeProcess
		environ []string
		says    string
	}{
		{"found", first, []string{where}, found},
		{"found, of a listener on all addresses", second, []string{where}, found},
		{"given, from elsewhere", first, []string{"CHRONOS_TOKEN=" + first.token}, found},
		{"another given", first, []string{where, "CHRONOS_TOKEN=" + second.token}, "set CHRONOS_TOKEN to a token of this listener"},
		{"none found", first, []string{"XDG_RUNTIME_DIR=" + t.TempDir(), "TMPDIR=" + t.TempDir()}, "no token was found for " + first.admin},
	} {
		command := commandOf(t, c.node, "dead", "fire", "unknown")
		command.Env = append([]string{"CHRONOS_ADMIN_URL=" + c.node.admin}, c.environ...)
		if out, err := command.CombinedOutput(); err == nil || !strings.Contains(string(out), c.says) || strings.Contains(string(out), "chr_") {
			t.Errorf("%s: %v\n%swant %q", c.about, err, out, c.says)
		}
	}
	for _, args := range [][]string{{"topology", "show"}, {"dead"}, {"dead", "delete", "--all"}} {
		if out, err := commandOf(t, first, args...).CombinedOutput(); err != nil {
			t.Errorf("%v: %v\n%s", args, err, out)
		}
	}

	_, port, err := net.SplitHostPort(strings.TrimPrefix(second.admin, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		method, path, host string
		want               int
	}{
		{"GET", "/topology", "chronos.test:" + port, http.StatusOK},
		{"GET", "/topology", "other.test:" + port, http.StatusMisdirectedRequest},
		{"GET", "/dead", "chronos.test:" + port, http.StatusUnauthorized},
		{"POST", "/topology/shards/main/drain", "chronos.test:" + port, http.StatusUnauthorized},
	} {
		if status, body := raw(t, c.method, second.admin+c.path, "", "Host", c.host); status != c.want {
			t.Errorf("%s %s of a listener that is open to others, as %s: %d %.200s, want %d", c.method, c.path, c.host, status, body, c.want)
		}
	}

	// A killed node leaves a file with a token that the next node on the port does not take.
	address := strings.TrimPrefix(first.admin, "http://")
	first.Kill()
	next := startNode(t, testkit.StartRedis(t).URL, "XDG_RUNTIME_DIR="+runtime, "CHRONOS_ADMIN_LISTEN="+address)
	if next.admin != first.admin || next.token == first.token {
		t.Errorf("the next node is at %s, want %s, with a token of its own", next.admin, first.admin)
	}
	if status, body := raw(t, http.MethodGet, next.admin+"/dead", "", "Authorization", "Bearer "+first.token); status != http.StatusUnauthorized {
		t.Errorf("with the token of the killed node: %d %s", status, body)
	}
	if out, err := commandOf(t, next, "dead").CombinedOutput(); err != nil {
		t.Errorf("after a killed node: %v\n%s", err, out)
	}
}

// TestForeignTokenDirectoryIsRefused: a node puts no token where other users may read the token.
func TestForeignTokenDirectoryIsRefused(t *testing.T) {
	t.Parallel()
	runtime := t.TempDir()
	if err := os.Mkdir(filepath.Join(runtime, "chronos"), 0o755); err != nil {
		t.Fatal(err)
	}
	node := testkit.Start(t, nodeEnv(t, testkit.StartRedis(t).URL, "XDG_RUNTIME_DIR="+runtime), binary)
	<-node.Done
	if said := node.Log.String(); node.Err == nil || !strings.Contains(said, runtime+"/chronos") || !strings.Contains(said, "0755") || !strings.Contains(said, "XDG_RUNTIME_DIR") {
		t.Errorf("%v: %s", node.Err, said)
	}
}
