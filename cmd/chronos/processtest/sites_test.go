package processtest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"chronos/scheduler/verify/testkit"
	"chronos/scheduler/webhook/webhooktest"
)

// siteCluster is a cluster of sites with real nodes and Redis servers.
type siteCluster struct {
	t     *testing.T
	list  string // CHRONOS_REDIS
	redis map[string][]*testkit.Redis
	nodes map[string][]*nodeProcess
}

// startSites starts sites of so many Redis servers and nodes each, and returns when all nodes are ready.
func startSites(t *testing.T, shards, nodes int, names ...string) *siteCluster {
	t.Helper()
	c := &siteCluster{t: t, redis: map[string][]*testkit.Redis{}, nodes: map[string][]*nodeProcess{}}
	var list []string
	for _, site := range names {
		for i := range shards {
			r := testkit.StartRedis(t)
			c.redis[site] = append(c.redis[site], r)
			list = append(list, fmt.Sprintf("%s%d@%s=%s", site, i, site, r.URL))
		}
	}
	c.list = strings.Join(list, ",")
	var starts sync.WaitGroup
	var mu sync.Mutex
	for _, site := range names {
		for range nodes {
			p := testkit.Start(t, c.env(site), binary)
			starts.Go(func() {
				n := awaitNode(t, p)
				mu.Lock()
				defer mu.Unlock()
				c.nodes[site] = append(c.nodes[site], n)
			})
		}
	}
	starts.Wait()
	c.awaitReady(names...)
	return c
}

// env has the longest patience: on a busy machine the answer of another site takes long.
func (c *siteCluster) env(site string, more ...string) []string {
	return nodeEnv(c.t, "", append([]string{"CHRONOS_REDIS=" + c.list, "CHRONOS_SITE=" + site, "CHRONOS_SITE_PATIENCE=900ms"}, more...)...)
}

func (c *siteCluster) awaitReady(names ...string) {
	c.t.Helper()
	for _, site := range names {
		for _, n := range c.nodes[site] {
			testkit.Eventually(c.t, 30*time.Second, "a node of "+site+" is ready", func() bool {
				found, err := testkit.Ask(http.DefaultClient, http.MethodGet, n.admin+"/readyz", "")
				return err == nil && found.Status == http.StatusOK
			})
		}
	}
}

// kill ends all nodes and Redis servers of a site.
func (c *siteCluster) kill(site string) {
	for _, n := range c.nodes[site] {
		n.Kill()
	}
	for _, r := range c.redis[site] {
		r.Kill()
	}
}

// TestTwoSitesCallOnce: the timers of one site come once, from this site.
func TestTwoSitesCallOnce(t *testing.T) {
	t.Parallel()
	c := startSites(t, 1, 1, "one", "two")
	receiver, client := webhooktest.New(t), newAPI(t)
	const timers = 100
	for i := range timers {
		got := client.do(http.MethodPost, c.nodes["one"][0].url+"/timers", timerBody(time.Second, receiver.URL(), strconv.Itoa(i)))
		if got.err != nil || got.status != http.StatusOK || got.header.Get("X-Chronos-Sites") != "2/2" {
			t.Fatalf("create: %d %v, sites %q", got.status, got.err, got.header.Get("X-Chronos-Sites"))
		}
	}
	receiver.WaitFor(t, 10*time.Second, webhooktest.AtLeast(timers))
	testkit.Throughout(t, 8*time.Second, "no timer comes again when the copies of the other site come due", func() bool { return len(receiver.Calls()) == timers })
	for _, call := range receiver.Calls() {
		if late := call.Late(); late > time.Second {
			t.Errorf("%s came %v late", call, late)
		}
	}
}

// TestSitesThatAreLost: of four sites with 25 timers each three are killed; all timers come from the last.
func TestSitesThatAreLost(t *testing.T) {
	t.Parallel()
	names := []string{"one", "two", "three", "four"}
	c := startSites(t, 1, 1, names...)
	receiver, client := webhooktest.New(t), newAPI(t)
	made := map[string]bool{}
	for i := range 100 {
		got := client.do(http.MethodPost, c.nodes[names[i%4]][0].url+"/timers", timerBody(8*time.Second, receiver.URL(), strconv.Itoa(i)))
		if got.err != nil || got.status != http.StatusOK || got.header.Get("X-Chronos-Sites") != "4/4" {
			t.Fatalf("create: %d %v, sites %q", got.status, got.err, got.header.Get("X-Chronos-Sites"))
		}
		made[got.id.Key] = true
	}
	for _, site := range names[:3] {
		c.kill(site)
	}
	calls := receiver.WaitFor(t, time.Minute, func(calls []webhooktest.Call) bool { return len(keysOf(calls)) == len(made) })
	worst := time.Duration(0)
	for _, call := range calls {
		worst = max(worst, call.Late())
	}
	t.Logf("%d callbacks of %d timers, the latest %v late", len(calls), len(made), worst)
	if most := 3*4*time.Second + 3*time.Second; worst > most {
		t.Errorf("a callback came %v late, want at most %v", worst, most)
	}
}

