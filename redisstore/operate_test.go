package redisstore

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"chronos/redisstore/endpoint"
	"chronos/redisstore/topology"
	"chronos/scheduler/store"
	"chronos/scheduler/timer"
	"chronos/scheduler/verify/testkit"
)

// siteNode is a further node of a site, which was told of the shards of all sites, and which does not announce itself.
func (l *stores) siteNode(site string, shards map[string][]string) *Store {
	l.Helper()
	o := Options{
		Node: "node-" + string(rune('0'+len(l.nodes))), Lane: "http", Log: slog.New(slog.NewTextHandler(l.Output(), nil)), announced: 2 * time.Second, drained: time.Nanosecond, Site: site,
	}
	for name, names := range shards {
		other := Site{Name: name}
		for _, shard := range names {
			other.Shards = append(other.Shards, shardOf(shard, l.redis[shard]))
		}
		if name == site {
			o.Shards = other.Shards
		} else {
			o.Others = append(o.Others, other)
		}
	}
	return l.start(o)
}

func (l *stores) member(name string) topology.Member {
	return topology.Member{Name: name, URL: l.redis[name].URL}
}

func wantReason(t *testing.T, what string, err error, want string) {
	t.Helper()
	var refused *topology.RefusedError
	if !errors.As(err, &refused) || !strings.Contains(refused.Reason, want) {
		t.Errorf("%s: %v, want it refused: %s", what, err, want)
	}
}

func wantFilled(t *testing.T, s *Store, shard string, want ...string) {
	t.Helper()
	got, err := s.Filled(t.Context(), shard)
	slices.Sort(got)
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("shard %s was filled from %v (%v), want %v", shard, got, err, want)
	}
}

func awaitSites(t *testing.T, s *Store, want ...string) {
	t.Helper()
	testkit.Eventually(t, testkit.Soon, "the sites are "+strings.Join(want, ","), func() bool {
		return slices.Equal(s.Sites().All, want) && !slices.ContainsFunc(want, func(site string) bool {
			return site != s.Sites().Own && (s.Guest(site) == nil || s.Guest(site).Writable() != nil)
		})
	})
}

// TestSitesComeOneByOne: a cluster that runs without sites gets a name, a second site, and a third; each site hears of all
// others, and no known shard looks emptied to a new site.
func TestSitesComeOneByOne(t *testing.T) {
	t.Parallel()
	l := storesOn(t, "a", "b", "c", "d", "e", "f")
	s, other := l.node("a", "b"), l.node("a", "b")
	wantReason(t, "a site before the own", s.AddShardTo(t.Context(), "nyc", l.member("c"), false), "name it first")
	wantReason(t, "a bad name", s.NameSite(t.Context(), "a b"), "1 to 64 of")
	if err := s.NameSite(t.Context(), "lon"); err != nil {
		t.Fatal(err)
	}
	awaitSites(t, other, "lon")
	wantFilled(t, s, "a", "lon")
	wantFilled(t, s, "b", "lon")
	wantReason(t, "a second name", other.NameSite(t.Context(), "par"), "keeps its name")

	if err := s.AddShardTo(t.Context(), "nyc", l.member("c"), false); err != nil {
		t.Fatal(err)
	}
	awaitSites(t, other, "lon", "nyc")
	awaitSites(t, s, "lon", "nyc")
	wantFilled(t, s, "a", "lon", "nyc")
	wantFilled(t, s, "b", "lon", "nyc")
	wantFilled(t, s.Guest("nyc"), "c")
	if now := s.Guest("nyc").Topology(); now.Site != "nyc" || now.Epoch != 1 || !slices.Equal(now.Active, []string{"c"}) || !now.Knows("lon") {
		t.Errorf("the topology of nyc is %+v", now)
	}

	// A further shard of nyc, which a node there has count.
	nyc := l.siteNode("nyc", map[string][]string{"lon": {"a"}, "nyc": {"c"}})
	if err := nyc.NoteFilled(t.Context(), "c", "", []string{"lon", "begun:par:1"}); err != nil {
		t.Fatal(err)
	}
	if err := s.AddShardTo(t.Context(), "nyc", l.member("d"), false); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, 10*time.Second, "nyc has two shards", func() bool { return slices.Equal(nyc.Topology().Active, []string{"c", "d"}) })
	wantFilled(t, nyc, "d", "lon")

	// A further shard of the own site, named and not named.
	if err := s.AddShardTo(t.Context(), "lon", l.member("e"), false); err != nil {
		t.Fatal(err)
	}
	wantFilled(t, s, "e", "lon", "nyc")

	for want, m := range map[string]topology.Member{
		"site nyc has a shard d":           {Name: "d", URL: l.redis["f"].URL},
		"shard d of site nyc has this URL": {Name: "x", URL: l.redis["d"].URL},
	} {
		_, err := s.AddShard(t.Context(), m, false)
		wantReason(t, "a shard of this site", err, want)
		wantReason(t, "a shard of par", s.AddShardTo(t.Context(), "par", m, false), want)
	}

	if err := s.AddShardTo(t.Context(), "par", l.member("f"), false); err != nil {
		t.Fatal(err)
	}
	for _, node := range []*Store{s, other, nyc} {
		awaitSites(t, node, "lon", "nyc", "par")
	}
	wantFilled(t, nyc, "d", "lon", "par")
	wantFilled(t, s, "a", "lon", "nyc", "par")
	if now := s.Guest("par").Topology(); !now.Knows("lon") || !now.Knows("nyc") {
		t.Errorf("the topology of par is %+v", now)
	}
}

