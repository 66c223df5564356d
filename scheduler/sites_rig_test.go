package scheduler_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"chronos/scheduler/settings"
	"chronos/scheduler/store"
	"chronos/scheduler/storetest"
	"chronos/scheduler/timer"
)

// siteNames are the sites of a siteTest.
var siteNames = []string{"east", "west"}

// siteNodes is how many nodes each site of a siteTest has.
const siteNodes = 2

// siteView is a node's store of one site, which knows the stores of the other sites. A guest's store knows no others.
type siteView struct {
	store.Store
	sites  store.Sites
	others map[string]store.Store
}

func (v *siteView) Sites() store.Sites { return v.sites }

func (v *siteView) Site(name string) store.Store { return v.others[name] }

// siteTest is a cluster of two sites, each with two shards and two nodes. All nodes call one recorder.
type siteTest struct {
	*testing.T
	*recorder

	tune   []func(*settings.Config)
	models map[string]*storetest.Model
	nodes  map[string][]*node
}

// inTwoSites runs a test in a bubble, once the sites know each other.
func inTwoSites(t *testing.T, test func(c *siteTest), tune ...func(*settings.Config)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := &siteTest{T: t, recorder: &recorder{}, tune: append([]func(*settings.Config){briefly}, tune...), models: map[string]*storetest.Model{}, nodes: map[string][]*node{}}
		for _, site := range siteNames {
			c.models[site] = storetest.NewModel(site+"-a", site+"-b")
		}
		for _, site := range siteNames {
			c.start(site)
		}
		pass(3 * time.Second)
		for _, site := range siteNames {
			if err := c.node(site).Ready(); err != nil {
				t.Fatalf("%s: %v", site, err)
			}
		}
		test(c)
	})
}

// start starts the nodes of a site.
func (c *siteTest) start(site string) {
	c.Helper()
	c.nodes[site] = nil
	for i := range siteNodes {
		name := fmt.Sprintf("%s-%d", site, i)
		own := &siteView{Store: c.models[site].Open(name), sites: store.Sites{Own: site, All: siteNames}, others: map[string]store.Store{}}
		for _, other := range siteNames {
			if other != site {
				own.others[other] = &siteView{Store: c.models[other].Open(name), sites: store.Sites{Own: other, All: siteNames}}
			}
		}
		c.nodes[site] = append(c.nodes[site], startNode(c.T, own, name, c.recorder, c.tune...))
	}
}

func (c *siteTest) stop(site string) {
	for _, n := range c.nodes[site] {
		n.stop()
	}
}

func (c *siteTest) node(site string) *node { return c.nodes[site][0] }

// connect changes the links from the nodes of a site to the shards of another site.
func (c *siteTest) connect(from, to string, link storetest.Link) {
	for i := range siteNodes {
		for _, shard := range c.shards(to) {
			c.models[to].Connect(fmt.Sprintf("%s-%d", from, i), shard, link)
		}
	}
}

// cut cuts all links between the sites.
func (c *siteTest) cut() (heal func()) {
	c.connect("east", "west", storetest.LinkCut)
	c.connect("west", "east", storetest.LinkCut)
	return func() {
		c.connect("east", "west", storetest.LinkUp)
		c.connect("west", "east", storetest.LinkUp)
	}
}

// cutOff cuts the links of one node of a site to another site.
func (c *siteTest) cutOff(site string, node int, other string) {
	for _, shard := range c.shards(other) {
		c.models[other].Connect(fmt.Sprintf("%s-%d", site, node), shard, storetest.LinkCut)
	}
}

func (c *siteTest) shards(site string) []string { return c.models[site].Open("probe").Shards() }

// create creates timers at a site.
func (c *siteTest) create(site string, n int, asked timer.Timer) (ids []timer.ID) {
	c.Helper()
	for range n {
		ids = append(ids, create(c.T, c.node(site), asked).ID)
	}
	return ids
}

// to is a timer with one pop, and with another receiver.
func to(uri string, interval time.Duration) timer.Timer {
	t := oneShot(interval)
	t.Callback.URI = uri
	return t
}

// copies are the states that the shards of a site have of a timer.
func (c *siteTest) copies(site, key string) (all []timer.State) {
	for _, shard := range c.shards(site) {
		if state, ok := c.models[site].Copies(shard)[key]; ok {
			all = append(all, state)
		}
	}
	return all
}

// empty wipes so many shards of a site.
func (c *siteTest) empty(site string, shards int) {
	for _, shard := range c.shards(site)[:shards] {
		c.models[site].Wipe(shard)
	}
}

// held is how many copies of timers a site has.
func (c *siteTest) held(site string, ids []timer.ID) (n int) {
	for _, id := range ids {
		n += len(c.copies(site, id.Key))
	}
	return n
}

// live is how many live copies of a version a site has.
func (c *siteTest) live(site string, id timer.ID, version timer.Version) (n int) {
	for _, state := range c.copies(site, id.Key) {
		if state.Version == version && !state.Ended {
			n++
		}
	}
	return n
}

// marked reports whether a site has marks for another site.
func (c *siteTest) marked(at, other string) bool {
	c.Helper()
	for _, shard := range c.shards(at) {
		oldest, err := c.models[at].Open("probe").OldestMark(c.Context(), shard, other)
		if err != nil {
			c.Fatal(err)
		}
		if oldest >= 0 {
			return true
		}
	}
	return false
}

// calls are the callbacks of one timer.
func (c *siteTest) calls(key string) (all []attempt) {
	for _, a := range c.seen() {
		if a.ID.Key == key {
			all = append(all, a)
		}
	}
	return all
}

// wantCalls checks that each timer was called once for each pop, by nodes of a site, from least to most after the time.
func (c *siteTest) wantCalls(ids []timer.ID, pops int, site, uri string, least, most time.Duration) {
	c.Helper()
	for _, id := range ids {
		seen := c.calls(id.Key)
		if len(seen) != pops {
			c.Errorf("%d callbacks of %s, want %d: %+v", len(seen), id, pops, seen)
			continue
		}
		for i, a := range seen {
			if a.Seq != i+1 || a.late < least || a.late > most || !strings.HasPrefix(a.node, site) || a.Callback.URI != uri {
				c.Errorf("callback %d of %s to %s is pop %d by %s, %v late; want it to %s by %s, %v to %v late", i+1, id, a.Callback.URI, a.Seq, a.node, a.late, uri, site, least, most)
			}
		}
	}
}

// wantNothingLeft checks that neither copies nor marks are left, once the tombstones have ended.
func (c *siteTest) wantNothingLeft() {
	c.Helper()
	pass(time.Minute)
	for _, site := range siteNames {
		for _, shard := range c.shards(site) {
			if all := c.models[site].Copies(shard); len(all) != 0 {
				c.Errorf("%d copies are left on %s", len(all), shard)
			}
		}
		for _, other := range siteNames {
			if c.marked(site, other) {
				c.Errorf("marks for %s are left in %s", other, site)
			}
		}
	}
}
