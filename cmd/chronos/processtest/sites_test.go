package processtest

import (
	"fmt"
	"net/http"
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

func (c *siteCluster) env(site string, more ...string) []string {
	return nodeEnv(c.t, "", append([]string{"CHRONOS_REDIS=" + c.list, "CHRONOS_SITE=" + site}, more...)...)
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
	time.Sleep(8 * time.Second) // the copies of the other site come due
	calls := receiver.Calls()
	if len(calls) != timers {
		t.Errorf("%d callbacks, want %d", len(calls), timers)
	}
	for _, call := range calls {
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
	time.Sleep(4 * time.Second)
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
	time.Sleep(12 * time.Second)
	if calls := receiver.Calls(); len(calls) > 0 {
		t.Errorf("%d callbacks, the first: %s", len(calls), calls[0])
	}
}
