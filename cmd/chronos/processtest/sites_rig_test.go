package processtest

import (
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"chronos/scheduler/verify/heldup"
	"chronos/scheduler/verify/history"
	"chronos/scheduler/verify/testkit"
)

// siteDelay is how long bytes take from a site to another site.
const siteDelay = 10 * time.Millisecond

// startSites starts the shards and nodes of sites. Every node speaks to the shards of other sites through links.
func (c *cluster) startSites(scenario *scenario) {
	c.t.Helper()
	names := scenario.shardNames()
	for i, name := range names {
		s := &shardProcess{name: name, Redis: testkit.NewRedis(c.t), site: scenario.sites[i*len(scenario.sites)/len(names)]}
		c.shards = append(c.shards, s)
		c.startShard(s)
	}
	for _, site := range scenario.sites {
		for i := range 2 {
			m := &member{name: site + "-n" + strconv.Itoa(i+1), build: binary, site: site}
			var list []string
			for _, s := range c.shards {
				url := s.URL
				if s.site != site {
					l := newLink(c.t, s.Address)
					l.slow(siteDelay, siteDelay)
					m.links = append(m.links, l)
					url = l.url()
				}
				list = append(list, s.name+"@"+s.site+"="+url)
			}
			m.env = append([]string{"CHRONOS_REDIS=" + strings.Join(list, ","), "CHRONOS_SITE=" + site}, scenario.env...)
			c.nodes = append(c.nodes, m)
		}
	}
	c.startNodes(c.nodes)
}

// startNodes starts nodes together, and returns when all are ready.
func (c *cluster) startNodes(members []*member) {
	var starts sync.WaitGroup
	for _, m := range members {
		starts.Go(func() { c.startNode(m) })
	}
	starts.Wait()
}

// ofSite are the nodes and shards of a site.
func (c *cluster) ofSite(site string) (nodes []*member, shards []*shardProcess) {
	for _, m := range c.nodes {
		if m.site == site {
			nodes = append(nodes, m)
		}
	}
	for _, s := range c.shards {
		if s.site == site {
			shards = append(shards, s)
		}
	}
	return nodes, shards
}

// siteRig is a run of a scenario of sites.
type siteRig struct {
	*rig
	faults []siteFault
}

// runSites runs the load and the faults of a scenario, and judges the recording.
func runSites(t *testing.T, s *scenario, p plan, inject func(*siteRig)) {
	r := &siteRig{rig: newRig(t, s, p)}
	r.moved = true // the owners of a site alone say nothing
	watched := r.watch()
	stop := r.load.start()
	r.wait(warmUp)
	inject(r)
	stop()
	r.loadedAt = time.Now()
	r.awaitDue()
	r.awaitAlike()
	watched()
	r.wantNoMarks()
	h := r.finish()
	r.wantAsked(&h)
	r.cluster.end()
	r.judgeRun(&h)
}

// fault records a fault, until back is called.
func (r *siteRig) fault(kind, site string, wiped bool) (back func()) {
	f := siteFault{site: site, wiped: wiped, from: r.now()}
	end := r.journal.begin(history.Fault{Kind: kind, Class: history.Harmless})
	return func() {
		end()
		f.to = r.now()
		r.faults = append(r.faults, f)
		r.t.Logf("%s from %v to %v", kind, f.from.Round(time.Millisecond), f.to.Round(time.Millisecond))
	}
}

// cutSites cuts the link between the sites: connections end, or stay and carry nothing.
func (r *siteRig) cutSites(kind string, state linkState, lasts time.Duration) {
	back := r.fault(kind, "", false)
	each := func(state linkState) {
		for _, m := range r.cluster.nodes {
			for _, l := range m.links {
				l.set(state)
			}
		}
	}
	each(state)
	r.wait(lasts)
	r.t.Logf("%d marks at the end of the cut", len(r.marks(time.Now())))
	each(linkUp)
	back()
	r.awaitNoMarks(time.Now())
}

// killSite ends all nodes and shards of a site, and starts them again with their data.
func (r *siteRig) killSite(site string, lasts time.Duration) {
	nodes, shards := r.cluster.ofSite(site)
	back := r.fault("site-killed", site, false)
	for _, m := range nodes {
		r.cluster.withdraw(m)
		m.Kill()
	}
	for _, s := range shards {
		s.Kill()
	}
	r.wait(lasts)
	for _, s := range shards {
		r.cluster.startShard(s)
	}
	r.cluster.startNodes(nodes)
	back()
	r.awaitNoMarks(time.Now())
}

