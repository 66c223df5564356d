package processtest

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"chronos/scheduler/verify/testkit"
	"chronos/scheduler/webhook/webhooktest"
)

// resyncer reads timers as a client of the resynchronisation does.
type resyncer struct {
	t      *testing.T
	node   *nodeProcess
	client *http.Client
}

// ask sends a request, wants the status, and returns the answer's headers and body.
func (r *resyncer) ask(status int, method, path, body string) (http.Header, []byte) {
	r.t.Helper()
	client := r.client
	if to, err := url.Parse(path); err == nil && !strings.HasPrefix(to.Path, "/timers") {
		client = nil // openapi.yaml has no other path of the admin listener
	}
	got, err := testkit.Ask(client, method, path, body, "Authorization", "Bearer "+r.node.token, "Content-Type", "application/json")
	if err != nil || got.Status != status {
		r.t.Fatalf("%s %s: %d %s (%v), want %d", method, path, got.Status, got.Body, err, status)
	}
	return got.Header, []byte(got.Body)
}

// view is the cluster-view-id of the topology.
func (r *resyncer) view() string {
	r.t.Helper()
	_, raw := r.ask(http.StatusOK, http.MethodGet, r.node.admin+"/topology", "")
	var shown struct {
		View string `json:"cluster-view-id"`
	}
	if err := json.Unmarshal(raw, &shown); err != nil || shown.View == "" {
		r.t.Fatalf("topology: %s (%v)", raw, err)
	}
	return shown.View
}

// all follows the links from the first page to the last, and counts how often every timer came,
// by opaque. If an answer says that a shard could not be asked, perhaps because the machine is
// busy, all begins again.
func (r *resyncer) all(shard string, limit int, between func()) map[string]int {
	r.t.Helper()
	for range 5 {
		if times, whole := r.once(shard, limit, between); whole {
			return times
		}
	}
	r.t.Fatal("the machine is too slow for this test: a shard was silent in each of five listings")
	return nil
}

func (r *resyncer) once(shard string, limit int, between func()) (times map[string]int, whole bool) {
	r.t.Helper()
	times, whole = map[string]int{}, true
	path := "/timers?node-for-replicas=" + shard + "&cluster-view-id=" + r.view()
	for status := http.StatusPartialContent; status == http.StatusPartialContent; between() {
		req, err := http.NewRequestWithContext(r.t.Context(), http.MethodGet, r.node.admin+path, http.NoBody)
		if err != nil {
			r.t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+r.node.token)
		req.Header.Set("Range", fmt.Sprint(limit))
		res, err := r.client.Do(req)
		if err != nil {
			r.t.Fatal(err)
		}
		var page struct {
			Timers []struct {
				Timer struct {
					Callback    struct{ HTTP struct{ Opaque string } }
					Reliability struct{ Replicas []string }
				}
			}
		}
		err = json.NewDecoder(res.Body).Decode(&page)
		_ = res.Body.Close()
		status = res.StatusCode
		if res.Header.Get("X-Chronos-Unreached") != "" || status == http.StatusServiceUnavailable {
			return nil, false
		}
		if err != nil || status != http.StatusOK && status != http.StatusPartialContent || len(page.Timers) > limit {
			r.t.Fatalf("GET %s: %d, %d timers, %v", path, status, len(page.Timers), err)
		}
		for _, timer := range page.Timers {
			times[timer.Timer.Callback.HTTP.Opaque]++
			if !strings.Contains(strings.Join(timer.Timer.Reliability.Replicas, ","), shard) {
				r.t.Errorf("%s: replicas %v", shard, timer.Timer.Reliability.Replicas)
			}
		}
		path, _, _ = strings.Cut(strings.TrimPrefix(res.Header.Get("Link"), "<"), ">")
	}
	return times, whole
}

// lateSince are the recurring timers with a callback since an instant that came over 150 ms late: the node was behind,
// and the next pop was due at once.
func lateSince(receiver *webhooktest.Receiver, since time.Time) map[string]bool {
	late := map[string]bool{}
	for _, call := range receiver.Calls() {
		if call.Arrived.After(since) && call.Late() > 150*time.Millisecond && strings.HasPrefix(call.Body, "often ") {
			late[call.Body] = true
		}
	}
	return late
}