// TestAnEmptySiteStaysEmpty: no change of the topology says of a site that waits for a fill that the site has its timers.
func TestAnEmptySiteStaysEmpty(t *testing.T) {
	t.Parallel()
	l := storesOn(t, "a", "c", "d", "e")
	s := l.node("a")
	if err := s.NameSite(t.Context(), "lon"); err != nil {
		t.Fatal(err)
	}
	for site, shard := range map[string]string{"nyc": "c", "par": "d"} {
		if err := s.AddShardTo(t.Context(), site, l.member(shard), false); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.AddShardTo(t.Context(), "nyc", l.member("e"), false); err != nil { // at once: the node has just heard of the site
		t.Fatal(err)
	}
	wantFilled(t, s.Guest("nyc"), "c")
	wantFilled(t, s.Guest("nyc"), "e")
	wantFilled(t, s.Guest("par"), "d")
	if err := s.RemoveSite(t.Context(), "par", false); err != nil {
		t.Fatal(err)
	}
	wantFilled(t, s, "a", "lon", "nyc", "par")
	awaitSites(t, s, "lon", "nyc")
	testkit.Eventually(t, 20*time.Second, "the second shard of nyc counts before nyc has nodes", func() bool {
		return slices.Equal(s.Guest("nyc").Topology().Active, []string{"c", "e"})
	})
}

// TestATopologyWithoutTheSiteIsWarnedAbout: a cluster without sites does not get a site by CHRONOS_SITE alone.
func TestATopologyWithoutTheSiteIsWarnedAbout(t *testing.T) {
	t.Parallel()
	l := storesOn(t, "a", "c")
	l.node("a")
	var log testkit.Log
	o := Options{
		Node: "late", Lane: "http", Log: slog.New(slog.NewTextHandler(&log, nil)), Site: "lon",
		Shards: []endpoint.Config{shardOf("a", l.redis["a"])}, Others: []Site{{Name: "nyc", Shards: []endpoint.Config{shardOf("c", l.redis["c"])}}},
	}
	s := l.start(o)
	if sites := s.Sites(); sites.Own != "" || !strings.Contains(log.String(), `told=lon site=""`) {
		t.Errorf("%+v, log: %s", sites, log.String())
	}
}

// TestFirstShardsThatAreRefused: the first shard of a new site must be an empty Redis that no cluster uses.
func TestFirstShardsThatAreRefused(t *testing.T) {
	t.Parallel()
	l := storesOn(t, "a", "b", "c", "d")
	s := l.node("a")
	if err := s.NameSite(t.Context(), "lon"); err != nil {
		t.Fatal(err)
	}
	awaitSites(t, s, "lon")
	add := func(name string, force bool) error { return s.AddShardTo(t.Context(), "nyc", l.member(name), force) }
	l.node("b")
	wantReason(t, "a shard of another cluster", add("b", true), "belongs to another chronos")
	old := l.siteNode("nyc", map[string][]string{"nyc": {"c"}, "lon": {"a"}})
	if err := old.NoteFilled(t.Context(), "c", "", []string{"lon"}); err != nil {
		t.Fatal(err)
	}
	wantReason(t, "timers of an earlier site", add("c", true), "has timers of an earlier site nyc")
	twin := topology.Member{Name: "t", URL: strings.TrimSuffix(l.redis["a"].URL, "/0") + "?db=1"}
	var refused *topology.RefusedError
	if err := s.AddShardTo(t.Context(), "nyc", twin, false); !errors.As(err, &refused) || refused.Code != topology.CodeSameRedis {
		t.Errorf("a second database of one Redis: %v", err)
	}
	l.redis["d"].Kill()
	wantReason(t, "a Redis that is away", add("d", true), "can't be read")
	if now := s.Topology(); len(now.Sites) > 0 || now.Epoch != 2 {
		t.Errorf("a refused change was made: %+v", now)
	}
	if err := s.AddShardTo(t.Context(), "nyc", twin, true); err != nil {
		t.Errorf("a second database of one Redis, by force: %v", err)
	}
}

// TestSitesAreRemoved: without force only a site that is reached, has no nodes, and has told all changes is removed.
func TestSitesAreRemoved(t *testing.T) {
	t.Parallel()
	l := storesOn(t, "a", "c", "d")
	shards := map[string][]string{"lon": {"a"}, "nyc": {"c"}, "par": {"d"}}
	s, nyc, par := l.siteNode("lon", shards), l.siteNode("nyc", shards), l.siteNode("par", shards)
	for _, node := range l.nodes {
		awaitSites(t, node, "lon", "nyc", "par")
	}
	remove := func(name string, force bool) error { return s.RemoveSite(t.Context(), name, force) }
	wantReason(t, "the own site", remove("lon", true), "is this one")
	wantReason(t, "an unknown site", remove("rom", true), "the other sites are")

	if _, err := nyc.Beat(t.Context(), "c", store.Announcement{Clock: time.Now(), Format: timer.LastFormat}); err != nil {
		t.Fatal(err)
	}
	wantReason(t, "a site with a node", remove("nyc", false), "1 of its nodes work")
	testkit.Eventually(t, 10*time.Second, "the node is forgotten", func() bool {
		err := remove("nyc", false)
		if err == nil {
			t.Fatal("removed")
		}
		if !strings.Contains(err.Error(), "in use") {
			return true
		}
		if err := nyc.Mark(t.Context(), "c", []store.Mark{{Site: "par", Key: "k"}}); err != nil { // before the node is forgotten
			t.Fatal(err)
		}
		return false
	})
	wantReason(t, "a site that has not told all", remove("nyc", false), "that site par has not been told of")
	if err := nyc.Unmark(t.Context(), "c", []store.ToldMark{{Mark: store.Mark{Site: "par", Key: "k"}}}); err != nil {
		t.Fatal(err)
	}
	if err := remove("nyc", false); err != nil {
		t.Fatal(err)
	}
	awaitSites(t, s, "lon", "par")
	awaitSites(t, par, "lon", "par")

	l.redis["d"].Kill()
	testkit.Eventually(t, 20*time.Second, "par is not reached", func() bool { return s.Guest("par").Writable() != nil })
	wantReason(t, "a lost site", remove("par", false), "if it is gone for good, remove it with force")
	if err := remove("par", true); err != nil {
		t.Fatal(err)
	}
	awaitSites(t, s, "lon")
	wantReason(t, "again", remove("par", true), "no other sites")
}

// TestALostSiteIsRemovedThoughAnotherIsLost: by force a site goes although a second lost site can't be told.
func TestALostSiteIsRemovedThoughAnotherIsLost(t *testing.T) {
	t.Parallel()
	l := storesOn(t, "a", "c", "d")
	s := l.siteNode("lon", map[string][]string{"lon": {"a"}, "nyc": {"c"}, "par": {"d"}})
	if got := s.Sites().All; !slices.Equal(got, []string{"lon", "nyc", "par"}) {
		t.Fatal(got)
	}
	l.redis["c"].Kill()
	l.redis["d"].Kill()
	wantReason(t, "a new site", s.AddShardTo(t.Context(), "rom", topology.Member{Name: "x", URL: "redis://127.0.0.1:1"}, true), "has to know the new site")
	for _, name := range []string{"nyc", "par"} {
		if err := s.RemoveSite(context.WithoutCancel(t.Context()), name, true); err != nil {
			t.Fatal(err)
		}
	}
	awaitSites(t, s, "lon")
}