// wipeSite restarts all shards of a site at once without their data, while the nodes live.
func (r *siteRig) wipeSite(site string) {
	nodes, shards := r.cluster.ofSite(site)
	back := r.fault("site-wiped", site, true)
	for _, s := range shards {
		s.Kill()
	}
	for _, s := range shards {
		s.wipe(r.t)
		r.cluster.startShard(s)
	}
	r.wait(2 * time.Second) // a node notices an empty shard within a second
	for _, m := range nodes {
		testkit.Eventually(r.t, 30*time.Second, "a node of the wiped site is ready", func() bool {
			ready, _ := readiness(m.admin)
			return ready
		})
	}
	back()
	r.awaitNoMarks(time.Now())
}

// marks are the marks of before an instant, of timers that another site was not told of.
func (r *siteRig) marks(before time.Time) (marks []string) {
	r.t.Helper()
	for _, s := range r.cluster.shards {
		keys, err := s.Admin.Keys(r.t.Context(), "chronos:{http.*}:untold:*").Result()
		if err != nil {
			continue // the shard is down
		}
		for _, key := range keys {
			found, err := s.Admin.ZRangeArgs(r.t.Context(), redis.ZRangeArgs{Key: key, ByScore: true, Start: "-inf", Stop: before.UnixMilli()}).Result()
			if err != nil {
				r.t.Fatal(err)
			}
			for _, mark := range found {
				marks = append(marks, fmt.Sprintf("%s %s %s", s.name, key, mark))
			}
		}
	}
	return marks
}

// awaitNoMarks waits, under load, until no mark is left of before an instant.
func (r *siteRig) awaitNoMarks(before time.Time) {
	r.t.Helper()
	left := r.marks(before)
	within := 10*time.Second + time.Duration(len(left))*time.Millisecond
	if testkit.Await(r.t, within, "the sites have been told of all that they missed", func() bool { left = r.marks(before); return len(left) == 0 }) {
		r.t.Logf("no mark is left %v after the fault", time.Since(before).Round(100*time.Millisecond))
		return
	}
	r.t.Logf("%d marks are left: %q", len(left), left[:min(len(left), 10)])
}

// wantNoMarks makes sure that nothing is left of marks once nothing is written any more.
func (r *siteRig) wantNoMarks() {
	r.t.Helper()
	var left []string
	if !testkit.Await(r.t, 5*time.Second, "no mark is left", func() bool {
		left = r.marks(time.Now())
		for _, s := range r.cluster.shards {
			keys, err := s.Admin.Keys(r.t.Context(), "chronos:{http.*}:marked").Result()
			if err != nil {
				r.t.Fatal(err)
			}
			for _, key := range keys {
				left = append(left, s.name+" "+key)
			}
		}
		return len(left) == 0
	}) {
		r.t.Logf("%d marks are left: %q", len(left), left[:min(len(left), 10)])
	}
}

// awaitAlike waits until all shards of all sites have the same live timers: with two shards a site and two copies, every
// shard has a copy of every timer. A write without a clear answer may have reached some shards alone, and nobody is told of
// that write before the timer is due or a sweep comes.
func (r *siteRig) awaitAlike() {
	r.t.Helper()
	answered := map[string]bool{}
	r.journal.add(func(h *history.History) {
		for key, o := range lastWrites(h) {
			answered[key] = o.Outcome == history.OK
		}
	})
	begun, differs := time.Now(), ""
	for time.Since(begun) < 20*time.Second {
		c, err := r.cluster.readContents(r.t.Context())
		if err != nil {
			r.t.Fatal(err)
		}
		if differs = r.unlike(&c, answered); differs == "" {
			r.t.Logf("the sites are alike %v after the last pop was due, with %d copies of %d timers", time.Since(begun).Round(100*time.Millisecond), c.live, len(answered))
			return
		}
		r.wait(time.Second)
	}
	r.t.Errorf("the sites are not alike: %s", differs)
}

// unlike says how the shards differ in the timers whose last write had a clear answer; "" if all are alike.
func (r *siteRig) unlike(c *contents, answered map[string]bool) string {
	states, lives := map[string]map[string][]string{}, map[string]bool{} // by key, then by state: the shards
	for i := range c.copies {
		one := &c.copies[i]
		if one.Leased {
			return fmt.Sprintf("%s is leased on %s", one.Key, one.Shard)
		}
		state := fmt.Sprintf("%s pop %d attempt %d", one.Version, one.Seq, one.Attempt)
		if one.Ended {
			state += " ended"
		} else {
			lives[one.Key] = true
		}
		if states[one.Key] == nil {
			states[one.Key] = map[string][]string{}
		}
		states[one.Key][state] = append(states[one.Key][state], one.Shard)
	}
	var wrong []string
	for key := range lives {
		of := states[key]
		if !answered[key] {
			continue
		}
		if shards := slices.Collect(maps.Values(of)); len(shards) > 1 || len(shards[0]) != len(r.cluster.shards) {
			wrong = append(wrong, fmt.Sprintf("%s: %v", key, of))
		}
	}
	slices.Sort(wrong)
	if len(wrong) == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d timers: %s", len(wrong), len(lives), strings.Join(wrong[:min(len(wrong), 10)], "; "))
}

