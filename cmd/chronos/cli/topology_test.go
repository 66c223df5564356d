package cli

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"chronos/api/client"
)

func TestShowTopology(t *testing.T) {
	t.Parallel()
	resting := client.Topology{Epoch: 3, View: "eaa6", Shards: []client.TopologyShard{
		{Name: "a", URL: "redis://r1", State: "active", Copies: new(int64(12)), Swept: new(.25)},
		{Name: "b", URL: "redis://r2", State: "active", Problem: "can't be reached"},
	}}
	moving, announced := resting, resting
	moving.Moving, announced.Moving = true, true
	announced.Shards = append([]client.TopologyShard{{Name: "c", URL: "redis://r3", State: "joining", Copies: new(int64(0)), Swept: new(0.)}}, resting.Shards...)
	sites := client.Topology{Epoch: 4, View: "eaa6", Shards: resting.Shards[:1], Site: "lon", Note: "much is given up", Sites: []client.TopologySite{
		{Name: "lon", Shards: []string{"a"}, Reached: true, Filled: true, Behind: new(0.)},
		{Name: "nyc", Shards: []string{"c", "d"}, Reached: true, Behind: new(75.25)},
		{Name: "par", Shards: []string{"e"}},
	}}
	for _, c := range []struct {
		view client.Topology
		left string
		want string
	}{
		{sites, "", `
epoch 4, cluster-view-id eaa6, at rest

NAME  STATE   COPIES  SWEPT  URL         PROBLEM
a     active  12      -      redis://r1

this node is of site lon

SITE  REACHED  FILLED  BEHIND   INSTANCES
lon   yes      yes     0s       a
nyc   yes      no      1m15.3s  c,d
par   no       no      ?        e

much is given up
`},
		{resting, "", `
epoch 3, cluster-view-id eaa6, at rest

NAME  STATE   COPIES  SWEPT  URL         PROBLEM
a     active  12      -      redis://r1
b     active  ?       -      redis://r2  can't be reached
`},
		{moving, ", 1.5 % a second, some 50s left", `
epoch 3, cluster-view-id eaa6, timers are being moved, 1.5 % a second, some 50s left

NAME  STATE   COPIES  SWEPT               URL         PROBLEM
a     active  12      [###.......]  25 %  redis://r1
b     active  ?       ?                   redis://r2  can't be reached
`},
		{announced, "", `
epoch 3, cluster-view-id eaa6, a change is being announced to all nodes

NAME  STATE    COPIES  SWEPT               URL         PROBLEM
c     joining  0       [..........]   0 %  redis://r3
a     active   12      [###.......]  25 %  redis://r1
b     active   ?       ?                   redis://r2  can't be reached
`},
	} {
		var out strings.Builder
		showTopology(&out, &c.view, c.left)
		if got := "\n" + out.String(); got != c.want {
			t.Errorf("shown:\n%s\nwant:\n%s", got, c.want)
		}
	}
}

func TestPace(t *testing.T) {
	t.Parallel()
	var p pace
	view := func(swept float64) *client.Topology {
		return &client.Topology{Shards: []client.TopologyShard{{Swept: new(1.)}, {Swept: new(swept)}, {}}}
	}
	if got := p.left(view(.2), now); got != "" {
		t.Errorf("at first %q", got)
	}
	if got := p.left(view(.5), now.Add(10*time.Second)); got != ", 3.0 % a second, some 17s left" {
		t.Errorf("later %q", got)
	}
	if got := p.left(view(.1), now.Add(20*time.Second)); got != "" {
		t.Errorf("after another change %q", got)
	}
}

func TestTopologyRequests(t *testing.T) {
	t.Parallel()
	var got string
	listener := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = strings.TrimSpace(r.Method + " " + r.URL.String() + " " + string(body))
		_, _ = io.WriteString(w, `{"epoch":1,"cluster-view-id":"v","shards":[]}`)
	}))
	defer listener.Close()
	r := &rig{t: t, url: listener.URL}
	for args, want := range map[string]string{
		"":                            "GET /topology",
		"show --watch":                "GET /topology",
		"add d redis://r4/1":          `POST /topology/shards {"name":"d","url":"redis://r4/1"}`,
		"add d redis://r4/1 --force":  `POST /topology/shards?force=true {"name":"d","url":"redis://r4/1"}`,
		"add d":                       `POST /topology/shards {"name":"d"}`,
		"add --force d":               `POST /topology/shards?force=true {"name":"d"}`,
		"drain d --force --wait":      "POST /topology/shards/d/drain?force=true",
		"drain d":                     "POST /topology/shards/d/drain",
		"remove d --force":            "DELETE /topology/shards/d?force=true",
		"remove a/b":                  "DELETE /topology/shards/a%2Fb",
		"add d redis://r4 --site nyc": `POST /topology/sites/nyc/shards {"name":"d","url":"redis://r4"}`,
		"add d --site nyc --force":    `POST /topology/sites/nyc/shards?force=true {"name":"d"}`,
		"name-site lon":               `POST /topology/site {"name":"lon"}`,
		"remove-site nyc":             "DELETE /topology/sites/nyc",
		"remove-site nyc --force":     "DELETE /topology/sites/nyc?force=true",
		"init":                        "POST /topology/site/init",
		"init --force":                "POST /topology/site/init?force=true",
	} {
		if r.run(Done, "topology "+args); got != want {
			t.Errorf("%q asks %q, want %q", args, got, want)
		}
	}
	got = ""
	for _, args := range []string{"add", "add --force", "add d redis://r4 more", "remove d more", "show d", "move d", "drain", "show --force", "name-site", "name-site a b", "remove-site", "init nyc", "add d --site"} {
		if out, errs := r.run(Misused, "topology "+args); out != "" || strings.Count(errs, "\n") != 1 || got != "" {
			t.Errorf("%s: %s%s, asked %s", args, out, errs, got)
		}
	}
}

func TestTopologyOfACluster(t *testing.T) {
	t.Parallel()
	r := serve(t, sample())
	if out, _ := r.run(Done, "topology"); !strings.Contains(out, "at rest") || !strings.Contains(out, "redis://rb:6379/0") {
		t.Error(out)
	}
	if out, _ := r.run(Done, "topology --json"); !strings.HasPrefix(out, `{"epoch":`) {
		t.Error(out)
	}
	if _, errs := r.run(Refused, "topology drain z"); !strings.Contains(errs, "no shard of this name") {
		t.Error(errs)
	}
	r.run(Done, "topology drain b")
	if out, _ := r.run(Done, "topology show"); !strings.Contains(out, "b     draining") {
		t.Error(out)
	}
}
