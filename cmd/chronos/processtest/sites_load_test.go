package processtest

import (
	"math/rand/v2"
	"testing"
	"time"

	"chronos/scheduler/verify/testkit"
)

// TestSitesUnderLoad runs two sites with real nodes and Redis servers under load, and makes a site, or the link between
// the sites, fail.
func TestSitesUnderLoad(t *testing.T) {
	t.Parallel()
	testkit.Program(t, "redis-server")
	p := plan{full: *faultsFull, keep: *faultsKeep, test: "TestSitesUnderLoad"}
	for _, c := range []struct {
		name   string
		inject func(*siteRig)
	}{
		{"site-killed", (*siteRig).killAndReturn},
		{"link-cut", (*siteRig).cutForSeconds},
		{"link-cut-for-long", (*siteRig).cutForLong},
		{"site-wiped", (*siteRig).wipeAndFill},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &scenario{name: c.name, shards: 2, sites: []string{"east", "west"}, mix: p.siteMix}
			runSites(t, s, p, c.inject)
		})
	}
}

// siteMix has many updates and deletes, some on a condition, of timers that are due soon and of timers that wait.
func (p plan) siteMix(m *mix) {
	m.rate, m.recurring, m.deletes, m.replaces, m.waiting, m.conditions = 200, 0.15, 0.15, 0.2, 0.05, 0.3
	m.longest, m.longestRecurring = 10*time.Second, 3500*time.Millisecond
}

func (r *siteRig) anySite() string { return r.scenario.sites[rand.IntN(len(r.scenario.sites))] }

func (r *siteRig) killAndReturn() {
	r.killSite(r.anySite(), r.plan.seconds(10, 20))
	r.wait(3 * time.Second)
}

func (r *siteRig) cutForSeconds() {
	r.cutSites("site-link-cut", []linkState{linkCut, linkHole}[rand.IntN(2)], 10*time.Second)
	r.wait(3 * time.Second)
}

// cutForLong cuts the link for longer than the tombstones live that ends leave: of timers that were called back 10 s, and
// in a full run also of deleted timers, 2 minutes.
func (r *siteRig) cutForLong() {
	r.cutSites("site-link-cut", []linkState{linkCut, linkHole}[rand.IntN(2)], r.plan.seconds(25, 150))
	r.wait(3 * time.Second)
}

func (r *siteRig) wipeAndFill() {
	r.wait(3 * time.Second)
	r.wipeSite(r.anySite())
	r.wait(5 * time.Second)
}
