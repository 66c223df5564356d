package processtest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	chronosapi "chronos/api"
	"chronos/api/openapitest"
	"chronos/scheduler/verify/testkit"
	"chronos/scheduler/webhook/webhooktest"
)

// administrator asks the admin listener of a node, and holds the answers to the description that the
// listener serves.
type administrator struct {
	t      *testing.T
	node   *nodeProcess
	client *http.Client
}

func administrate(t *testing.T, node *nodeProcess) *administrator {
	t.Helper()
	got := node.ask(t, http.MethodGet, "/openapi.yaml", "")
	if got.Body != string(chronosapi.AdminOpenAPI()) {
		t.Fatalf("the admin listener serves another description: %d %.100s", got.Status, got.Body)
	}
	transport := openapitest.Transport(t, []byte(got.Body), nil)
	return &administrator{t, node, &http.Client{Transport: transport, Timeout: 30 * time.Second}}
}

// ask sends a request, wants the status, and reads the answer into a T.
func ask[T any](a *administrator, method, path string, status int, headers ...string) (answer T) {
	a.t.Helper()
	got, err := testkit.Ask(a.client, method, a.node.admin+path, "", append(headers, "Authorization", "Bearer "+a.node.token)...)
	if err != nil || got.Status != status {
		a.t.Fatalf("%s %s: %d %s (%v), want %d", method, path, got.Status, got.Body, err, status)
	}
	if err := json.Unmarshal([]byte(got.Body), &answer); err != nil {
		a.t.Fatalf("%s %s: %s: %v", method, path, got.Body, err)
	}
	return answer
}

// code asks for what is refused, and returns the code.
func (a *administrator) code(method, path string, status int, headers ...string) string {
	a.t.Helper()
	return ask[struct{ Code string }](a, method, path, status, headers...).Code
}

type listedTimers struct {
	Timers []struct {
		Key, State string
		Due        time.Time
	}
	Next string
}

// keys are the keys of all pages of a list, with so many timers a page.
func (a *administrator) keys(query string, limit int) (all []string) {
	a.t.Helper()
	cursor := ""
	for {
		page := ask[listedTimers](a, http.MethodGet, fmt.Sprint("/timers?limit=", limit, query, cursor), http.StatusOK)
		for _, t := range page.Timers {
			all = append(all, t.Key)
		}
		if page.Next == "" {
			return all
		}
		cursor = "&cursor=" + page.Next
	}
}

