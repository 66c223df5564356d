package topology

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"chronos/scheduler/store"
)

// london is a topology of the site lon, with the other site nyc.
func london() Topology {
	l := firstTopology(&Options{
		Given: []Member{{"a", "redis://a"}, {"b", "redis://b"}}, Site: "lon", Others: []Site{{Name: "nyc", Shards: []Member{{"c", "redis://c"}}}},
	})
	l.Epoch, l.Change = 7, "change"
	return l
}

func wantRefused(t *testing.T, what string, err error, want string) {
	t.Helper()
	var refused *RefusedError
	if !errors.As(err, &refused) || !strings.Contains(refused.Reason, want) {
		t.Errorf("%s: %v, want it refused: %s", what, err, want)
	}
}

func TestASiteIsNamedOnce(t *testing.T) {
	t.Parallel()
	before := firstTopology(&Options{Given: []Member{{"a", "redis://a"}}})
	named, err := before.nameSite("lon")
	if err != nil || named.Site != "lon" || before.Site != "" {
		t.Fatalf("%+v, %v", named, err)
	}
	if diff := cmp.Diff(store.Sites{Own: "lon", All: []string{"lon"}}, sitesOf(&named)); diff != "" {
		t.Error(diff)
	}
	wantRefused(t, "again", named.RefuseName("lon"), "the site is named lon already")
	wantRefused(t, "another name", named.RefuseName("nyc"), "a site keeps its name")
	for _, name := range []string{"", "-", "a b", "a/b", strings.Repeat("x", 65)} {
		wantRefused(t, name, before.RefuseName(name), "1 to 64 of")
	}
}

func TestASiteIsAdded(t *testing.T) {
	t.Parallel()
	l := london()
	par := Site{Name: "par", Shards: []Member{{"d", "redis://d"}}}
	next, err := l.addSite(par)
	if err != nil || !next.Knows("par") || l.Knows("par") || len(next.Sites) != 2 {
		t.Fatalf("%+v, %v", next, err)
	}
	if diff := cmp.Diff(store.Sites{Own: "lon", All: []string{"lon", "nyc", "par"}}, sitesOf(&next)); diff != "" {
		t.Error(diff)
	}
	without := firstTopology(&Options{Given: []Member{{"a", "redis://a"}}})
	wantRefused(t, "no own site", without.RefuseSite(par), "chronos topology name-site NAME")
	for want, other := range map[string]Site{
		"1 to 64 of":                           {Name: "a b", Shards: par.Shards},
		"there is a site lon":                  {Name: "lon", Shards: par.Shards},
		"there is a site nyc":                  {Name: "nyc", Shards: par.Shards},
		"name a shard of site par":             {Name: "par"},
		"want a name and a Redis URL":          {Name: "par", Shards: []Member{{"d", "http://d"}}},
		"site lon has a shard a":               {Name: "par", Shards: []Member{{"a", "redis://d"}}},
		"site nyc has a shard c":               {Name: "par", Shards: []Member{{"c", "redis://d"}}},
		"shard b of site lon has this URL":     {Name: "par", Shards: []Member{{"d", "redis://:x@b:6379/0"}}},
		"shard c of site nyc has this URL":     {Name: "par", Shards: []Member{{"d", "redis://c"}}},
		"shard - of site par: want a name and": {Name: "par", Shards: []Member{{"-", "redis://d"}}},
	} {
		wantRefused(t, want, l.RefuseSite(other), want)
	}
}

func TestASiteIsRemoved(t *testing.T) {
	t.Parallel()
	l := london()
	next, err := l.removeSite("nyc")
	if err != nil || next.Knows("nyc") || !l.Knows("nyc") {
		t.Fatalf("%+v, %v", next, err)
	}
	wantRefused(t, "the own site", l.RefuseRemoval("lon"), "through a node of another site")
	wantRefused(t, "an unknown site", l.RefuseRemoval("par"), "there is no site par; the other sites are nyc")
	wantRefused(t, "the last but one", next.RefuseRemoval("nyc"), "this cluster has no other sites")
}

func TestATopologyWithSitesIsRead(t *testing.T) {
	t.Parallel()
	l := london()
	text, err := l.encode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := decodeTopology(text)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&l, got); diff != "" {
		t.Error(diff)
	}
	for name, spoil := range map[string]func(l *Topology){
		"other sites without an own site": func(l *Topology) { l.Site = "" },
		"a bad own name":                  func(l *Topology) { l.Site = "a b" },
		"a bad other name":                func(l *Topology) { l.Sites[0].Name = "a b" },
		"the own name twice":              func(l *Topology) { l.Sites[0].Name = "lon" },
		"another name twice":              func(l *Topology) { l.Sites = append(l.Sites, l.Sites[0]) },
		"a site without shards":           func(l *Topology) { l.Sites[0].Shards = nil },
		"a shard without a name":          func(l *Topology) { l.Sites[0].Shards[0].Name = "" },
		"a shard without a Redis URL":     func(l *Topology) { l.Sites[0].Shards[0].URL = "http://c" },
	} {
		bad := london()
		spoil(&bad)
		text, err := bad.encode()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := decodeTopology(text); !errors.Is(err, errTopology) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestTheLastShardOfASiteStays: the last shard that takes timers is not drained, with other sites as without.
func TestTheLastShardOfASiteStays(t *testing.T) {
	t.Parallel()
	l := london()
	drained, err := l.drain("a", false)
	if err != nil {
		t.Fatal(err)
	}
	drained = drained.enact()
	_, err = drained.drain("b", false)
	wantRefused(t, "the last shard", err, "add another first")
	if !slices.Equal(drained.Active, []string{"b"}) || drained.Site != "lon" || len(drained.Sites) != 1 {
		t.Errorf("%+v", drained)
	}
}

// A guest follows a site that has lost all shards and begun anew: the new topology has an earlier epoch, and other shards.
func TestAGuestFollowsASiteThatBeginsAnew(t *testing.T) {
	t.Parallel()
	l := layOut(t, "a", "b", "c")
	before := l.topology(7, "before", "a", "b", "c")
	before.Cluster = "first"
	for _, name := range []string{"a", "b", "c"} {
		l.hold(name, before)
	}
	guest := l.open("a", "b", "c")
	guest.o.Guest = true
	guest.look(t.Context())
	if is := guest.Topology(); is.Epoch != 7 || guest.Writable() != nil {
		t.Fatalf("epoch %d, %v; want 7", is.Epoch, guest.Writable())
	}
	after := l.topology(1, "after", "a", "b")
	after.Cluster = "after"
	for _, name := range []string{"a", "b", "c"} {
		l.redis[name].Do("FLUSHALL")
	}
	l.hold("a", after)
	guest.look(t.Context())
	if is := guest.Topology(); is.Epoch != 7 {
		t.Fatalf("the guest follows the topology of one shard of two, epoch %d", is.Epoch)
	}
	l.hold("b", after)
	guest.look(t.Context())
	if is := guest.Topology(); is.Epoch != 1 || !slices.Equal(is.Active, []string{"a", "b"}) || guest.Writable() != nil {
		t.Errorf("epoch %d of %v, %v; want epoch 1 of a and b", is.Epoch, is.Active, guest.Writable())
	}
}