// TestDeletesAtAnotherSite: timers of two sites are deleted at the second; nothing comes.
func TestDeletesAtAnotherSite(t *testing.T) {
	t.Parallel()
	c := startSites(t, 1, 1, "one", "two")
	receiver, client := webhooktest.New(t), newAPI(t)
	var ids []string
	for i := range 100 {
		site := []string{"one", "two"}[i%2]
		got := client.do(http.MethodPost, c.nodes[site][0].url+"/timers", timerBody(4*time.Second, receiver.URL(), strconv.Itoa(i)))
		if got.err != nil || got.status != http.StatusOK {
			t.Fatalf("create: %d %v", got.status, got.err)
		}
		ids = append(ids, got.id.String())
	}
	for _, id := range ids {
		got := client.do(http.MethodDelete, c.nodes["two"][0].url+"/timers/"+id, "")
		if got.err != nil || got.status != http.StatusCreated || got.header.Get("X-Chronos-In-Flight") != "" || got.header.Get("X-Chronos-Sites") != "2/2" {
			t.Fatalf("delete: %d %v %v", got.status, got.err, got.header)
		}
	}
	testkit.Throughout(t, 12*time.Second, "no deleted timer comes", func() bool { return len(receiver.Calls()) == 0 })
}

// operator asks the admin listener of a node for a change of the topology, and wants the status.
func (c *siteCluster) operator(n *nodeProcess, status int, method, path, body string) shownSites {
	c.t.Helper()
	got := n.ask(c.t, method, path, body)
	var shown shownSites
	if err := json.Unmarshal([]byte(got.Body), &shown); got.Status != status || err != nil {
		c.t.Fatalf("%s %s %s: %d %s, %v", method, path, body, got.Status, got.Body, err)
	}
	return shown
}

// shownSites is what GET /topology tells of sites, or the code of a refusal.
type shownSites struct {
	Code, Detail, Site, Note string
	Sites                    []struct {
		Name            string
		Shards          []string
		Reached, Filled bool
		Behind          *float64 `json:"behind_seconds"`
	}
}

// settled reports whether all the named sites are reached and filled, and have been told of all changes.
func (s *shownSites) settled(names ...string) bool {
	for _, site := range s.Sites {
		if !slices.Contains(names, site.Name) || !site.Reached || !site.Filled || site.Behind == nil || *site.Behind > 0 {
			return false
		}
	}
	return len(s.Sites) == len(names)
}

