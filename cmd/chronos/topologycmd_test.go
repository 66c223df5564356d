package main

import (
	"strings"
	"testing"

	"chronos/api"
)

func TestShowTopology(t *testing.T) {
	t.Parallel()
	resting := api.TopologyView{Epoch: 3, View: "eaa6", Shards: []api.ShardView{
		{Name: "a", URL: "redis://r1", State: "active", Copies: new(int64(12)), Swept: new(.25)},
		{Name: "b", URL: "redis://r2", State: "active", Problem: "it can't be reached"},
	}}
	moving, announced := resting, resting
	moving.Moving, announced.Moving = true, true
	announced.Shards = append([]api.ShardView{{Name: "c", URL: "redis://r3", State: "joining", Copies: new(int64(0)), Swept: new(0.)}}, resting.Shards...)
	for _, c := range []struct {
		view api.TopologyView
		want string
	}{
		{resting, `
epoch 3, cluster-view-id eaa6, at rest

NAME  STATE   COPIES  SWEPT  URL         PROBLEM
a     active  12      -      redis://r1  
b     active  ?       -      redis://r2  it can't be reached
`},
		{moving, `
epoch 3, cluster-view-id eaa6, timers are being moved

NAME  STATE   COPIES  SWEPT               URL         PROBLEM
a     active  12      [###.......]  25 %  redis://r1  
b     active  ?       ?                   redis://r2  it can't be reached
`},
		{announced, `
epoch 3, cluster-view-id eaa6, a change is being announced to all nodes

NAME  STATE    COPIES  SWEPT               URL         PROBLEM
c     joining  0       [..........]   0 %  redis://r3  
a     active   12      [###.......]  25 %  redis://r1  
b     active   ?       ?                   redis://r2  it can't be reached
`},
	} {
		var out strings.Builder
		showTopology(&out, c.view)
		if got := "\n" + out.String(); got != c.want {
			t.Errorf("shown:\n%s\nwant:\n%s", got, c.want)
		}
	}
}

func TestTopologyCommandsAskForForce(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"":                              "GET /topology ",
		"show --watch":                  "GET /topology ",
		"add d redis://r4/1":            `POST /topology/shards {"name":"d","url":"redis://r4/1"}`,
		"add d redis://r4/1 --force":    `POST /topology/shards?force=true {"name":"d","url":"redis://r4/1"}`,
		"add d":                         `POST /topology/shards {"name":"d"}`,
		"add d --force":                 `POST /topology/shards?force=true {"name":"d"}`,
		"drain d --force":               "POST /topology/shards/d/drain?force=true ",
		"drain d":                       "POST /topology/shards/d/drain ",
		"remove d --force":              "DELETE /topology/shards/d?force=true ",
		"add":                           "",
		"add --force":                   "",
		"add d redis://r4 more":         "",
		"add d redis://r4 more --force": "",
		"remove d more":                 "",
	} {
		got := ""
		if method, path, body, ok := topologyRequest(strings.Fields(args)); ok {
			got = method + " " + path + " " + body
		}
		if got != want {
			t.Errorf("%q asks %q, want %q", args, got, want)
		}
	}
}
