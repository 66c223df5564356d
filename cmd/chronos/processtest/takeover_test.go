package processtest

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"chronos/scheduler/verify/testkit"
)

// TestCallbacksOperateNothing: a client that may create timers makes a node call its own
// listeners. No callback changes the topology, fires dead letters or creates timers.
func TestCallbacksOperateNothing(t *testing.T) {
	t.Parallel()
	testkit.Program(t, "redis-server")
	dir := filepath.Join(t.TempDir(), "data")
	node := startEmbeddedNode(t, "CHRONOS_DATA_DIR="+dir, "CHRONOS_ATTEMPTS=1")
	t.Cleanup(func() { killRedisIn(t, dir) })
	stranger := testkit.StartRedis(t)
	asker := newAPI(t)
	before := node.topology(t, http.MethodGet, "/topology", "")

	// A dead letter that a callback might fire again, and timers that a callback might take away.
	asker.create(t, node, 0, "http://127.0.0.1:1/", "given up")
	testkit.Eventually(t, 20*time.Second, "a timer is given up", func() bool { return listed(t, node).Total == 1 })
	for range 20 {
		asker.create(t, node, time.Hour, "http://127.0.0.1:1/", "secret")
	}
	for i, attack := range [][2]string{
		{node.admin + "/topology/shards", `{"name":"thief","url":"` + stranger.URL + `"}`},
		{node.admin + "/topology/shards/main/drain?force=true", ""},
		{node.admin + "/dead/fire?all=true", ""},
		{node.url + "/timers", timerBody(time.Hour, "http://127.0.0.1:1/", "multiplied")},
		{node.url + "/timers/batch", `{"timers":[` + timerBody(time.Hour, "http://127.0.0.1:1/", "multiplied") + `]}`},
	} {
		made := asker.create(t, node, 0, attack[0], attack[1])
		testkit.Eventually(t, 20*time.Second, "the callback is over", func() bool {
			return asker.do(http.MethodGet, node.url+"/timers/"+made.id.String(), "").status == http.StatusNotFound
		})
		if got := listed(t, node); got.Total != int64(i+2) {
			t.Errorf("after a callback to %s there are %d dead letters, want %d", attack[0], got.Total, i+2)
		}
	}
	if after := node.topology(t, http.MethodGet, "/topology", ""); fmt.Sprint(names(after)) != fmt.Sprint(names(before)) {
		t.Errorf("the topology has %v, want %v", names(after), names(before))
	}
	if keys, err := stranger.Admin.Keys(t.Context(), "*").Result(); err != nil || len(keys) > 0 {
		t.Errorf("a stranger's Redis has %q, %v", keys, err)
	}
}

// names are the names and states of the shards.
func names(view shownTopology) (all []string) {
	for _, s := range view.Shards {
		all = append(all, s.Name+" "+s.State)
	}
	return all
}

// TestPagesOperateNothing: a page in a browser on the node's machine can send simple requests, and
// can make its own name lead to the node. No such request changes the topology or the dead letters.
func TestPagesOperateNothing(t *testing.T) {
	t.Parallel()
	node := startNode(t, testkit.StartRedis(t).URL)
	stranger := testkit.StartRedis(t)
	before := node.topology(t, http.MethodGet, "/topology", "")
	add := `{"name":"thief","url":"` + stranger.URL + `"}`
	host := strings.TrimPrefix(node.admin, "http://")
	_, port, _ := strings.Cut(host, ":")
	for name, headers := range map[string][]string{
		"a simple request":       {"Host", host, "Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site", "Content-Type", "text/plain"},
		"an old browser":         {"Host", host, "Origin", "https://evil.example", "Content-Type", "text/plain"},
		"another port":           {"Host", host, "Origin", "http://127.0.0.1:1", "Sec-Fetch-Site", "same-site", "Content-Type", "text/plain"},
		"a sandboxed frame":      {"Host", host, "Origin", "null", "Content-Type", "text/plain"},
		"a name that leads here": {"Host", "evil.example:" + port, "Origin", "http://evil.example:" + port, "Sec-Fetch-Site", "same-origin", "Content-Type", "application/json"},
		"no browser, no token":   {"Host", host, "Content-Type", "application/json"},
		"a form":                 {"Host", host, "Content-Type", "application/x-www-form-urlencoded"},
	} {
		for _, path := range []string{"/topology/shards", "/topology/shards/main/drain?force=true", "/dead/fire?all=true"} {
			if status, body := raw(t, http.MethodPost, node.admin+path, add, headers...); status < 400 {
				t.Errorf("%s to %s: %d %s", name, path, status, body)
			}
		}
	}
	if after := node.topology(t, http.MethodGet, "/topology", ""); fmt.Sprint(names(after)) != fmt.Sprint(names(before)) {
		t.Errorf("the topology has %v, want %v", names(after), names(before))
	}
	for _, path := range []string{"/topology", "/livez", "/metrics"} {
		if status, body := raw(t, http.MethodGet, node.admin+path, "", "Host", "evil.example:"+port); status != http.StatusMisdirectedRequest {
			t.Errorf("a foreign Host reads %s: %d %.100s", path, status, body)
		}
	}
}

// raw sends a request with only the given headers, names and values in turn.
func raw(t *testing.T, method, url, body string, headers ...string) (status int, answered string) {
	t.Helper()
	got, err := testkit.Ask(nil, method, url, body, headers...)
	if err != nil {
		t.Fatal(err)
	}
	return got.Status, got.Body
}
