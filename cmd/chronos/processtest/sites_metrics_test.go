package processtest

import (
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"testing"
	"time"

	"chronos/scheduler/verify/testkit"
)

// siteMetric is the value of a node's metric about a site, and whether the metric has a series.
func siteMetric(t *testing.T, n *nodeProcess, metric, site string) (value float64, is bool) {
	t.Helper()
	got, err := testkit.Ask(nil, http.MethodGet, n.admin+"/metrics", "")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(fmt.Sprintf(`(?m)^chronos_site_%s\{site="%s"\} (\S+)$`, metric, site)).FindStringSubmatch(got.Body)
	if found == nil {
		return 0, false
	}
	if value, err = strconv.ParseFloat(found[1], 64); err != nil {
		t.Fatal(err)
	}
	return value, true
}

// TestMetricsOfSites follows the metrics of two sites through cuts with a write in each site, and through the loss of all data of a
// site.
func TestMetricsOfSites(t *testing.T) {
	t.Parallel()
	own := map[string]*testkit.Redis{"one": testkit.StartRedis(t), "two": testkit.StartRedis(t)}
	other := map[string]string{"one": "two", "two": "one"}
	links, nodes := map[string]*link{}, map[string]*nodeProcess{}
	for site, r := range own {
		links[site] = newLink(t, r.Address) // on which the other site comes
	}
	started := map[string]*testkit.Process{}
	for site, there := range other {
		started[site] = testkit.Start(t, nodeEnv(t, "", "CHRONOS_SITE="+site, fmt.Sprintf("CHRONOS_REDIS=%[1]s@%[1]s=%[2]s,%[3]s@%[3]s=%[4]s", site, own[site].URL, there, links[there].url())), binary)
	}
	for site, p := range started {
		nodes[site] = awaitNode(t, p)
	}
	c := siteCluster{t: t, nodes: map[string][]*nodeProcess{"one": {nodes["one"]}, "two": {nodes["two"]}}}
	c.awaitReady("one", "two")
	// await waits until a metric of each node about the other site holds.
	await := func(within time.Duration, metric string, holds func(value float64) bool) {
		t.Helper()
		for site, there := range other {
			testkit.Eventually(t, within, metric+" of the node of site "+site, func() bool {
				value, is := siteMetric(t, nodes[site], metric, there)
				return is && holds(value)
			})
		}
	}
	sum := func(metric string) (sum float64) {
		for site, there := range other {
			value, _ := siteMetric(t, nodes[site], metric, there)
			sum += value
		}
		return sum
	}
	is := func(want float64) func(float64) bool { return func(value float64) bool { return value == want } }
	await(testkit.Soon, "reached", is(1))
	await(testkit.Soon, "in_touch", is(1))
	await(testkit.Soon, "oldest_mark_seconds", is(0))
	client := newAPI(t)
	put := func(site, opaque, told string) {
		t.Helper()
		got := client.do(http.MethodPut, nodes[site].url+"/timers/disputed", timerBody(time.Hour, "http://127.0.0.1:9/", opaque))
		if got.err != nil || got.status != http.StatusOK || got.header.Get("X-Chronos-Sites") != told {
			t.Fatalf("PUT at site %s: %d %v, sites %q; want %s", site, got.status, got.err, got.header.Get("X-Chronos-Sites"), told)
		}
	}
	put("one", "first", "2/2")
	if value, is := siteMetric(t, nodes["one"], "unconfirmed_writes_total", "two"); is {
		t.Errorf("%v writes were not confirmed, without a cut", value)
	}

	// The site that hears of the other site's write first has the earlier write, and then the later.
	for round, first := range []string{"one", "two"} {
		cuts := float64(round + 1)
		for _, l := range links {
			l.set(linkCut)
		}
		await(testkit.Soon, "reached", is(0))
		put("one", "from one", "1/2")
		put("two", "from two", "1/2")
		await(testkit.Soon, "unconfirmed_writes_total", is(cuts))
		await(testkit.Soon, "in_touch", is(0))
		await(testkit.Soon, "oldest_mark_seconds", func(value float64) bool { return value > 2 && value < 30 })

		before := sum("marks_told_total")
		links[first].set(linkUp)
		testkit.Eventually(t, testkit.Soon, "site "+first+" is told", func() bool { return sum("marks_told_total") > before })
		if lost := sum("writes_lost_total"); lost != cuts {
			t.Errorf("%v writes were lost in %v cuts, where site %s hears first", lost, cuts, first)
		}
		links[other[first]].set(linkUp)
		await(testkit.Soon, "reached", is(1))
		await(testkit.Soon, "in_touch", is(1))
		await(testkit.Soon, "oldest_mark_seconds", is(0))
		if told, lost := sum("marks_told_total"), sum("writes_lost_total"); told > 2*cuts || lost != cuts {
			t.Errorf("%v marks were told, and %v writes were lost, in %v cuts", told, lost, cuts)
		}
	}

	own["two"].Do("FLUSHALL")
	hollow := func(want float64) func() bool {
		return func() bool {
			value, is := siteMetric(t, nodes["two"], "hollow", "two")
			return is && value == want
		}
	}
	testkit.Eventually(t, testkit.Soon, "site two waits for its timers", hollow(1))
	testkit.Eventually(t, testkit.Soon, "site two has its timers", hollow(0))
	if filled, _ := siteMetric(t, nodes["one"], "timers_filled_total", "two"); filled != 1 {
		t.Errorf("%v timers were brought to site two, want 1", filled)
	}
}
