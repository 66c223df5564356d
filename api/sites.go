package api

import (
	"context"
	"encoding/json"
	"io"
	"net/http"

	"chronos/api/tokens"
	"chronos/api/wire"
)

// Sites changes the sites of a cluster for the admin listener. Sites must be safe for concurrent use. Errors as of
// Topology.
type Sites interface {
	// NameSite names the site of a cluster without sites.
	NameSite(ctx context.Context, name string) (TopologyView, error)
	// AddTo adds a shard to another site. A new site begins with the shard. Force as of Topology.
	AddTo(ctx context.Context, site, name, url string, force bool) (TopologyView, error)
	// RemoveSite forgets another site. Force is needed if the site can't be reached, or has not told all.
	RemoveSite(ctx context.Context, name string, force bool) (TopologyView, error)
	// Begin has a site that lost all timers begin without timers. Force is needed if another site can fill the site.
	Begin(ctx context.Context, force bool) (TopologyView, error)
}

// serveSites serves changes of the sites on the admin listener.
func serveSites(mux *http.ServeMux, by gate, sites Sites) {
	handle := func(pattern string, do func(ctx context.Context, r *http.Request) (TopologyView, error)) {
		mux.Handle(pattern, by.lets(tokens.Admin, answeringTopology(do)))
	}
	handle("POST /topology/site", func(ctx context.Context, r *http.Request) (TopologyView, error) {
		asked, err := readMember(r, `send {"name": "london"}`)
		if err != nil {
			return TopologyView{}, err
		}
		if asked.URL != "" {
			return TopologyView{}, wire.NewProblem(http.StatusBadRequest, "body-malformed", `a site has no URL; send {"name": "london"}`)
		}
		noteSite(ctx, asked.Name)
		return sites.NameSite(ctx, asked.Name)
	})
	handle("POST /topology/site/init", func(ctx context.Context, r *http.Request) (TopologyView, error) {
		return forcibly(ctx, r, func(ctx context.Context, _ string, force bool) (TopologyView, error) { return sites.Begin(ctx, force) })
	})
	handle("POST /topology/sites/{name}/shards", func(ctx context.Context, r *http.Request) (TopologyView, error) {
		asked, err := readMember(r, shardWanted)
		if err != nil {
			return TopologyView{}, err
		}
		noteShard(ctx, asked.Name)
		return forcibly(ctx, r, func(ctx context.Context, site string, force bool) (TopologyView, error) {
			return sites.AddTo(ctx, site, asked.Name, asked.URL, force)
		})
	})
	handle("DELETE /topology/sites/{name}", func(ctx context.Context, r *http.Request) (TopologyView, error) {
		return forcibly(ctx, r, sites.RemoveSite)
	})
}

// member is a shard or a site that a request names.
type member struct{ Name, URL string }

const shardWanted = `send {"name": "d", "url": "redis://host:6379"}; the URL may be left out for a shard that is being drained`

// readMember reads the body of a change of the topology; wanted is the advice for a malformed body.
func readMember(r *http.Request, wanted string) (asked member, err error) {
	decoder := json.NewDecoder(io.LimitReader(r.Body, maxTopologyBody))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&asked); err != nil || asked.Name == "" {
		return asked, wire.NewProblem(http.StatusBadRequest, "body-malformed", wanted)
	}
	return asked, nil
}