// TestAdminListener goes the way of an operator through a real node: the status, the load, a list in
// pages, the copies of a timer, fires, delays, and changes of many timers.
func TestAdminListener(t *testing.T) {
	t.Parallel()
	node := startNode(t, testkit.StartRedis(t).URL+",b="+testkit.StartRedis(t).URL)
	receiver, a := webhooktest.New(t), administrate(t, node)
	const timers = 25
	var want []string
	for i := range timers {
		key := fmt.Sprintf("order-%02d", i)
		want = append(want, key)
		body := fmt.Sprintf(`{"timing":{"interval":%d},"callback":{"http":{"uri":%q,"opaque":%q}},"statistics":{"tag-info":[{"type":"CALL"}]}}`, 1000+i, receiver.URL(), key)
		if got, err := testkit.Ask(nil, http.MethodPut, node.url+"/timers/"+key, body); err != nil || got.Status != http.StatusOK {
			t.Fatalf("PUT %s: %d %s (%v)", key, got.Status, got.Body, err)
		}
	}
	if have := a.keys("&key-prefix=order-&tag=CALL&state=waiting", 10); strings.Join(have, " ") != strings.Join(want, " ") {
		t.Errorf("listed %q, want %q", have, want)
	}
	if have := a.keys("&destination="+receiver.URL(), 1000); len(have) != timers {
		t.Errorf("%d timers have the destination %s, want %d", len(have), receiver.URL(), timers)
	}
	if have := a.keys("&text=no-such-text", 1000); len(have) != 0 {
		t.Errorf("found %q by a text that no timer has", have)
	}
	testkit.Eventually(t, 20*time.Second, "the status counts the timers", func() bool {
		status := ask[struct {
			Nodes  []struct{ Self bool }
			Shards []struct{ Up bool }
			Timers struct{ Copies int }
		}](a, http.MethodGet, "/status", http.StatusOK)
		return len(status.Nodes) == 1 && status.Nodes[0].Self && len(status.Shards) == 2 && status.Shards[0].Up && status.Timers.Copies == 2*timers
	})
	load := ask[struct{ Copies []int }](a, http.MethodGet, "/load?step=1h&buckets=2", http.StatusOK)
	if sum := load.Copies[0] + load.Copies[1]; sum != 2*timers {
		t.Errorf("%d copies come due within two hours, want %d", sum, 2*timers)
	}

	type copies struct {
		Copies []struct {
			Shard, State, Version string
			Owner                 bool
		}
	}
	of := ask[copies](a, http.MethodGet, "/timers/order-00/copies", http.StatusOK)
	if len(of.Copies) != 2 || of.Copies[0].State != "waiting" || !of.Copies[0].Owner || of.Copies[0].Shard == of.Copies[1].Shard {
		t.Fatalf("have the copies %+v", of.Copies)
	}
	etag := `"` + of.Copies[0].Version + `"`
	if code := a.code(http.MethodPost, "/timers/order-01/fire", http.StatusPreconditionFailed, "If-Match", etag); code != "precondition-failed" {
		t.Errorf("the version of another timer: %s", code)
	}
	ask[any](a, http.MethodPost, "/timers/order-00/fire", http.StatusOK, "If-Match", etag)
	receiver.WaitFor(t, 10*time.Second, func(calls []webhooktest.Call) bool { return len(calls) == 1 && calls[0].Body == "order-00" })
	was := ask[listedTimers](a, http.MethodGet, "/timers?key=order-01", http.StatusOK).Timers[0].Due
	ask[any](a, http.MethodPost, "/timers/order-01/delay?by=1h", http.StatusOK)
	if is := ask[listedTimers](a, http.MethodGet, "/timers?key=order-01", http.StatusOK).Timers[0].Due; is.Sub(was).Round(time.Minute) != time.Hour {
		t.Errorf("order-01 was due %v and is due %v, an hour later was asked for", was, is)
	}

	changed := func(path string) int {
		t.Helper()
		done := ask[struct {
			Done    int
			Refused []any
			Next    string
		}](a, http.MethodPost, path, http.StatusOK)
		if len(done.Refused) > 0 || done.Next != "" {
			t.Errorf("%s: %+v", path, done)
		}
		return done.Done
	}
	if n := changed("/timers/bulk/delete?tag=CALL&dry-run=true"); n != timers-1 {
		t.Errorf("%d timers would be deleted, want %d", n, timers-1)
	}
	if n := changed("/timers/bulk/fire?key-prefix=order-1"); n != 10 {
		t.Errorf("%d timers were fired, want 10", n)
	}
	receiver.WaitFor(t, 10*time.Second, func(calls []webhooktest.Call) bool { return len(calls) == 11 })
	// A callback has come before its outcome is written.
	testkit.Eventually(t, 10*time.Second, "the fired timers are over", func() bool { return len(a.keys("", 1000)) == timers-11 })
	if n := changed("/timers/bulk/delete?all=true"); n != timers-11 {
		t.Errorf("%d timers were deleted, want %d", n, timers-11)
	}
	if have := a.keys("", 1000); len(have) != 0 {
		t.Errorf("left are %q", have)
	}
	if groups := ask[struct{ Complete bool }](a, http.MethodGet, "/dead/groups", http.StatusOK); !groups.Complete {
		t.Error("the groups of no letters are not complete")
	}
	for request, want := range map[string]string{
		"GET /timers?tags=CALL 400": "parameter-unknown", "GET /timers?cursor=x 400": "cursor-malformed", "GET /timers?destination=http://h:port 400": "destination-malformed",
		"POST /timers/bulk/delete 400": "filter-missing", "POST /timers/none/fire 404": "timer-not-found", "POST /timers/none/delay?by=1s 404": "timer-not-found",
		"GET /timers/none/copies 404": "timer-not-found", "GET /nothing 404": "path-unknown", "PUT /status 405": "method-not-allowed",
	} {
		var method, path string
		var status int
		if _, err := fmt.Sscan(request, &method, &path, &status); err != nil {
			t.Fatal(err)
		}
		if code := a.code(method, path, status); code != want {
			t.Errorf("%s: %s, want %s", request, code, want)
		}
	}
	if log := node.Log.String(); !strings.Contains(log, `path=/timers/bulk/fire query="key-prefix=order-1" done=10 refused=0 status=200 by=local `) {
		t.Errorf("the log does not say who fired the timers")
	}
}