// lastWrites are the latest writes to each key, other than creates without an answer, which name no key.
func lastWrites(h *history.History) map[string]*history.Operation {
	last := map[string]*history.Operation{}
	for i := range h.Operations {
		o := &h.Operations[i]
		if o.Kind == history.Get || keyOf(o) == "" {
			continue
		}
		if before := last[keyOf(o)]; before == nil || before.InvokeNs < o.InvokeNs {
			last[keyOf(o)] = o
		}
	}
	return last
}

// wantAsked makes sure that the timers that are left are the timers that the last answers promise.
func (r *siteRig) wantAsked(h *history.History) {
	r.t.Helper()
	last := lastWrites(h)
	found := map[string]string{}
	for i := range h.Copies {
		if c := &h.Copies[i]; !c.Ended {
			found[c.Key] = c.URL
		}
	}
	wanted, judge := 0, &siteJudge{faults: r.faults}
	for key, o := range last {
		switch url, there := found[key]; {
		case o.Outcome != history.OK || judge.forgotten(o):
		case o.Kind == history.Delete && there:
			r.t.Errorf("%s was deleted through %s at %v (%d untold), and is there: %s", key, o.Node, time.Duration(o.ReturnNs), o.Answer.Untold, url)
		case o.Timer != nil && waits(o.Timer):
			if wanted++; url != o.Timer.URL {
				r.t.Errorf("%s was written through %s at %v (%d untold), want %s, found %q", key, o.Node, time.Duration(o.ReturnNs), o.Answer.Untold, o.Timer.URL, url)
			}
		case o.Timer != nil && there:
			r.t.Errorf("%s is over, and is there: %s", key, url)
		}
	}
	r.t.Logf("%d timers wait at the end, %d of them by an answer", len(found), wanted)
	if wanted < 20 {
		r.t.Errorf("%d timers wait at the end: too few", wanted)
	}
}

// judgeRun judges the history, and prints the figures.
func (r *siteRig) judgeRun(h *history.History) {
	r.t.Helper()
	if r.plan.keep != "" {
		if err := os.MkdirAll(r.plan.keep, 0o755); err != nil {
			r.t.Error(err)
		}
		if err := h.Keep(filepath.Join(r.plan.keep, r.scenario.name+".jsonl")); err != nil {
			r.t.Error(err)
		}
		r.keepLogs()
	}
	j := &siteJudge{h: h, faults: r.faults, heldUp: r.heldUp, slack: heldup.Slack(r.heldUp)}
	judgeSites(j)
	refused, untold, inFlight := 0, 0, 0
	for i := range h.Operations {
		switch o := &h.Operations[i]; {
		case o.Status == 0 || o.Status >= http.StatusInternalServerError:
			refused++
		case o.Answer != nil && o.Answer.Untold > 0:
			untold++
		case o.Answer != nil && o.Answer.InFlight:
			inFlight++
		}
	}
	r.t.Logf("%s: %d requests, %d refused or without an answer, %d told one site alone, %d in flight; %d callbacks, %d pops had to come, worst lateness %v without a fault and %v amid faults, %d came again, %d of outdated versions, %d pops left out; %d conditions; the test itself was held up for %v at most",
		r.scenario.name, len(h.Operations), refused, untold, inFlight, len(h.Callbacks), j.obligatory, j.worst.Round(time.Millisecond), j.worstFault.Round(time.Millisecond),
		j.twice, j.outdated, j.skipped, j.conditional, r.heldUp)
	for i, v := range j.violations {
		if i == 20 {
			r.t.Errorf("and %d more violations", len(j.violations)-i)
			break
		}
		r.t.Error(v)
	}
	if j.obligatory < 500 || untold+refused < 100 || j.conditional < 100 {
		r.t.Errorf("%d pops had to come, %d requests told one site alone, %d were refused, and %d had a condition: too few", j.obligatory, untold, refused, j.conditional)
	}
}
