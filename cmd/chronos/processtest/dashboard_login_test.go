package processtest

import (
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"chronos/scheduler/verify/testkit"
)

// TestDashboardOfANode: the log of a node without a tokens file has a link that logs in once, and each page
// shows the real cluster. The token of the node logs in, too.
func TestDashboardOfANode(t *testing.T) {
	t.Parallel()
	node := startNode(t, testkit.StartRedis(t).URL)
	link := regexp.MustCompile(`dashboard="(\S+)"`).FindStringSubmatch(node.Log.String())
	if len(link) == 0 || !strings.HasPrefix(link[1], node.admin+"/ui/login?once=") {
		t.Fatalf("the log has no link to the dashboard:\n%s", node.Log.String())
	}
	created := newAPI(t).create(t, node, time.Hour, "http://user:password@a.example/<script>", "<script>")

	browser := browserOf(t)
	wantPage(t, browser, http.MethodGet, link[1], nil, http.StatusOK, "logged you in")
	for path, want := range map[string]string{
		"/":                                      "All is well",
		"/ui/":                                   "<dd>≈ 1</dd>",
		"/ui/timers":                             created.id.Key,
		"/ui/timers/" + created.id.String():      "http://a.example/&lt;script&gt;",
		"/ui/timers/" + created.id.Key + "/fire": "Fire this timer now?",
		"/ui/dead":                               "0 dead letters in all",
		"/ui/destinations":                       "Nobody was called back",
		"/ui/cluster":                            node.id,
		"/ui/timers?key-prefix=x&destination=%20": "No timer matches the filter",
	} {
		page := wantPage(t, browser, http.MethodGet, node.admin+path, nil, http.StatusOK, want)
		if strings.Contains(page, "password@") || strings.Contains(page, "<script>") {
			t.Errorf("%s shows a password or markup of a timer:\n%s", path, page)
		}
	}
	wantPage(t, browserOf(t), http.MethodGet, link[1], nil, http.StatusForbidden, "used before")
	wantPage(t, browserOf(t), http.MethodPost, node.admin+"/ui/login", url.Values{"token": {node.token}}, http.StatusOK, "All is well")
	if strings.Contains(node.Log.String(), node.token) {
		t.Error("the log has the token")
	}
}

func TestDashboardIsTurnedOff(t *testing.T) {
	t.Parallel()
	node := startNode(t, testkit.StartRedis(t).URL, "CHRONOS_UI=false")
	for _, path := range []string{"/", "/ui/", "/ui/login"} {
		if got := node.ask(t, http.MethodGet, path, ""); got.Status != http.StatusNotFound {
			t.Errorf("%s: %d %s", path, got.Status, got.Body)
		}
	}
	if strings.Contains(node.Log.String(), "dashboard=") {
		t.Errorf("the log names the dashboard:\n%s", node.Log.String())
	}
}

// browserOf is a client with cookies of its own.
func browserOf(t *testing.T) *http.Client {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &http.Client{Jar: jar, Timeout: 5 * time.Second}
}

// wantPage asks for a page, and follows where the answer leads.
func wantPage(t *testing.T, browser *http.Client, method, address string, form url.Values, status int, text string) (page string) {
	t.Helper()
	got, err := testkit.Ask(browser, method, address, form.Encode(), "Content-Type", "application/x-www-form-urlencoded")
	if err != nil {
		t.Fatal(err)
	}
	if got.Status != status || !strings.Contains(got.Body, text) {
		t.Errorf("%s: %d, want %d and %q:\n%s", address, got.Status, status, text, got.Body)
	}
	return got.Body
}
