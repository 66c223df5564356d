// Package operator lets an admin listener show and change the topology.
package operator

import (
	"context"
	"errors"

	"chronos/api"
	"chronos/redisstore"
	"chronos/redisstore/topology"
	"chronos/scheduler/site"
	"chronos/scheduler/store"
)

// Operator is an api.Topology that shows and changes the store's topology.
type Operator struct {
	Store *redisstore.Store
	// Sites are the sites of the cluster, which an Operator with Sites shows and changes, too; nil for a process that
	// knows one site alone.
	Sites *site.Sites
}

var _ api.Topology = Operator{}

// Show tells the state of all shards.
func (o Operator) Show(ctx context.Context) api.TopologyView {
	found := o.Store.Inspect(ctx)
	view := api.TopologyView{Epoch: found.Epoch, View: found.View, Moving: found.Moving, Site: o.Store.Topology().Site, Sites: o.sites(ctx)}
	for i := range found.Shards {
		r := &found.Shards[i]
		shown := api.ShardView{Name: r.Name, URL: r.URL, State: r.State, Problem: r.Problem}
		if r.Err == nil {
			shown.Copies, shown.Swept = new(r.Copies), new(float64(r.Swept)/store.Partitions)
		}
		view.Shards = append(view.Shards, shown)
	}
	return view
}

// Add makes a shard take timers.
func (o Operator) Add(ctx context.Context, name, url string, force bool) (api.TopologyView, error) {
	_, err := o.Store.AddShard(ctx, topology.Member{Name: name, URL: url}, force)
	return o.after(ctx, err)
}

// Drain moves the timers of a shard to the rest of the shards.
func (o Operator) Drain(ctx context.Context, name string, force bool) (api.TopologyView, error) {
	_, err := o.Store.DrainShard(ctx, name, force)
	return o.after(ctx, err)
}

// Remove removes a shard that is drained and empty, or any shard by force.
func (o Operator) Remove(ctx context.Context, name string, force bool) (api.TopologyView, error) {
	_, err := o.Store.RemoveShard(ctx, name, force)
	return o.after(ctx, err)
}

func (o Operator) after(ctx context.Context, err error) (api.TopologyView, error) {
	if refused, is := errors.AsType[*topology.RefusedError](err); is {
		return api.TopologyView{}, &api.RefusedError{Reason: refused.Reason, Code: refused.Code}
	}
	if err != nil {
		return api.TopologyView{}, err
	}
	return o.Show(ctx), nil
}