// TestASecondSiteIsAdded: a cluster without sites that has timers and takes further ones gets a second site. The second
// site has all timers then, calls back what the first can't any more, and is removed when the first is back.
func TestASecondSiteIsAdded(t *testing.T) {
	t.Parallel()
	first, second := testkit.StartRedis(t), testkit.StartRedis(t)
	lon := []*nodeProcess{startNode(t, first.URL), startNode(t, first.URL)}
	c := &siteCluster{t: t, list: "main@lon=" + first.URL + ",other@nyc=" + second.URL}
	receiver, client := webhooktest.New(t), newAPI(t)
	const before, during = 300, 100
	made := map[string]bool{}
	create := func(n *nodeProcess, in time.Duration, opaque string) string {
		got := client.create(t, n, in, receiver.URL(), opaque)
		made[got.id.Key] = true
		return got.header.Get("X-Chronos-Sites")
	}
	for i := range before {
		create(lon[i%2], 25*time.Second, "before")
	}

	if got := c.operator(lon[0], http.StatusConflict, http.MethodPost, "/topology/sites/nyc/shards", `{"name":"other","url":"`+second.URL+`"}`); !strings.Contains(got.Detail, "name-site") {
		t.Errorf("a second site before the first has a name: %+v", got)
	}
	if got := c.operator(lon[0], http.StatusOK, http.MethodPost, "/topology/site", `{"name":"lon"}`); got.Site != "lon" {
		t.Errorf("named: %+v", got)
	}
	c.operator(lon[0], http.StatusOK, http.MethodPost, "/topology/sites/nyc/shards", `{"name":"other","url":"`+second.URL+`"}`)
	for i := range during {
		create(lon[i%2], 25*time.Second, "during")
	}
	nyc := awaitUp(t, testkit.Start(t, c.env("nyc"), binary))
	for _, n := range append(lon, nyc) {
		testkit.Eventually(t, 30*time.Second, "both sites have all timers", func() bool {
			shown := c.operator(n, http.StatusOK, http.MethodGet, "/topology", "")
			return shown.settled("lon", "nyc")
		})
	}
	c.nodes = map[string][]*nodeProcess{"nyc": {nyc}}
	c.awaitReady("nyc") // within a second of the fill
	for _, n := range append(lon, nyc) {
		if sites := create(n, 25*time.Second, "after"); sites != "2/2" {
			t.Errorf("a write of %s was told to the sites %q, want 2/2", n.admin, sites)
		}
	}
	if got := c.operator(lon[1], http.StatusConflict, http.MethodDelete, "/topology/sites/nyc", ""); !strings.Contains(got.Detail, "is in use: 1 of its nodes") {
		t.Errorf("the removal of a site in use: %+v", got)
	}
	if got := c.operator(nyc, http.StatusConflict, http.MethodPost, "/topology/site/init", ""); !strings.Contains(got.Detail, "lost all its timers") {
		t.Errorf("a beginning of a site with timers: %+v", got)
	}

	for _, n := range lon {
		n.Kill()
	}
	first.Kill()
	receiver.WaitFor(t, time.Minute, func(calls []webhooktest.Call) bool { return len(keysOf(calls)) == len(made) })
	if got := c.operator(nyc, http.StatusConflict, http.MethodDelete, "/topology/sites/lon", ""); !strings.Contains(got.Detail, "remove it with force") {
		t.Errorf("the removal of a lost site: %+v", got)
	}
	marks := func() int {
		keys, _ := second.Do("KEYS", "chronos:*:untold:lon").([]any)
		return len(keys)
	}
	if marks() == 0 {
		t.Error("no mark waits for the lost site")
	}
	if got := c.operator(nyc, http.StatusOK, http.MethodDelete, "/topology/sites/lon?force=true", ""); !got.settled("nyc") {
		t.Errorf("removed: %+v", got)
	}
	testkit.Eventually(t, 10*time.Second, "the last site is alone", func() bool { return create(nyc, time.Hour, "alone") == "" })
	testkit.Eventually(t, 20*time.Second, "no mark waits for the removed site", func() bool { return marks() == 0 })
}

// TestASiteBeginsWithoutTimers: a site that lost its timers waits for the other site, and begins without timers if the
// operator says so.
func TestASiteBeginsWithoutTimers(t *testing.T) {
	t.Parallel()
	c := startSites(t, 1, 1, "one", "two")
	one := c.nodes["one"][0]
	client := newAPI(t)
	if got := client.create(t, one, time.Hour, "http://127.0.0.1:1", ""); got.header.Get("X-Chronos-Sites") != "2/2" {
		t.Errorf("sites %q", got.header.Get("X-Chronos-Sites"))
	}
	c.kill("two")
	c.redis["one"][0].Do("FLUSHALL")
	testkit.Eventually(t, 20*time.Second, "the site waits", func() bool {
		ready, said := readiness(one.admin)
		return !ready && strings.Contains(said, "chronos topology init")
	})
	if got := client.do(http.MethodPost, one.url+"/timers", timerBody(time.Hour, "http://127.0.0.1:1", "")); got.status != http.StatusServiceUnavailable {
		t.Errorf("a create while the site waits: %d", got.status)
	}
	if got := c.operator(one, http.StatusOK, http.MethodPost, "/topology/site/init", ""); !strings.Contains(got.Note, "whose home was site one are given up") {
		t.Errorf("begun: %+v", got)
	}
	c.awaitReady("one")
	if got := client.create(t, one, time.Hour, "http://127.0.0.1:1", ""); got.header.Get("X-Chronos-Sites") != "1/2" {
		t.Errorf("sites %q, want 1/2: the other site is lost", got.header.Get("X-Chronos-Sites"))
	}
}
