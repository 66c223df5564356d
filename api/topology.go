package api

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"chronos/api/tokens"
	"chronos/api/wire"
)

// Topology shows and changes the shards for the admin listener. A Topology must be safe for
// concurrent use. A *RefusedError means that nothing was changed. After any further error, the
// change may or may not have been made.
type Topology interface {
	// Show asks all shards for their state.
	Show(ctx context.Context) TopologyView
	// Add announces a shard; url is "" for a shard that is being drained. Force is needed for a
	// second database of a Redis that already has a shard.
	Add(ctx context.Context, name, url string, force bool) (TopologyView, error)
	// Drain has a shard's timers moved to the remaining shards. Force is needed if the shard can't
	// be reached.
	Drain(ctx context.Context, name string, force bool) (TopologyView, error)
	// Remove forgets a shard that is drained and empty. With force, Remove forgets any shard.
	Remove(ctx context.Context, name string, force bool) (TopologyView, error)
}

// TopologyView is the topology as the admin listener shows the topology.
type TopologyView = wire.TopologyView

// ShardView is a shard of the topology.
type ShardView = wire.ShardView

// SiteView is a site of the cluster.
type SiteView = wire.SiteView

// RefusedError says why a change can't be made, and what to do.
type RefusedError = wire.RefusedError

const (
	topologyPatience = 8 * time.Second
	maxTopologyBody  = 4 << 10
)

// serveTopology serves the topology on the admin listener.
func serveTopology(mux *http.ServeMux, by gate, topology Topology) {
	handle := func(pattern string, need tokens.Role, do func(ctx context.Context, r *http.Request) (TopologyView, error)) {
		mux.Handle(pattern, by.lets(need, answeringTopology(do)))
	}
	handle("GET /topology", openRead, func(ctx context.Context, _ *http.Request) (TopologyView, error) {
		return topology.Show(ctx), nil
	})
	handle("POST /topology/shards", tokens.Admin, func(ctx context.Context, r *http.Request) (TopologyView, error) {
		asked, err := readMember(r, shardWanted)
		if err != nil {
			return TopologyView{}, err
		}
		noteShard(ctx, asked.Name)
		return forcibly(ctx, r, func(ctx context.Context, _ string, force bool) (TopologyView, error) {
			return topology.Add(ctx, asked.Name, asked.URL, force)
		})
	})
	handle("POST /topology/shards/{name}/drain", tokens.Admin, func(ctx context.Context, r *http.Request) (TopologyView, error) {
		return forcibly(ctx, r, topology.Drain)
	})
	handle("DELETE /topology/shards/{name}", tokens.Admin, func(ctx context.Context, r *http.Request) (TopologyView, error) {
		return forcibly(ctx, r, topology.Remove)
	})
}

// answeringTopology answers with the topology after do.
func answeringTopology(do func(ctx context.Context, r *http.Request) (TopologyView, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), topologyPatience)
		defer cancel()
		view, err := do(ctx, r)
		if err != nil {
			answerProblem(w, wire.TopologyProblem(err))
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		_ = json.NewEncoder(w).Encode(view) // an error means that the client has disconnected
	})
}

// forcibly calls do with the shard that the path names, and with force if the query says so.
func forcibly(ctx context.Context, r *http.Request, do func(ctx context.Context, name string, force bool) (TopologyView, error)) (TopologyView, error) {
	force := r.URL.Query().Get("force")
	if force != "" && force != "true" && force != "false" {
		return TopologyView{}, wire.NewProblem(http.StatusBadRequest, "force-malformed", "force is true or false")
	}
	return do(ctx, r.PathValue("name"), force == "true")
}