// TestResync: a client reads the timers that belong on a shard, page by page. Meanwhile timers
// are created, fire and are retried, and a shard is added.
func TestResync(t *testing.T) {
	t.Parallel()
	first, second, third := testkit.StartRedis(t), testkit.StartRedis(t), testkit.StartRedis(t)
	node := startNode(t, first.URL+",b="+second.URL)
	receiver := webhooktest.New(t)
	r := &resyncer{t: t, node: node, client: &http.Client{Transport: described(t).Transport(t, nil), Timeout: 10 * time.Second}}
	const lasting, recurring = 1500, 60
	batch := func(n int, timing, uri, kind string) {
		t.Helper()
		entries := make([]string, n)
		for i := range entries {
			entries[i] = fmt.Sprintf(`{"timing":{%s},"callback":{"http":{"uri":%q,"opaque":"%s %d"}}}`, fmt.Sprintf(timing, 3600+i%100), uri, kind, i)
		}
		r.ask(http.StatusOK, http.MethodPost, node.url+"/timers/batch", `{"timers":[`+strings.Join(entries, ",")+`]}`)
	}
	batch(lasting/2, `"interval":%d`, receiver.URL(), "long")
	batch(lasting/2, `"at":"2097-01-01T00:00:00Z","x":%d`, receiver.URL(), "at")
	batch(recurring, `"interval":0.3,"repeat-for":%d`, receiver.URL(), "often")
	batch(recurring, `"interval":2,"repeat-for":%d`, "http://127.0.0.1:1/refuses", "fails")

	// A page's end may hide a timer that fails, and a recurring timer that catches up, as docs/decisions/listing.md says.
	complete := func(shard string, limit int, want map[string]bool) {
		t.Helper()
		begun, pages := time.Now(), 0
		times := r.all(shard, limit, func() {
			batch(10, `"interval":0.1,"x":%d`, receiver.URL(), "new")
			pages++
		})
		have, wanted := map[string]int{}, map[string]int{}
		for opaque, n := range times {
			kind, _, _ := strings.Cut(opaque, " ")
			if have[kind]++; n > 1 && (kind == "long" || kind == "at") {
				t.Errorf("%s: %q is listed %d times", shard, opaque, n)
			}
		}
		late := lateSince(receiver, begun)
		for opaque := range want {
			kind, _, _ := strings.Cut(opaque, " ")
			wanted[kind]++
			excused := kind == "fails" || kind == "often" && late[opaque]
			if times[opaque] == 0 && !excused {
				t.Errorf("%s: %q is not listed", shard, opaque)
			}
		}
		if have["long"] != wanted["long"] || have["at"] != wanted["at"] || have["fails"] < wanted["fails"]*9/10 {
			t.Errorf("%s: listed %v, want %v", shard, have, wanted)
		}
		t.Logf("%s: %d pages in %v: %v of %v, %d recurring timers were late", shard, pages, time.Since(begun).Round(time.Millisecond), have, wanted, len(late))
	}
	all := map[string]bool{}
	for kind, n := range map[string]int{"long": lasting / 2, "at": lasting / 2, "often": recurring, "fails": recurring} {
		for i := range n {
			all[fmt.Sprint(kind, " ", i)] = true
		}
	}
	complete("main", 100, all)
	complete("b", 1000, all)

	was := r.view()
	r.ask(http.StatusNotFound, http.MethodGet, node.admin+"/timers?node-for-replicas=c&cluster-view-id="+was, "")
	r.ask(http.StatusOK, http.MethodPost, node.admin+"/topology/shards", `{"name":"c","url":"`+third.URL+`"}`)
	announced := r.view()
	header, _ := r.ask(http.StatusBadRequest, http.MethodGet, node.admin+"/timers?node-for-replicas=main&cluster-view-id="+was, "")
	if !strings.Contains(header.Get("Reason"), announced) || announced == was {
		t.Errorf("Reason %q doesn't name the present view, %s", header.Get("Reason"), announced)
	}
	testkit.Eventually(t, 20*time.Second, "the new shard counts", func() bool { return r.view() != announced })
	listed := func(shard string) map[string]bool { // once no timers are created
		n := map[string]bool{}
		for opaque := range r.all(shard, 1000, func() {}) {
			n[opaque] = !strings.HasPrefix(opaque, "new ")
		}
		maps.DeleteFunc(n, func(_ string, lasts bool) bool { return !lasts })
		return n
	}
	before, copies := listed("c"), 0
	for _, n := range []map[string]bool{listed("main"), listed("b"), before} {
		for opaque := range n {
			if strings.HasPrefix(opaque, "long ") || strings.HasPrefix(opaque, "at ") {
				copies++
			}
		}
	}
	if copies != 2*lasting {
		t.Errorf("%d copies are to be on the three shards, want %d", copies, 2*lasting)
	}
	testkit.Eventually(t, 60*time.Second, "the sweep has passed", func() bool {
		_, raw := r.ask(http.StatusOK, http.MethodGet, node.admin+"/topology", "")
		return strings.Contains(string(raw), `"moving":false`)
	})
	complete("c", 70, before)

	drop := "/timers/references?node-for-replicas=main"
	r.ask(http.StatusAccepted, http.MethodDelete, node.admin+drop, `{"IDs":[{"ID":"unknown","ReplicaIndex":1}]}`)
	r.ask(http.StatusForbidden, http.MethodDelete, node.url+drop, `{"IDs":[{"ID":"unknown","ReplicaIndex":1}]}`)
	header, _ = r.ask(http.StatusForbidden, http.MethodGet, node.url+"/timers?node-for-replicas=main&cluster-view-id="+r.view(), "")
	if !strings.Contains(header.Get("Reason"), "admin listener") {
		t.Errorf("the public listener does not say where to ask: %s", header.Get("Reason"))
	}
	if out, err := commandOf(t, node, "topology", "show").CombinedOutput(); err != nil || !strings.Contains(string(out), "cluster-view-id "+r.view()) {
		t.Errorf("chronos topology show (%v):\n%s", err, out)
	}
}
